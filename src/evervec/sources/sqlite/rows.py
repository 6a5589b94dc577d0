"""Reads a table's rows by key, and its keys in order, inside the caller's transaction."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from evervec.errors import Permanent
from evervec.model import Document, Id, Plain, decode_id, encode_id, show_id
from evervec.sources.sqlite.connection import VALUE_BYTES_MAX
from evervec.sources.sqlite.names import each, fill, quoted
from evervec.sources.sqlite.shape import Part, Shape


class Rows:
    """The documents of one table."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._width = len(shape.key)
        columns = dict.fromkeys(
            (*(part.name for part in shape.key), *shape.fields.values(), *shape.metadata.values())
        )
        places = {name: place for place, name in enumerate(columns)}
        self._fields = [(name, places[column]) for name, column in shape.fields.items()]
        self._metadata = [(name, places[column]) for name, column in shape.metadata.items()]
        self._read = fill(
            "read",
            {
                "columns": each("column", columns, ", "),
                "table": quoted(shape.table),
                "where": self._where(*(compared("equal", part) for part in shape.key)),
            },
        )
        self._pages = [self._page(depth) for depth in range(self._width + 1)]

    def documents(
        self, connection: sqlite3.Connection, ids: Sequence[Id]
    ) -> tuple[dict[Id, Document], dict[Id, Exception]]:
        """Return the rows that exist, and those that are too large to be read with their reason."""
        found: dict[Id, Document] = {}
        broken: dict[Id, Exception] = {}
        for document in ids:
            try:
                row = self.read(connection, document)
            except sqlite3.DataError:
                broken[document] = Permanent(
                    f"row {show_id(document)} of {self.shape.table!r} holds a value of more than "
                    f"{VALUE_BYTES_MAX:,} bytes",
                    hint="spread it over several rows, or leave the row out (--where, where=)",
                )
                continue
            if row is not None:
                found[document] = row
        return found, broken

    def read(self, connection: sqlite3.Connection, document: Id) -> Document | None:
        """Return the row whose key is exactly *document*, type and letters, or None."""
        key = key_of(document, self._width)
        if key is None:
            return None
        try:
            rows = connection.execute(self._read, key).fetchall()
        except (OverflowError, UnicodeEncodeError, sqlite3.ProgrammingError):
            # No row can have such a key: SQLite itself cannot hold the value.
            return None
        except sqlite3.OperationalError as error:
            if not _undecodable(error):
                raise
            with texts(connection, _lenient):
                rows = connection.execute(self._read, key).fetchall()
        for row in rows:
            # The column's collation or affinity may find 'a' for 'A', or 1 for '1'.
            if id_of(row[: self._width]) == document:
                return Document(
                    document,
                    {name: row[place] for name, place in self._fields},
                    {name: row[place] for name, place in self._metadata},
                )
        return None

    def scan(self, connection: sqlite3.Connection, after: Id | None, limit: int) -> list[Id]:
        """Return up to *limit* ids behind *after* in the order of the key's index."""
        key = () if after is None else key_of(after, self._width) or ()
        ids: list[Id] = []
        # Behind (a, b) come first the rows (a, more than b), then those with more than a: each
        # a range of the index, where one comparison of pairs would not always be.
        for depth in range(len(key), 0, -1) if key else (0,):
            if len(ids) < limit:
                ids += self._range(connection, depth, key[:depth], limit - len(ids))
        return ids

    def _range(
        self, connection: sqlite3.Connection, depth: int, bounds: Sequence[Any], limit: int
    ) -> list[Id]:
        try:
            return [id_of(row) for row in connection.execute(self._pages[depth], (*bounds, limit))]
        except sqlite3.OperationalError as error:
            if not _undecodable(error):
                raise
        # A key that is not text in any encoding names no document. Pages grow until one holds
        # something, since an empty answer would be taken for the end.
        with texts(connection, text_or_none):
            while True:
                rows = connection.execute(self._pages[depth], (*bounds, limit)).fetchall()
                ids = [id_of(row) for row in rows if None not in row]
                if ids or len(rows) < limit:
                    return ids
                limit *= 2

    def _page(self, depth: int) -> str:
        """Return the statement for rows equal in the first *depth* - 1 columns and beyond in the next."""
        key = self.shape.key
        bounds = [compared("equal", part) for part in key[: max(0, depth - 1)]]
        if depth:
            last = key[depth - 1]
            bounds.append(compared("below" if last.descending else "above", last))
        names = (part.name for part in key)
        return fill(
            "scan",
            {
                "keys": each("column", (part.name for part in key), ", "),
                "table": quoted(self.shape.table),
                "where": self._where(*bounds, each("present", names, " and ")),
                "order": ", ".join(
                    compared("downwards" if part.descending else "upwards", part) for part in key
                ),
            },
        )

    def _where(self, *conditions: str) -> str:
        shape = self.shape
        more = () if shape.where is None else (fill("where", {"where": shape.where}),)
        return " and ".join((*conditions, *more))


def compared(template: str, part: Part) -> str:
    return fill(template, {"column": quoted(part.name), "collation": quoted(part.collation)})


def id_of(key: Sequence[Any]) -> Id:
    value: Plain = key[0] if len(key) == 1 else tuple(key)
    return encode_id(value)


def key_of(document: Id, width: int) -> tuple[Any, ...] | None:
    value = decode_id(document)
    key = value if isinstance(value, tuple) else (value,)
    return key if len(key) == width else None


def _undecodable(error: sqlite3.OperationalError) -> bool:
    return str(error).startswith("Could not decode")


@contextmanager
def texts(connection: sqlite3.Connection, decode: Any) -> Iterator[None]:
    """Read text by *decode*; by the library's own way it must be valid UTF-8."""
    usual, connection.text_factory = connection.text_factory, decode
    try:
        yield
    finally:
        connection.text_factory = usual


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def text_or_none(text: bytes) -> str | None:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return None

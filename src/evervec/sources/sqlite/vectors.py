"""Each row's vector in a column of the row itself: float32, little-endian, one after another."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from evervec.errors import ConfigError, SourceError
from evervec.model import Document, Id
from evervec.ports import Vector, Wanted
from evervec.sources.sqlite.capture import Capture, transaction
from evervec.sources.sqlite.names import each, fill, quoted
from evervec.sources.sqlite.rows import Rows, compared, id_of, key_of, text_or_none, texts


class Vectors:
    """The column of one table."""

    def __init__(self, rows: Rows) -> None:
        shape = rows.shape
        self._rows = rows
        self._width = len(shape.key)
        slots = {
            "table": quoted(shape.table),
            "keys": each("column", (part.name for part in shape.key), ", "),
            "into": quoted(shape.into or ""),
            "where": " and ".join(compared("equal", part) for part in shape.key),
        }
        self._read = fill("vector", slots)
        self._write = fill("write_vector", slots)

    def read(
        self, connection: sqlite3.Connection, ids: Iterable[Id]
    ) -> list[tuple[Document, object]]:
        """Return the rows that are there, each with what its column holds, in the caller's snapshot."""
        documents = (self._rows.read(connection, id_) for id_ in ids)
        return [
            (document, self._held(connection, document.id))
            for document in documents
            if document is not None
        ]

    def written(
        self,
        connection: sqlite3.Connection,
        values: Mapping[Id, bytes | None],
        *,
        log: Capture,
        top: int,
    ) -> dict[Id, str]:
        """Write *values* in one transaction; return each row with why it refused, if it did.

        Their rows were read when *top* was the newest row of the *log*: what was logged since has
        perhaps another text, and a job of its own.
        """
        answers: dict[Id, str] = {}
        with transaction(connection, write=True):
            if not log.is_installed(connection):
                raise SourceError("the table changed while vectors were on their way into it")
            _, changed = log.since(connection, top)
            for id_ in values.keys() - changed.keys():
                answers[id_] = self._refusal(connection, id_, values[id_])
        return answers

    def _refusal(self, connection: sqlite3.Connection, document: Id, value: bytes | None) -> str:
        try:
            connection.execute(self._write, (value, *(key_of(document, self._width) or ())))
        except sqlite3.IntegrityError as error:
            # A constraint or a trigger of the user's: this row's trouble alone.
            return str(error)
        return ""

    def _held(self, connection: sqlite3.Connection, document: Id) -> object:
        # Whatever somebody else left in the column, also what is text in no encoding.
        with texts(connection, text_or_none):
            rows = connection.execute(self._read, key_of(document, self._width) or ()).fetchall()
        return next((value for *key, value in rows if id_of(key) == document), None)


def differing(
    rows: Iterable[tuple[Document, object]],
    wanted: Mapping[Id, Wanted],
    digest_of: Callable[[Document], bytes],
) -> dict[Id, bytes | None]:
    """Return what has to be written: other vectors than the rows hold, of the very texts they have.

    No transaction is open: nobody waits for a lock while long texts are rendered.
    """
    found: dict[Id, bytes | None] = {}
    for document, held in rows:
        want = wanted[document.id]
        value = None if want.vector is None else packed(want.vector)
        if held != value and digest_of(document) == want.digest:
            found[document.id] = value
    return found


def packed(vector: Vector) -> bytes:
    return np.ascontiguousarray(vector, "<f4").tobytes()


def refuse_unwritable(column: str | None, why: str) -> None:
    """Raise ConfigError if a column is named and there is a reason *why* it cannot be written."""
    if column and why:
        raise ConfigError(
            f"column {column!r} cannot be written: {why}",
            hint="give this user the right to write the file, or leave --into out",
        )

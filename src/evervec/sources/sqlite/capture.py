"""The triggers and the log that lie in a user's file: how they are made, told apart and removed."""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from evervec.model import Id
from evervec.sources.sqlite.connection import connect, plain_words
from evervec.sources.sqlite.names import TEMPLATES, each, fill, quoted
from evervec.sources.sqlite.rows import id_of, text_or_none, texts
from evervec.sources.sqlite.shape import Shape

RING_ROWS = 1 << 20
"""How many log rows are kept at least, consumed or not."""
TRIM_ROWS = 4096
"""The log is trimmed once in so many appends, so that an append stays cheap."""
ROWS_AN_ID = 8
"""A document edited a thousand times is a thousand log rows and one id."""
ALL = -1
"""A limit that is none."""
TAIL_ROWS = 32
"""How many rows a stamp is made of."""

_TRIGGERS = ("insert", "delete", "update", "move", "append")


@dataclass(frozen=True, slots=True)
class Row:
    """A log row's number, and a stamp made of it and the keys logged before it.

    In a restored copy the row with this number has another stamp, unless the copy was written to
    since in just the same order of keys; then `verify` has to find what differs.
    """

    seq: int
    stamp: int


@contextmanager
def transaction(connection: sqlite3.Connection, *, write: bool = False) -> Iterator[None]:
    """Run the block in one transaction: one snapshot, and with *write* all or nothing."""
    connection.execute(TEMPLATES["begin_write" if write else "begin"])
    try:
        yield
        if write:
            connection.execute(TEMPLATES["commit"])
    finally:
        if connection.in_transaction:
            connection.execute(TEMPLATES["rollback"])


class Capture:
    """What one token owns in the file. Two tokens on one table do not know of each other."""

    def __init__(self, shape: Shape, *, token: str, ring: int = RING_ROWS) -> None:
        self._shape = shape
        self._token = token
        self._ring = ring
        self._log = log_name(token)
        self._columns = tuple(f"k{place}" for place in range(1, len(shape.key) + 1))
        self.definitions = self._define()
        """Every object's name with the statement that makes it, the log first."""

    def is_installed(self, connection: sqlite3.Connection) -> bool:
        """Return whether exactly our triggers and log are there, word for word."""
        return _existing(connection, self._token) == {
            name: _plain(sql) for name, sql in self.definitions.items()
        }

    def install(self, connection: sqlite3.Connection) -> None:
        """Put everything in place, in the caller's write transaction.

        A log that already has the right columns is kept with its rows.
        """
        existing = _existing(connection, self._token)
        keep = existing.get(self._log) == _plain(self.definitions[self._log])
        _drop_triggers(connection, existing, but=self._log)
        if not keep:
            connection.execute(fill("drop_log", {"log": quoted(self._log)}))
        for name, sql in self.definitions.items():
            if not (keep and name == self._log):
                connection.execute(sql)
        connection.execute(fill("start", {"log": quoted(self._log)}))

    def last(self, connection: sqlite3.Connection) -> Row:
        """Return the newest row of the log."""
        found = connection.execute(fill("last", {"log": quoted(self._log)})).fetchone()
        return self.row(connection, found[0]) if found else Row(0, 0)

    def top(self, connection: sqlite3.Connection) -> int:
        """Return the number of the newest row."""
        found = connection.execute(fill("last", {"log": quoted(self._log)})).fetchone()
        return int(found[0]) if found else 0

    def row(self, connection: sqlite3.Connection, seq: int) -> Row:
        """Return the row of this number with its stamp; the stamp is 0 if it is gone."""
        statement = fill("tail", {"log": quoted(self._log)})
        with texts(connection, bytes):
            tail = connection.execute(statement, (seq, TAIL_ROWS)).fetchall()
        if not tail or tail[0][0] != seq:
            return Row(seq, 0)
        digest = hashlib.blake2b(repr(tail).encode(), digest_size=6).digest()
        return Row(seq, int.from_bytes(digest, "big"))

    def holds(self, connection: sqlite3.Connection, row: Row) -> bool:
        """Return whether *row* is still in the log, and still the same."""
        return row.stamp != 0 and self.row(connection, row.seq) == row

    def since(
        self, connection: sqlite3.Connection, seq: int, *, ids_max: int = ALL
    ) -> tuple[int, dict[Id, None]]:
        """Return the ids that were logged behind number *seq*, and the number of the last read."""
        ids: dict[Id, None] = {}
        last = seq
        limit = ids_max if ids_max == ALL else max(1, ids_max) * ROWS_AN_ID
        statement = fill("since", {"log": quoted(self._log)})
        with (
            texts(connection, text_or_none),
            closing(connection.execute(statement, (seq + 1, limit))) as log,
        ):
            for number, *key in log:
                if len(ids) == ids_max:
                    break
                last = number
                if None not in key:
                    ids[id_of(key)] = None
        return last, ids

    def _define(self) -> dict[str, str]:
        shape = self._shape
        slots: dict[str, str | int] = {
            "log": quoted(self._log),
            "table": quoted(shape.table),
            "keys": ", ".join(self._columns),
            "new": each("new", self._key_names, ", "),
            "old": each("old", self._key_names, ", "),
            "own": each("column", self._key_names, ", "),
            "ring": self._ring,
            "every": max(1, min(TRIM_ROWS, self._ring // 4)),
        }
        made = {self._log: fill("log", slots)}

        def add(template: str, name: str, more: dict[str, str | int]) -> None:
            made[name] = fill(template, slots | more | {"name": quoted(name)})

        names = {kind: _trigger_name(self._token, kind) for kind in _TRIGGERS}
        add("on_append", names["append"], {})
        add("on_insert", names["insert"], {})
        add("on_delete", names["delete"], {})
        add("on_update", names["update"], self._changed(shape.watched))
        add("on_move", names["move"], self._changed(self._key_names))
        for number, parts in enumerate(shape.clashes, start=1):
            changed = self._changed(tuple(part.name for part in parts))
            same = " and ".join(
                fill("same", {"column": quoted(part.name), "collation": quoted(part.collation)})
                for part in parts
            )
            for kind, template in (("clash", "on_clash_insert"), ("push", "on_clash_update")):
                name = _trigger_name(self._token, f"{kind}_{number}")
                add(template, name, {**changed, "same": same})
        return made

    @property
    def _key_names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self._shape.key)

    def _changed(self, names: Sequence[str]) -> dict[str, str | int]:
        """Return the column list that wakes a trigger, and the condition that lets it act."""
        shape = self._shape
        untyped = [name for name in names if shape.columns[name].untyped]
        conditions = [each("differs", names, " or ")]
        if untyped:
            conditions.append(each("differs_in_type", untyped, " or "))
        listed = list(names)
        if shape.rowid and shape.key[0].name in names:
            # `update … set rowid = …` is an update of the key in another word.
            listed += [alias for alias in ("rowid", "oid", "_rowid_") if alias not in listed]
        # No statement names a generated column; it changes with others.
        generated = any(shape.columns[name].generated for name in names)
        columns = each("column", listed, ", ")
        return {
            "columns": "" if generated else fill("of", {"columns": columns}),
            "differs": " or ".join(conditions),
        }


def remove_from(path: Path, token: str, *, busy_seconds: float) -> None:
    """Drop all that *token* owns in the file. One that is gone has nothing of it."""
    if not path.exists():
        return
    with plain_words(path), closing(connect(str(path), busy_seconds=busy_seconds)) as connection:
        existing = _existing(connection, token)
        if existing:
            with transaction(connection, write=True):
                _drop_triggers(connection, existing, but=log_name(token))
                connection.execute(fill("drop_log", {"log": quoted(log_name(token))}))


def log_name(token: str) -> str:
    return f"evervec_{token}_log"


def _trigger_name(token: str, kind: str) -> str:
    return f"evervec_{token}_{kind}"


def _drop_triggers(connection: sqlite3.Connection, existing: dict[str, str], *, but: str) -> None:
    for name in existing:
        if name != but:
            connection.execute(fill("drop_trigger", {"name": quoted(name)}))


def _existing(connection: sqlite3.Connection, token: str) -> dict[str, str]:
    rows = connection.execute(TEMPLATES["definitions"]).fetchall()
    prefix = f"evervec_{token}_"
    return {name: _plain(sql) for name, sql in rows if name.startswith(prefix)}


def _plain(sql: str) -> str:
    """Return a definition without its first words, which SQLite rewrites in capitals."""
    return sql.strip().split(None, 2)[2]

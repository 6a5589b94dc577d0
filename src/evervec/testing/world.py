"""A simulated source: a table in memory that writers change, with a log, versions and an oracle.

The table commits one transaction at a time, as SQLite does, so the order of the log is the order
of commits. What a writer does is decided by a seeded generator; what the documents say in the end
is known here without looking at any queue or store, so this is the oracle too.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from evervec.errors import SourceError
from evervec.faults import reach
from evervec.model import Captured, Document, Id, Reading, Scope, encode_id
from evervec.testing.simulation import SimulatedLoop

T = TypeVar("T")

WORDS = ("lease", "fence", "queue", "vector", "chunk", "claim", "reap", "settle", "publish")


@dataclass(slots=True)
class Row:
    """A document's row: *seen* is never embedded, so touching it asks for nothing."""

    body: str
    seen: int = 0


@dataclass(slots=True)
class Table:
    """The committed truth of one collection."""

    scope: Scope
    rows: dict[Id, Row] = field(default_factory=dict)
    version: int = 0
    log: list[tuple[int, Id]] = field(default_factory=list)
    """(sequence, id): a change of what is embedded."""
    cursor: int = 0
    """How far the log was consumed; durable, as a note in the state database is."""
    gaps: int = 0
    """How often the log lost what nobody had read."""
    gaps_accepted: int = 0
    notes: dict[str, bytes] = field(default_factory=dict)
    """What a `Notes` keeps; durable."""
    texts_ever: set[str] = field(default_factory=set)
    texts_before: dict[Id, str] = field(default_factory=dict)
    """What each document said before its newest change."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def commit(self, changes: Mapping[Id, Row | None], touched: Sequence[Id]) -> None:
        """Apply a transaction: None deletes; *touched* are ids whose embedded text changed."""
        self.version += 1
        for document, row in changes.items():
            if document in self.rows:
                self.texts_before[document] = self.rows[document].body
            if row is None:
                self.rows.pop(document, None)
            else:
                self.rows[document] = row
                self.texts_ever.add(row.body)
        for document in touched:
            self.log.append((len(self.log) + 1, document))
        self.changed.set()

    def lose_log(self) -> None:
        """Forget what was not read yet, as when the file is replaced; the next look says so."""
        self.gaps += 1
        self.cursor = len(self.log)
        self.changed.set()

    @property
    def lost(self) -> bool:
        """Whether changes were lost that only a scan will find."""
        scanning = any(name.startswith("scan") for name in self.notes)
        return self.gaps > self.gaps_accepted or scanning

    @property
    def consumed(self) -> bool:
        return self.cursor >= len(self.log) and self.gaps == self.gaps_accepted


class Notes:
    """The `Notebook` port over a table's notes."""

    def __init__(self, table: Table) -> None:
        self._notes = table.notes

    async def load(self, prefix: str = "") -> dict[str, bytes]:
        def look() -> dict[str, bytes]:
            return {name: note for name, note in self._notes.items() if name.startswith(prefix)}

        return await asyncio.get_running_loop().run_in_executor(None, look)

    async def save(self, notes: Mapping[str, bytes | None]) -> None:
        def write() -> None:
            for name, note in notes.items():
                if note is None:
                    self._notes.pop(name, None)
                else:
                    self._notes[name] = note

        await asyncio.get_running_loop().run_in_executor(None, write)


class Writer:
    """Some other program that writes to the table and knows nothing of us."""

    def __init__(self, tables: Sequence[Table], dice: random.Random, *, documents: int) -> None:
        self.tables = tables
        self.dice = dice
        self.ids = [encode_id(n) for n in range(documents // 2)]
        self.ids += [encode_id(str(n)) for n in range(documents - documents // 2)]
        self.counts: dict[str, int] = {}

    def act(self) -> None:
        """Do one transaction of one to three changes; one in ten rolls back."""
        dice = self.dice
        table = dice.choice(self.tables)
        changes: dict[Id, Row | None] = {}
        touched: list[Id] = []
        for _ in range(dice.choice((1, 1, 1, 2, 3))):
            self._change(table, changes, touched)
        if dice.random() < 0.1:
            self._count("abort")
            return
        table.commit(changes, touched)

    def _change(self, table: Table, changes: dict[Id, Row | None], touched: list[Id]) -> None:
        dice = self.dice
        document = dice.choice(self.ids)
        now = changes[document] if document in changes else table.rows.get(document)
        what = dice.choice(("write", "write", "write", "delete", "touch", "rename", "copy", "undo"))
        if now is None or what == "write":
            self._count("insert" if now is None else "update")
            changes[document] = Row(self.text())
        elif what == "delete":
            self._count("delete")
            changes[document] = None
        elif what == "touch":
            # A column that nobody embeds: no entry in the log, and nothing to do.
            self._count("touch")
            changes[document] = Row(now.body, now.seen + 1)
            return
        elif what == "undo":
            # Equal to what is stored, perhaps, though it changed twice.
            self._count("undo")
            changes[document] = Row(table.texts_before.get(document, now.body))
        elif what == "rename":
            self._count("rename")
            changes[document] = None
            other = dice.choice(self.ids)
            changes[other] = now
            touched.append(other)
        else:
            self._count("copy")
            rows = list(table.rows.values())
            changes[document] = Row(dice.choice(rows).body if rows else self.text())
        touched.append(document)

    def text(self) -> str:
        """Return one to three paragraphs out of few, so that equal ones are common."""
        dice = self.dice
        paragraphs = dice.choice((0, 1, 1, 2, 3))
        return "\n\n".join(
            f"{dice.choice(WORDS)} {dice.choice(WORDS)} {dice.randrange(4)}"
            for _ in range(paragraphs)
        )

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


class SimulatedSource:
    """The `Source` port over a `Table`. Each call is a place where others get in between."""

    def __init__(self, table: Table, *, trouble: float = 0.0, patience: float = 0.0) -> None:
        self.table = table
        self.trouble = trouble
        """How likely a call finds the source unreachable."""
        self.patience = patience
        """Seconds that a wait without any change takes at least; idle looks prove nothing."""

    async def open(self) -> None:
        await self._in_thread(lambda: None)

    async def look_again(self) -> None:
        """Nothing to do: every look reads the log itself."""

    async def changes(self, limit: int) -> Captured | None:
        def look() -> Captured | None:
            self._may_fail()
            table = self.table
            if table.gaps > table.gaps_accepted:
                return Captured((), (table.cursor, table.gaps), gap=True)
            new = table.log[table.cursor : table.cursor + limit]
            if not new:
                return None
            ids = tuple(dict.fromkeys(document for _, document in new))
            return Captured(ids, (new[-1][0], table.gaps))

        return await self._in_thread(look)

    async def unseen(self, limit: int) -> Sequence[Id] | None:
        def look() -> Sequence[Id] | None:
            self._may_fail()
            table = self.table
            if table.gaps > table.gaps_accepted:
                return None
            new = table.log[table.cursor :]
            return tuple(dict.fromkeys(document for _, document in new))[:limit]

        return await self._in_thread(look)

    async def accept(self, captured: Captured) -> None:
        def move() -> None:
            cursor, gaps = captured.mark
            self.table.cursor = max(self.table.cursor, cursor)
            self.table.gaps_accepted = max(self.table.gaps_accepted, gaps)

        await self._in_thread(move)

    async def scan(self, after: Id | None, limit: int) -> Sequence[Id]:
        def look() -> Sequence[Id]:
            behind = sorted(d for d in self.table.rows if after is None or d > after)
            return behind[:limit]

        return await self._in_thread(look)

    async def read(self, ids: Sequence[Id]) -> Reading:
        def look() -> Reading:
            self._may_fail()
            rows = self.table.rows
            return Reading(
                self.table.version,
                {
                    document: Document(document, {"body": rows[document].body})
                    for document in ids
                    if document in rows
                },
            )

        return await self._in_thread(look)

    async def wait(self, timeout: float) -> None:
        if not self.table.consumed:
            return
        self.table.changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(timeout, self.patience) if timeout else 0.0):
                await self.table.changed.wait()

    async def close(self) -> None:
        """Nothing is held."""

    async def remove(self) -> None:
        """Nothing was left anywhere."""

    def _may_fail(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        if self.trouble and loop.random.random() < self.trouble:
            raise SourceError("the simulated source is unreachable for a moment")

    async def _in_thread(self, work: Callable[[], T]) -> T:
        reach("source.read")
        return await asyncio.get_running_loop().run_in_executor(None, work)

"""A table of somebody's SQLite file, watched by triggers.

In the file lie a log (`evervec_<token>_log`) and the triggers that append to it, in the
transaction of whoever writes. We install them and never write the file again. The log is consumed
by a cursor: SQLite lets one writer in at a time, so the log's numbers grow in commit order and no
late transaction can slip in behind the cursor. The cursor points at a row that must still be
there, stamp and all; if it is not (the log overflowed, the file was replaced or restored) that is
a *gap*, and everything has to be scanned.

A version is `epoch << 40 | newest log number`. The epoch, durable in the notebook before it is
used, grows at each gap, so that versions grow although the log's numbers may start anew.

Where triggers cannot be installed (read-only), each change of the file is answered with a gap.
"""

import asyncio
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from evervec.errors import ConfigError, SourceError
from evervec.model import Captured, Document, Id, Reading
from evervec.ports import Notebook, Wanted
from evervec.sources.sqlite.capture import (
    RING_ROWS,
    Capture,
    Row,
    remove_from,
    transaction,
)
from evervec.sources.sqlite.connection import (
    code_of,
    connect,
    connect_readable,
    plain_words,
    refuse_missing,
    schema_version,
)
from evervec.sources.sqlite.position import CURSOR, Position, look_at
from evervec.sources.sqlite.rows import Rows
from evervec.sources.sqlite.shape import Shape, TableSpec, described, inspect
from evervec.sources.sqlite.unseen import unseen
from evervec.sources.sqlite.vectors import Vectors, differing, refuse_unwritable
from evervec.sqlite.wake import FileWake

T = TypeVar("T")

BUSY_SECONDS = 10.0
SCAN_SECONDS = 3.0
"""The shortest time between two gaps that a file without triggers is answered with."""
EPOCH_BITS = 40
_TOKEN = re.compile(r"[a-z0-9]{1,40}")


class TableSource:
    """Implements `evervec.ports.Source` on a table of an existing SQLite file."""

    def __init__(
        self,
        spec: TableSpec,
        *,
        token: str,
        notebook: Notebook,
        ring: int = RING_ROWS,
        busy_seconds: float = BUSY_SECONDS,
        watched: bool = True,
    ) -> None:
        """Name a table. Unless it is *watched* it can be scanned and read, and is never written."""
        if not _TOKEN.fullmatch(token):
            raise ValueError(f"token {token!r} is not made of small letters and digits")
        self._define = partial(Capture, token=token, ring=ring)
        self._spec = replace(spec, path=Path(os.path.realpath(spec.path)))
        self._token = token
        self._notebook = notebook
        self._busy_seconds = busy_seconds
        self._watched = watched
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="evervec-source")
        self._wake: FileWake | None = None
        self._looked = 0
        self._closed = False
        # All below belongs to the thread.
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._seen = ""
        self._schema = -1
        self._shape: Shape | None = None
        self._rows: Rows | None = None
        self._capture: Capture | None = None
        self._scan_only = ""
        self._cursor: Position | None = None
        self._epoch = 0
        self._saved_epoch = 0
        self._gap = False
        self._top = 0
        self._scanned_at = -SCAN_SECONDS
        self._due = 0.0
        self._removed = False

    async def open(self) -> None:
        """Install the triggers if they are not there, and find the place to go on from."""
        if not self._watched:
            raise ValueError("a source that is only looked at captures nothing")
        notes = await self._notebook.load()
        await self._run(lambda: self._open(notes), opening=True)
        if CURSOR not in notes and self._cursor is not None:
            await self._notebook.save(self._cursor.notes())
        await self._save_epoch()

    async def look_again(self) -> None:
        """Nothing to do: every look reads the log itself."""

    async def changes(self, limit: int) -> Captured | None:
        if self._wake is not None:
            self._looked = self._wake.count
        captured = await self._run(lambda: self._changes(limit))
        await self._save_epoch()
        return captured

    async def accept(self, captured: Captured) -> None:
        mark: Position = captured.mark

        def move() -> bool:
            # A gap that was found since stays open: what was accepted lies before it.
            if mark.epoch != self._epoch:
                return False
            self._gap = self._gap and not captured.gap
            self._cursor = mark
            return True

        if await self._run(move):
            await self._notebook.save(mark.notes())

    async def scan(self, after: Id | None, limit: int) -> Sequence[Id]:
        def work() -> Sequence[Id]:
            with self._snapshot() as (connection, rows):
                return rows.scan(connection, after, limit)

        ids = await self._run(work)
        await self._save_epoch()
        return ids

    async def read(self, ids: Sequence[Id]) -> Reading:
        def work() -> Reading:
            with self._snapshot() as (connection, rows):
                version = self._version(connection)
                return Reading(version, *rows.documents(connection, ids))

        reading = await self._run(work)
        # The epoch is durable before anything is published under it.
        await self._save_epoch()
        return reading

    async def write_back(
        self,
        wanted: Mapping[Id, Wanted],
        digest_of: Callable[[Document], bytes],
        *,
        dry: bool = False,
    ) -> Mapping[Id, str]:
        def work() -> Mapping[Id, str]:
            with self._snapshot() as (connection, rows):
                vectors, top = Vectors(rows), self._top
                found = vectors.read(connection, wanted)
            values = differing(found, wanted, digest_of)
            if dry or not values or self._capture is None:
                return dict.fromkeys(values, "")
            return vectors.written(connection, values, log=self._capture, top=top)

        return await self._run(work)

    async def wait(self, timeout: float) -> None:
        if self._wake is None:
            raise SourceError("the source was not opened", hint="await open() first")
        if self._due:
            timeout = min(timeout, max(0.0, self._due - time.monotonic()))
        await self._wake.wait(timeout, after=self._looked)

    async def unseen(self, limit: int) -> Sequence[Id] | None:
        accepted = Position.noted(await self._notebook.load(CURSOR))

        def work() -> Sequence[Id] | None:
            connection = self._refresh()
            if accepted is None or accepted.inode != self._identity[1]:
                return None
            return unseen(connection, self._spec, self._define, accepted, limit)

        return await self._run(work)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        wake, self._wake = self._wake, None
        loop = asyncio.get_running_loop()
        if wake is not None:
            await loop.run_in_executor(None, wake.close)
        await loop.run_in_executor(self._thread, self._disconnect)
        await loop.run_in_executor(None, self._thread.shutdown)

    async def remove(self) -> None:
        """Drop the triggers and the log. A file that is gone has nothing to remove."""

        def work() -> None:
            self._removed = True
            self._disconnect()
            remove_from(self._spec.path, self._token, busy_seconds=self._busy_seconds)

        await self._run(work)

    def describe(self) -> str:
        """Say how changes are noticed, and what is not noticed, in one line for people."""
        uncovered = self._shape.uncovered if self._shape else ()
        return described(self._spec, self._scan_only, uncovered)

    async def _run(self, work: Callable[[], T], *, opening: bool = False) -> T:
        def guarded() -> T:
            try:
                with plain_words(self._spec.path):
                    return work()
            except ConfigError as error:
                if opening:
                    raise
                # What was asked for was right once; the file has changed since.
                raise SourceError(error.args[0], hint=error.hint) from error

        if self._closed:
            # Whoever still works with a source that was closed or replaced tries again later.
            raise SourceError(f"the watch on {str(self._spec.path)!r} was closed meanwhile")
        return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)

    async def _save_epoch(self) -> None:
        epoch = self._epoch
        if epoch > self._saved_epoch:
            await self._notebook.save({"epoch": str(epoch).encode()})
            self._saved_epoch = epoch

    def _open(self, notes: Mapping[str, bytes]) -> None:
        self._removed = False
        self._cursor = Position.noted(notes)
        self._epoch = self._saved_epoch = int(notes.get("epoch", b"0"))
        self._schema = -1
        refuse_missing(self._spec.path)
        self._refresh()
        self._prepare()
        refuse_unwritable(self._spec.into, self._scan_only)
        with self._snapshot():
            pass
        if self._wake is None:
            self._wake = FileWake(self._spec.path, connect=connect)
            self._looked = self._wake.count

    @contextmanager
    def _snapshot(self) -> Iterator[tuple[sqlite3.Connection, Rows]]:
        """Yield a connection inside one read transaction, with the triggers known to be there."""
        while True:
            connection = self._refresh()
            with transaction(connection):
                if schema_version(connection) == self._schema and self._rows is not None:
                    self._check(connection)
                    yield connection, self._rows
                    return
            try:
                self._prepare()
            except ConfigError as error:
                raise SourceError(
                    f"the table changed: {error.args[0]}",
                    hint=f"{error.hint}; bring it back, or let go of it with evervec unwatch",
                ) from error

    def _refresh(self) -> sqlite3.Connection:
        """Return a connection to the file that the path names now."""
        if self._removed:
            raise SourceError(f"table {self._spec.table!r} is not watched any more")
        path = self._spec.path
        try:
            found = path.stat()
        except OSError as error:
            self._disconnect()
            raise SourceError(
                f"source {str(path)!r} is gone: {error.strerror}",
                hint="put the file back, or let go of it with evervec unwatch",
            ) from error
        identity = (found.st_dev, found.st_ino)
        # Without triggers each change is a reason to try again whether they can be put in by now.
        look = look_at(self._spec.path) if self._scan_only else ""
        if self._connection is None or (identity, look) != (self._identity, self._seen):
            self._disconnect()
            self._connection = connect_readable(path, busy_seconds=self._busy_seconds)
            self._identity, self._seen = identity, look
            self._schema = -1
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _prepare(self) -> None:
        """Look at the table as it is now, and put the triggers in place if they are not."""
        connection = self._refresh()
        with transaction(connection):
            schema = schema_version(connection)
            shape = inspect(connection, self._spec)
            if not self._watched:
                self._shape, self._schema, self._rows = shape, schema, Rows(shape)
                return
            capture = self._define(shape)
            installed = capture.is_installed(connection)
            top = capture.last(connection) if installed else Row(0, 0)
        if not installed:
            schema, top = self._install(connection, capture)
        elif self._scan_only:
            self._scan_only = ""
        self._shape, self._capture, self._schema = shape, capture, schema
        self._rows = Rows(shape)
        if self._cursor is None:
            self._cursor = self._position(top)
        elif not installed and not (self._scan_only and self._cursor.look):
            # Unless it is the cursor of a file without triggers, as it is now.
            self._break()

    def _install(self, connection: sqlite3.Connection, capture: Capture) -> tuple[int, Row]:
        try:
            with transaction(connection, write=True):
                capture.install(connection)
                # Taken before others can write: the first cursor misses nothing.
                schema, top = schema_version(connection), capture.last(connection)
        except sqlite3.OperationalError as error:
            if code_of(error) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                raise
            self._scan_only = str(error)
            return schema_version(connection), Row(0, 0)
        self._scan_only = ""
        return schema, top

    def _break(self) -> None:
        self._epoch += 1
        self._gap = True
        self._top = 0

    def _check(self, connection: sqlite3.Connection) -> None:
        """Notice that the file is not the one, or not as far, as it was."""
        cursor, capture = self._cursor, self._capture
        if cursor is None or capture is None or self._scan_only:
            return
        top = capture.top(connection)
        if not self._gap:
            here = capture.holds(connection, Row(cursor.seq, cursor.stamp))
            if not here or cursor.inode != self._identity[1] or top < self._top:
                self._break()
        elif top < self._top:
            self._break()
        self._top = top

    def _version(self, connection: sqlite3.Connection) -> int:
        seq = 0
        if self._capture is not None and not self._scan_only:
            seq = self._capture.top(connection)
        return self._epoch << EPOCH_BITS | seq

    def _position(self, row: Row) -> Position:
        look = look_at(self._spec.path) if self._scan_only else ""
        return Position(self._epoch, self._identity[1], row.seq, row.stamp, look)

    def _changes(self, limit: int) -> Captured | None:
        with self._snapshot() as (connection, _):
            if self._scan_only:
                return self._scanned()
            capture, cursor = self._capture, self._cursor
            if capture is None or cursor is None:
                return None
            if self._gap:
                return Captured((), self._position(capture.last(connection)), gap=True)
            at, ids = capture.since(connection, cursor.seq, ids_max=limit)
            if at == cursor.seq:
                return None
            return Captured(tuple(ids), self._position(capture.row(connection, at)))

    def _scanned(self) -> Captured | None:
        """Answer a change of a file without triggers: look at all."""
        self._due = 0.0
        position = self._position(Row(0, 0))
        moved = self._gap or self._cursor is None or self._cursor.look != position.look
        if not moved:
            return None
        due = self._scanned_at + SCAN_SECONDS
        if time.monotonic() < due:
            self._due = due
            return None
        self._scanned_at = time.monotonic()
        return Captured((), position, gap=True)

"""One SQLite file: a writer thread, reader threads, migrations, and errors in plain words.

Every write is a short `begin immediate` transaction on the one writer thread, so within a process
writers queue up instead of colliding, and between processes the busy timeout does. Readers have
connections of their own and never wait for the writer (WAL).
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from importlib import resources
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

import apsw

from evervec.errors import StateError
from evervec.faults import reach

T = TypeVar("T")

BUSY_SECONDS = 30.0
READERS = 3

# In KiB. Larger ones, or a mapped file, gain nothing that can be measured over the system's own
# cache, and a backfill's memory then grows with the file until they are full.
WRITER_CACHE = 8192
READER_CACHE = 2048

# The WAL-reset corruption bug is mended from here on.
OLDEST_SQLITE = (3, 51, 3)


class Database:
    """A SQLite file of our own (never a user's), shared by queue, store and registry."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.in_memory = self.path in ("", ":memory:") or self.path.startswith("file:")
        self._place = Path(path)
        self._local = threading.local()
        self._connections: list[apsw.Connection] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="evervec-write")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="evervec-read")
        self._opening = threading.Lock()

    async def write(self, work: Callable[[apsw.Connection], T], *, label: str = "") -> T:
        """Run *work* in one transaction on the writer thread; durable on return.

        *label* names the fault points around the commit.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, self.write_now, work, label)

    async def read(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run *work* on a reader thread in one snapshot."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self.read_now, work)

    def write_now(self, work: Callable[[apsw.Connection], T], label: str = "") -> T:
        """Do what `write` does, on the calling thread."""
        with self._plain_words():
            connection = self._connection(WRITER_CACHE)
            connection.execute("begin immediate")
            try:
                answer = work(connection)
                if label:
                    reach(f"{label}.commit")
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise
        if label:
            reach(f"{label}.done")
        return answer

    def read_now(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do what `read` does, on the calling thread."""
        with self._plain_words():
            connection = self._connection(READER_CACHE)
            connection.execute("begin")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    async def close(self) -> None:
        """End the threads, after what they are doing, and close every connection."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.close_now)

    def close_now(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def migrate(self, component: str, package: str) -> None:
        """Bring *component*'s tables to the newest of the package's numbered `NNN_….sql` files.

        Two processes may do this at once: the second finds the work done.
        """
        files = sorted(
            (file for file in resources.files(package).iterdir() if file.name[:3].isdigit()),
            key=lambda file: file.name,
        )

        def step(connection: apsw.Connection) -> None:
            connection.execute(
                "create table if not exists evervec_schema"
                "(component text primary key, version integer not null) without rowid"
            )
            row = connection.execute(
                "select version from evervec_schema where component = ?", (component,)
            ).fetchone()
            version = int(row[0]) if row else 0
            if version > len(files):
                raise StateError(
                    f"{self.path!r} was written by a newer evervec "
                    f"({component} schema {version}, this program knows {len(files)})",
                    hint="update this program: pip install -U evervec",
                )
            for file in files[version:]:
                connection.execute(file.read_text(encoding="utf-8"))
            connection.execute(
                "insert into evervec_schema values (?, ?)"
                " on conflict do update set version = excluded.version",
                (component, len(files)),
            )

        if self._is_current(component, len(files)):
            return
        self.write_now(step, "schema")

    def _is_current(self, component: str, version: int) -> bool:
        # A look before the write lock is taken: `evervec status` must not wait for a busy writer.
        def look(connection: apsw.Connection) -> bool:
            if not connection.table_exists("main", "evervec_schema"):
                return False
            row = connection.execute(
                "select version from evervec_schema where component = ?", (component,)
            ).fetchone()
            return row is not None and row[0] == version

        return self.read_now(look)

    def _refuse_foreign(self) -> None:
        """Raise StateError if the file is somebody else's, before anything in it is changed.

        Two copies of SQLite in one process do not see each other's locks, so a file that is also a
        source would be damaged sooner or later.
        """
        with closing(apsw.Connection(self.path, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
            # One statement sees one moment: another process may be making the first table.
            row = connection.execute(
                "select count(*), total(name = 'evervec_schema') from sqlite_master"
            ).fetchone()
        if row is not None and row[0] and not row[1]:
            raise StateError(
                f"{self.path!r} is a database of another program, not a state of evervec",
                hint="give the state a file of its own, with --state or EVERVEC_STATE;"
                " to follow a table of this one, `evervec watch`",
            )

    def _connection(self, cache: int = WRITER_CACHE) -> apsw.Connection:
        """Return this thread's connection; the first use of it decides how much it caches."""
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is not None and self._local.file != _file(self._place):
            # SQLite would go on with a file that has no name any more, and all of it would be lost.
            raise StateError(
                f"state database {self.path!r} was deleted or replaced while it was open",
                hint="start this program again; what is missing is then found and embedded",
            )
        if connection is None:
            with self._opening:
                if not self._connections and not self.in_memory:
                    if not self._place.exists():
                        _make(self._place)
                    if self._place.is_file():
                        self._refuse_foreign()
                connection = _connect(self.path, cache)
                self._connections.append(connection)
            self._local.connection = connection
            self._local.file = _file(self._place)
        return connection

    @contextmanager
    def _plain_words(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise in_plain_words(error, self.path) from error


def _file(place: Path) -> tuple[int, int] | None:
    """Return which file lies at *place*; None if none does, as for a database in memory."""
    try:
        found = place.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make(place: Path) -> None:
    """Make an empty database at *place*, in WAL mode from its first moment there.

    Processes that start together would otherwise turn the mode of one file at once, which SQLite
    refuses or never ends. So it is made aside; the first to link it in wins.
    """
    aside = place.with_name(f"{place.name}.new-{token_hex(4)}")
    try:
        with closing(_connect(str(aside), WRITER_CACHE)) as connection:
            connection.execute("vacuum")
        with suppress(FileExistsError):
            os.link(aside, place)
        _sync_folder(place.parent)
    except OSError:
        # No links on this file system: the first connection makes the file where it lies.
        return
    finally:
        aside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _connect(path: str, cache: int) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(path, flags=flags, statementcachesize=200)
    connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
    # Plans do not depend on bound values, so a statement is prepared once: 4 to 6 times as fast
    # for the small ones of a claim.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    for pragma in (
        "page_size = 8192",
        "journal_mode = wal",
        "synchronous = full",
        "journal_size_limit = 67108864",
        f"cache_size = {-cache}",
        "temp_store = memory",
    ):
        connection.pragma(*pragma.split(" = "))
    return connection


def in_plain_words(error: apsw.Error, path: str) -> StateError:
    """Say what an SQLite error means for the person whose file *path* is."""
    for kind, what, hint in (
        (apsw.FullError, "the disk is full", "free some space; nothing that was stored is lost"),
        (apsw.NotADBError, "it is not an SQLite database", "name another file with --state"),
        (
            apsw.CorruptError,
            "it is damaged",
            "move it away and run again: the vectors are rebuilt from the source",
        ),
        (apsw.ReadOnlyError, "it cannot be written", "check the rights of the file and its folder"),
        (apsw.CantOpenError, "it cannot be opened", "check the path and the rights of the folder"),
        (apsw.BusyError, "another program keeps it locked", "end that program, or wait for it"),
        (apsw.IOError, "the disk reports an error", "check the disk; nothing was committed"),
    ):
        if isinstance(error, kind):
            return StateError(f"state database {path!r}: {what} ({error})", hint=hint)
    return StateError(f"state database {path!r}: {error}")

"""Notices, within milliseconds, that anybody committed to an SQLite file.

The kernel says that the file or its `-wal` was written, which is early: in WAL mode a commit
becomes visible only after the write (an fsync may lie between, and the last step touches nothing
but shared memory, which tells nobody). So an event starts a short series of looks at `pragma
data_version`, with growing pauses, until the commit is seen or the writer turns out not to have
committed. Without a `-wal` no look at the database is taken at all, since its shared lock could
refuse a writer: the file's time stamp answers instead.

Everything here is a hint. Whoever waits takes `count` before looking at the data and hands it to
`wait`, so that a commit between the two is not slept through.
"""

import asyncio
import atexit
import ctypes
import logging
import os
import select
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import apsw
from watchfiles._rust_notify import RustNotify

LOG = logging.getLogger(__name__)

SAFETY_SECONDS = 1.0
"""How often to look although nothing was told: a network file system tells nothing."""
POLL_SECONDS = 0.1
"""How often to look where the kernel cannot tell us."""
FIRST_PAUSE = 0.001
LAST_PAUSE = 0.256

# Time stamps of files move in ticks of the kernel's clock. A file written this recently may be
# written again without its time stamp showing it.
TICK_NS = 50_000_000


class Reader(Protocol):
    """What is needed of a connection, apsw's or the standard library's."""

    def execute(self, sql: str, /) -> Any: ...

    def close(self) -> None: ...


def connect_own(path: str) -> Reader:
    """Connect to a file of our own. A user's file is opened by the library of its source."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(0)
    return connection


class FileWake:
    """Wakes those who wait when another connection, in any process, commits to one file.

    Usable from any thread and any number of event loops.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, connect: Callable[[str], Reader] = connect_own
    ) -> None:
        real = Path(path).resolve()
        self._path = str(real)
        self._look_at = _Look(self._path, connect)
        names = frozenset(real.name + end for end in ("", "-wal", "-journal"))
        self._watcher = _watch(str(real.parent), names)
        self._lock = threading.Lock()
        self._count = 0
        self._waiters: set[asyncio.Future[bool]] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evervec-wake", daemon=True)
        self._thread.start()
        _OPEN.add(self)

    @property
    def count(self) -> int:
        """How many times something was noticed so far."""
        return self._count

    async def wait(self, timeout: float, *, after: int | None = None) -> bool:
        """Return True as soon as a commit is noticed, False after *timeout* seconds.

        With *after*, a `count` taken earlier, what was noticed since then counts too.
        """
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if after is not None and self._count != after:
                return True
            self._waiters.add(future)
        try:
            async with asyncio.timeout(timeout):
                return bool(await future)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._waiters.discard(future)

    def close(self) -> None:
        """End the watching; whoever waits gets False at its timeout. May be called twice."""
        self._stop.set()
        self._watcher.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()
        _OPEN.discard(self)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self._watcher.wait(self._watcher.idle):
                    self._settle()
                elif self._look_at.moved():
                    self._tell()
        except Exception:
            # Waiting goes on by timeouts alone: slower, and nothing is lost.
            LOG.exception("watching %r for commits ended; changes are noticed late", self._path)
        finally:
            self._look_at.close()
            self._watcher.close()

    def _settle(self) -> None:
        pause = FIRST_PAUSE
        while pause <= LAST_PAUSE:
            if self._look_at.moved():
                self._tell()
                pause = LAST_PAUSE * 2
            # A bulk load writes thousands of times a second; one look a millisecond is enough.
            if self._stop.wait(FIRST_PAUSE):
                return
            if pause <= LAST_PAUSE:
                pause = FIRST_PAUSE if self._watcher.wait(pause) else pause * 2

    def _tell(self) -> None:
        with self._lock:
            self._count += 1
            waiters, self._waiters = self._waiters, set()
        for future in waiters:
            # A loop that was closed meanwhile has nobody left to wake.
            with suppress(RuntimeError):
                future.get_loop().call_soon_threadsafe(_wake, future)


_OPEN: weakref.WeakSet[FileWake] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # A thread inside native code must not meet the end of the interpreter.
    for wake in list(_OPEN):
        wake.close()


def _wake(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(True)


class _Look:
    """Remembers what the file looked like, to say whether it moved."""

    def __init__(self, path: str, connect: Callable[[str], Reader]) -> None:
        self._path = path
        self._connect = connect
        self._reader: Reader | None = None
        self._opened = 0
        self._identity: tuple[int, int] | None = None
        self._seen = self._look()

    def moved(self) -> bool:
        before, self._seen = self._seen, self._look()
        return before != self._seen

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _look(self) -> tuple[object, ...]:
        try:
            found = Path(self._path).stat()
        except OSError:
            self._identity = None
            self.close()
            return ()
        identity = (found.st_dev, found.st_ino)
        if identity != self._identity:
            self._identity = identity
            self.close()
        if Path(self._path + "-wal").exists():
            return (identity, "wal", *self._version())
        stamp = found.st_mtime_ns
        fresh = time.time_ns() - stamp < TICK_NS
        return (identity, stamp, found.st_size, time.monotonic_ns() if fresh else 0)

    def _version(self) -> tuple[int, int]:
        try:
            if self._reader is None:
                self._reader = self._connect(self._path)
                # Each connection counts for itself.
                self._opened += 1
            row = self._reader.execute("pragma data_version").fetchone()
            return (self._opened, int(row[0]))
        except Exception as error:  # noqa: BLE001  either library's own errors: locked, unreadable
            # Not knowing counts as moved; whoever then reads gets the real error.
            LOG.debug("no look at %r: %s", self._path, error)
            self.close()
            return (0, time.monotonic_ns())


class _Watcher(Protocol):
    """Tells when one of a folder's named files is touched."""

    idle: float

    def wait(self, seconds: float) -> bool: ...

    def stop(self) -> None:
        """End a wait at once; from any thread."""

    def close(self) -> None:
        """Let go; from the thread that waits, after its last wait."""


def _watch(folder: str, names: frozenset[str]) -> _Watcher:
    try:
        return Inotify(folder, names) if sys.platform == "linux" else Native(folder, names)
    except OSError as error:
        LOG.warning(
            "the system cannot tell when %r changes (%s); looking every %d ms instead."
            " On Linux, raise fs.inotify.max_user_instances and max_user_watches",
            folder,
            error,
            round(POLL_SECONDS * 1000),
        )
        return Polling()


class Polling:
    """Tells nothing, so that the file itself is looked at often."""

    idle = POLL_SECONDS

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def wait(self, seconds: float) -> bool:
        self._stopped.wait(seconds)
        return False

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        pass


class Native:
    """The notification of any system that `watchfiles` knows; it looks every few milliseconds."""

    idle = SAFETY_SECONDS
    STEP_MS = 2

    def __init__(self, folder: str, names: frozenset[str]) -> None:
        self._names = names
        self._stopped = threading.Event()
        self._notify = RustNotify([folder], False, False, 0, False, True)

    def wait(self, seconds: float) -> bool:
        within = max(1, round(seconds * 1000))
        told = self._notify.watch(self.STEP_MS, self.STEP_MS, within, self._stopped)
        if isinstance(told, str):
            return False
        return any(Path(path).name in self._names for _, path in told)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._notify.close()


class Inotify:
    """Linux's own notification: blocks in the kernel, so that idling costs nothing.

    `watchfiles` wakes up hundreds of times a second to be this quick, 1 % of a processor.
    """

    idle = SAFETY_SECONDS
    EVENT_BYTES = 16
    # modify, moved from, moved to, create, delete; and the folder itself deleted or moved
    MASK = 0x002 | 0x040 | 0x080 | 0x100 | 0x200 | 0x400 | 0x800
    OVERFLOW = 0x4000

    def __init__(self, folder: str, names: frozenset[str]) -> None:
        self._names = {os.fsencode(name) for name in names}
        libc = ctypes.CDLL(None, use_errno=True)
        self._events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._events < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if libc.inotify_add_watch(self._events, os.fsencode(folder), self.MASK) < 0:
            error = ctypes.get_errno()
            os.close(self._events)
            raise OSError(error, os.strerror(error))
        self._woken, self._waker = os.pipe()
        self._poll = select.poll()
        self._poll.register(self._events, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready = [fd for fd, _ in self._poll.poll(left * 1000)]
            if self._woken in ready:
                return False
            if self._events in ready and self._read():
                return True
        return False

    def stop(self) -> None:
        # Already closed: the wait that this would end is over.
        with suppress(OSError):
            os.write(self._waker, b"!")

    def close(self) -> None:
        waker, self._waker = self._waker, -1
        for fd in (self._events, self._woken, waker):
            os.close(fd)

    def _read(self) -> bool:
        told = os.read(self._events, 65536)
        at, ours = 0, False
        while at < len(told):
            mask = int.from_bytes(told[at + 4 : at + 8], sys.byteorder)
            length = int.from_bytes(told[at + 12 : at + 16], sys.byteorder)
            name = told[at + self.EVENT_BYTES : at + self.EVENT_BYTES + length].rstrip(b"\0")
            ours = ours or name in self._names or bool(mask & self.OVERFLOW)
            at += self.EVENT_BYTES + length
        return ours

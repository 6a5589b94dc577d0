"""Wakes those who wait for work: at once in this process, within milliseconds in another."""

import asyncio
from contextlib import suppress
from pathlib import Path

_LOOK_EVERY = 0.02


class Bell:
    """Rung by this process's own writes; other processes' are seen in the write-ahead log."""

    def __init__(self, path: str) -> None:
        # A database in memory has no log file, and no other process either.
        self._log = None if path.startswith("file:") else Path(f"{path}-wal")
        self._rung = 0
        self._heard = 0
        self._seen = self._signature()
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False

    def ring(self) -> None:
        """Wake all who wait, and whoever waits next without having looked since."""
        self._rung += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def heed(self) -> None:
        """Note that the caller looks for work now: what rang before needs no waking."""
        self._heard = self._rung
        self._seen = self._signature()

    async def wait(self, timeout: float) -> None:
        """Return when it rings, when another process writes, or after *timeout* seconds."""
        if self._closed or self._rung != self._heard:
            return
        seen = self._seen
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.add(waiter)
        try:
            while (left := deadline - loop.time()) > 0 and self._signature() == seen:
                with suppress(TimeoutError):
                    step = left if self._log is None else min(left, _LOOK_EVERY)
                    await asyncio.wait_for(asyncio.shield(waiter), step)
                    return
        finally:
            self._waiting.discard(waiter)

    def close(self) -> None:
        """Wake everyone for good."""
        self._closed = True
        self.ring()

    def _signature(self) -> tuple[int, int] | None:
        if self._log is None:
            return None
        try:
            stat = self._log.stat()
        except OSError:
            return None
        return stat.st_size, stat.st_mtime_ns

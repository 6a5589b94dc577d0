"""Wakes those who wait for work: at once in this process, within milliseconds in another."""

import asyncio
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from evervec.sqlite.wake import FileWake


@dataclass(frozen=True, slots=True)
class _Look:
    heard: int
    noticed: int
    at: int


class Bell:
    """Rung by this process's own writes; those of other processes are seen in the file."""

    def __init__(self, path: str) -> None:
        # A database in memory belongs to one process.
        self._path = None if path.startswith("file:") else path
        self._wake: FileWake | None = None
        self._rung = 0
        self._heard = 0
        self._noticed = 0
        self._heeded_at = 0
        self._looked: WeakKeyDictionary[asyncio.Task[Any], _Look] = WeakKeyDictionary()
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False

    def ring(self) -> None:
        """Wake all who wait, and whoever waits next without having looked since."""
        self._rung += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def heed(self, now: int) -> None:
        """Note that the caller looks for work at *now*: what rang before needs no waking."""
        self._heard, self._heeded_at = self._rung, now
        if self._wake is not None:
            self._noticed = self._wake.count
        task = asyncio.current_task()
        if task is not None:
            # Its latest look counts. An older one would wake it for what it has just seen, again
            # and again without a pause if it rings the bell itself in between.
            self._looked.pop(task, None)

    def look(self, now: int) -> None:
        """Note that this task looks at *now*, for its own next wait.

        Whoever looks for something else than work is not heeded for: a claim in between must not
        make it sleep through what rang since it looked.
        """
        task = asyncio.current_task()
        if task is not None:
            noticed = self._wake.count if self._wake is not None else 0
            self._looked[task] = _Look(self._rung, noticed, now)

    def seen_until(self) -> int:
        """Return when this task looked last: what was due by then is no news to it."""
        task = asyncio.current_task()
        looked = self._looked.get(task) if task is not None else None
        return self._heeded_at if looked is None else looked.at

    async def wait(self, timeout: float) -> None:
        """Return when it rings, when another process writes, or after *timeout* seconds."""
        task = asyncio.current_task()
        before = _Look(self._heard, self._noticed, self._heeded_at)
        looked = self._looked.pop(task, before) if task is not None else before
        if self._closed or self._rung != looked.heard:
            return
        if self._wake is None and self._path is not None:
            self._wake = FileWake(self._path)
            # What was written before it watched is unknown: the caller looks once more.
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        elsewhere = asyncio.ensure_future(self._elsewhere(timeout, looked.noticed))
        try:
            await asyncio.wait(
                {waiter, elsewhere}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._waiting.discard(waiter)
            elsewhere.cancel()
            await asyncio.gather(elsewhere, return_exceptions=True)

    def close(self) -> None:
        """Wake everyone for good."""
        self._closed = True
        self.ring()
        if self._wake is not None:
            self._wake.close()
            self._wake = None

    async def _elsewhere(self, timeout: float, noticed: int) -> None:
        if self._wake is None:
            await asyncio.sleep(timeout)
        else:
            await self._wake.wait(timeout, after=noticed)

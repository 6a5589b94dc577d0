"""Keeps leases alive, from a thread of its own, and says when one must not be trusted any more.

A busy model cannot lose a lease: the heartbeat does not share the event loop with it. And a lease
that could not be renewed is given up *before* it ends, counted from when its last renewal was
sent, so that no two workers ever believe in the same job.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from evervec.clock import Clock
from evervec.errors import LeaseLost
from evervec.loop import guarded
from evervec.model import Holder
from evervec.ports import Queue, Renewed

BEATS = 4
"""Heartbeats a lease."""
MARGIN = 0.2
"""The last part of a lease in which it is not trusted any more."""
STANDSTILL = 20
"""Leases without an answer from the model after which a worker counts as stuck."""


class Renews(Protocol):
    """The one verb of a queue that a keeper needs."""

    async def renew(
        self, fences: Sequence[int], *, holder: Holder, lease_for: float
    ) -> Renewed: ...


@dataclass(slots=True)
class _Kept:
    trusted_until: int
    stopped: frozenset[int] = field(default_factory=frozenset)


class Keeper:
    """The leases of one worker. Used from the worker's loop and from the heartbeat's thread."""

    def __init__(self, clock: Clock, *, lease_for: float) -> None:
        self.lease_for = lease_for
        self._clock = clock
        self._kept: dict[int, _Kept] = {}
        self._lock = threading.Lock()
        self._went_on = clock.boot()

    def sent(self) -> int:
        """Return the moment from which a lease asked for now may be counted."""
        return self._clock.boot()

    def went_on(self) -> None:
        """Take note that work goes on: the model answered, or jobs were settled."""
        self._went_on = self._clock.boot()

    def add(self, fence: int, sent: int) -> None:
        self.went_on()
        with self._lock:
            self._kept[fence] = _Kept(self._trusted(sent))

    def drop(self, fence: int) -> None:
        with self._lock:
            self._kept.pop(fence, None)

    def fences(self) -> Sequence[int]:
        with self._lock:
            return list(self._kept)

    def held(self, fence: int) -> frozenset[int]:
        """Return the jobs that were taken back from this lease. Raises LeaseLost if it may be over."""
        with self._lock:
            kept = self._kept.get(fence)
        if kept is None or self._clock.boot() >= kept.trusted_until:
            raise LeaseLost(f"lease {fence} was not renewed in time; its jobs belong to others")
        return kept.stopped

    async def beat(self, queue: Renews, holder: Holder) -> None:
        """Renew every lease once. What the queue does not confirm is not trusted from here on."""
        asked, sent = self.fences(), self.sent()
        if not asked:
            return
        if sent - self._went_on > self.lease_for * 1000 * STANDSTILL:
            # A heart that beats in a body that hangs: without this nobody else ever got the jobs.
            raise LeaseLost(
                f"no answer from the model for {(sent - self._went_on) // 1000} s;"
                f" {len(asked)} leases are left to others",
                hint="if this worker does not recover, restart it",
            )
        renewed = await queue.renew(asked, holder=holder, lease_for=self.lease_for)
        with self._lock:
            for fence in asked:
                # A lease that was dropped meanwhile is finished, not lost.
                kept = self._kept.get(fence)
                if kept is None:
                    continue
                kept.trusted_until = self._trusted(sent) if fence in renewed.held else 0
                kept.stopped |= renewed.stopped

    def _trusted(self, sent: int) -> int:
        return sent + int(self.lease_for * 1000 * (1 - MARGIN))


async def keep_beating(keeper: Keeper, queue: Queue, holder: Holder) -> None:
    """Renew for ever; trouble is logged and tried again at the next beat."""
    pause = keeper.lease_for / BEATS

    async def beat() -> None:
        await keeper.beat(queue, holder)

    while True:
        await asyncio.sleep(pause)
        await guarded(beat, name="renewing leases", again=pause)


class Heartbeat:
    """Runs `keep_beating` in a thread with an event loop and a queue connection of its own."""

    def __init__(
        self,
        keeper: Keeper,
        open_queue: Callable[[], AbstractAsyncContextManager[Queue]],
        holder: Holder,
    ) -> None:
        self._keeper = keeper
        self._open_queue = open_queue
        self._holder = holder
        self._thread = threading.Thread(target=self._run, name="evervec-heartbeat", daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        if self._loop and self._task:
            with suppress(RuntimeError):  # the loop ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._beat())

    async def _beat(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._ready.set()
        async with self._open_queue() as queue:
            with suppress(asyncio.CancelledError):
                await keep_beating(self._keeper, queue, self._holder)

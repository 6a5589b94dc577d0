"""Claim jobs, hold their leases, attempt them, record how each attempt ended.

Only the task that carries a lease records how its jobs ended. Attempts yield outcomes and never
record them, so cancelling one needs no clean-up: what is not recorded comes back by itself.
"""

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from evervec.errors import EvervecError, LeaseLost
from evervec.faults import reach
from evervec.keeper import Keeper
from evervec.model import Holder, Lane, Lease
from evervec.outcome import Fail, Outcome, Release
from evervec.ports import Queue

log = logging.getLogger("evervec.worker")

TROUBLE_SECONDS = 1.0


class Attempt(Protocol):
    """What turns a lease into outcomes, in portions."""

    def attempt(
        self, lease: Lease, held: Callable[[], frozenset[int]]
    ) -> AsyncGenerator[Mapping[int, Outcome], None]: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """How much a worker takes at a time."""

    claim: int = 1000
    """Jobs a lease at most."""
    slots: int = 2
    """Leases at a time; one more is kept for live edits alone."""
    poll: float = 1.0
    """Seconds after which work is looked for without any wake-up."""


class Worker:
    """One loop that keeps its slots full until it is told to stop."""

    def __init__(
        self, queue: Queue, attempts: Attempt, *, keeper: Keeper, holder: Holder, pace: Pace
    ) -> None:
        self._queue = queue
        self._attempts = attempts
        self._keeper = keeper
        self._holder = holder
        self._pace = pace
        self._running: dict[asyncio.Task[None], Lease] = {}

    @property
    def busy(self) -> int:
        """How many jobs this worker holds."""
        return sum(len(lease.jobs) for lease in self._running.values())

    async def work(self, stopping: asyncio.Event) -> None:
        """Work until *stopping*, then let what runs end: no job is left behind."""
        wakes = asyncio.create_task(_told(stopping))
        try:
            while not stopping.is_set():
                try:
                    filled = await self._fill()
                except EvervecError as error:
                    log.warning("no claim, next try in %.0f s: %s", TROUBLE_SECONDS, error)
                    await asyncio.wait({wakes}, timeout=TROUBLE_SECONDS)
                    continue
                if not filled:
                    await self._wait(wakes)
            reach("worker.drain")
            while self._running:
                await self._ended(self._running)
        finally:
            await _cancelled({wakes, *self._running})

    async def _fill(self) -> bool:
        """Claim once if a slot is free; say whether another claim may bring more."""
        lane = self._free()
        if lane == "none":
            return False
        sent = self._keeper.sent()
        lease = await self._queue.claim(
            self._pace.claim,
            holder=self._holder,
            lease_for=self._keeper.lease_for,
            lane=Lane.LIVE if lane == "live" else None,
        )
        if lease is None:
            return False
        self._keeper.add(lease.fence, sent)
        self._running[asyncio.create_task(self._carry(lease))] = lease
        return True

    def _free(self) -> str:
        # The last slot serves live edits only, so that a long backfill never makes one wait.
        if len(self._running) < self._pace.slots:
            return "any"
        return "live" if len(self._running) == self._pace.slots else "none"

    async def _wait(self, wakes: asyncio.Task[None]) -> None:
        hint = asyncio.create_task(self._queue.wait(self._pace.poll))
        try:
            if self._free() == "none":
                await self._ended(self._running)
            else:
                await self._ended({*self._running, hint, wakes})
        finally:
            await _cancelled({hint})

    async def _ended(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        done, _ = await asyncio.wait(set(tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if self._running.pop(task, None) is not None:
                task.result()

    async def _carry(self, lease: Lease) -> None:
        """See a lease through; whatever goes wrong, the loop goes on."""
        left = {job.job for job in lease.jobs}
        try:
            attempt = self._attempts.attempt(lease, lambda: self._keeper.held(lease.fence))
            # Closed at once also if this is cancelled in between: it has requests under way.
            async with aclosing(attempt) as portions:
                async for outcomes in portions:
                    await self._queue.settle(lease.fence, outcomes)
                    left -= outcomes.keys()
            if left:
                # Taken back while they were worked on: nothing of theirs was published.
                await self._queue.settle(lease.fence, dict.fromkeys(left, Release()))
        except LeaseLost as error:
            log.warning("%s", error)
        except Exception as error:
            log.exception("lease %s ended with %s open jobs", lease.fence, len(left))
            await self._hand_back(lease.fence, left, error)
        finally:
            self._keeper.drop(lease.fence)

    async def _hand_back(self, fence: int, left: set[int], error: Exception) -> None:
        """Hand back what trouble interrupted; what a defect of ours broke waits for a person."""
        outcome: Outcome = Fail(repr(error), "defect", "".join(traceback.format_exception(error)))
        if _is_trouble(error):
            outcome = Release(TROUBLE_SECONDS, str(error))
        try:
            await self._queue.settle(fence, dict.fromkeys(left, outcome))
        except EvervecError as trouble:
            # Then the lease runs out, and the jobs come back all the same.
            log.warning("could not hand back lease %s: %s", fence, trouble)


def _is_trouble(error: Exception) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(_is_trouble(part) for part in error.exceptions)
    return isinstance(error, EvervecError)


async def _told(stopping: asyncio.Event) -> None:
    await stopping.wait()


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

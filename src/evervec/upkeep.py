"""What has to be done now and then: take back lost leases, delete what nobody needs any more."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from evervec.clock import Clock
from evervec.model import Scope
from evervec.ports import Queue, QueueControl, StoreControl
from evervec.settings import Retention

REAP_SECONDS = 1.0
PRUNE_SECONDS = 30.0
PRUNE_ROWS = 2000


class Pruned(Protocol):
    """Anything with old rows."""

    async def prune(self, *, before: int, limit: int) -> int: ...


@dataclass(frozen=True)
class Upkeep:
    """The housekeeping of one state. Any number of processes may do it at the same time."""

    queue: Queue
    control: QueueControl
    store: StoreControl
    events: Pruned
    retention: Retention
    clock: Clock
    registered: Callable[[], Awaitable[frozenset[Scope]]]
    """The collections that exist: of others nothing is kept."""

    async def reap(self) -> None:
        await self.queue.reap()

    async def prune(self) -> None:
        """Delete in small steps, so that nobody waits long for the write lock."""
        now, keep = self.clock.now(), self.retention
        stored, registered = await self.store.scopes(), await self.registered()
        for scope in stored:
            if scope not in registered:
                # A worker elsewhere published into it in the very moment it was removed.
                await self.store.forget(scope)
        while await self.control.prune(
            finished_before=now - keep.finished,
            parked_before=now - keep.parked if keep.parked else None,
            limit=PRUNE_ROWS,
        ):
            pass
        while await self.store.prune(unused_before=now - keep.unused, limit=PRUNE_ROWS):
            pass
        while await self.events.prune(before=now - keep.events, limit=PRUNE_ROWS):
            pass

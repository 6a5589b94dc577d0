"""The queue on SQLite: the worker's side of it, and the whole adapter.

Every verb is one short `begin immediate` transaction, so what a verb promises is durable when it
returns, and two processes never see each other's half of one. A job is one row: READY, DELAYED,
LEASED, SUSPECT or parked (FAILED, QUARANTINED, CANCELLED). It is held if it is LEASED under a fence,
and only that fence may settle it. It is in sync when the row is gone.

A verb reads the clock inside its transaction: it may have waited long for the write lock, and what
was not yet due or still held before may be so no more.
"""

from collections.abc import Callable, Mapping, Sequence

import apsw

from evervec.clock import SYSTEM, Clock
from evervec.holder import alive as look_alive
from evervec.holder import boot_id, this_process
from evervec.model import Change, Depth, Holder, Key, Lane, Lease, Scope
from evervec.outcome import Outcome
from evervec.ports import Put, Renewed, Settled
from evervec.queues.sqlite import claims, puts, reaping, settlements
from evervec.queues.sqlite.bell import Bell
from evervec.queues.sqlite.control import SQL as CONTROL
from evervec.queues.sqlite.control import SqliteControl
from evervec.queues.sqlite.rows import SQL, Name, Row
from evervec.sqlite.database import Database


class SqliteQueue(SqliteControl):
    """Implements the ports `Queue` and `QueueControl`. Call `open` before anything else."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock = SYSTEM,
        crashes_max: int = 3,
        boot: str | None = None,
        alive: Callable[[Holder], bool] | None = None,
    ) -> None:
        """*boot* and *alive* say which boot this is and whether a holder lives: for simulations."""
        super().__init__(database, clock, boot_id() if boot is None else boot)
        self._crashes_max = crashes_max
        self._alive = alive or _seen_from_here()
        self._bell = Bell(database.path)

    def open(self) -> None:
        """Bring the tables up to date."""
        self._database.migrate("events", "evervec.sqlite.schema")
        self._database.migrate("queue", "evervec.queues.sqlite.schema")

    async def identity(self) -> str:
        """Return what tells this queue from another one at the same path."""
        return str(
            await self._database.read(
                lambda connection: connection.execute(CONTROL["identity"]).get
            )
        )

    async def raise_fence(self, seen: int) -> bool:
        """See to it that fences to come are above *seen*; False if they were already."""

        def work(connection: apsw.Connection) -> bool:
            return connection.execute(CONTROL["raise_fence"], (seen,)).get is not None

        return await self._database.write(work)

    def _ring(self) -> None:
        self._bell.ring()

    async def put(self, changes: Sequence[Change], *, lane: Lane = Lane.LIVE) -> Put:
        """Ask for these documents to be brought in sync. Durable on return, idempotent."""
        if not changes:
            return Put(created=0, merged=0)

        def work(connection: apsw.Connection) -> tuple[Put, dict[Name, Row]]:
            return puts.put(connection, changes, lane, self._scopes, self._clock.now())

        put, found = await self._database.write(work, label="queue.put")
        self._scopes.keep(found)
        self._ring()
        return put

    async def claim(
        self, limit: int, *, holder: Holder, lease_for: float, lane: Lane | None = None
    ) -> Lease | None:
        """Take up to *limit* ready jobs in the fair order; None if there are none."""
        kinds = (Lane.LIVE, Lane.BACKFILL) if lane is None else (lane,)

        def work(connection: apsw.Connection) -> Lease | None:
            claimed = claims.claim(connection, limit, kinds, self._clock.now(), holder)
            if claimed is None:
                return None
            fence, rows = claimed
            expires = self._clock.boot() + round(lease_for * 1000)
            claims.open_lease(connection, fence, holder, expires, len(rows))
            return Lease(fence, tuple(self._scopes.job(connection, row) for row in rows))

        self._bell.heed(self._clock.now())
        lease = await self._database.write(work, label="queue.claim")
        if lease is not None:
            # There may be more of it, for others that wait.
            self._ring()
        return lease

    async def renew(self, fences: Sequence[int], *, holder: Holder, lease_for: float) -> Renewed:
        """Extend the leases that *holder* still holds; the rest now belongs to others."""
        who = (holder.name, holder.host, holder.pid, holder.started, holder.boot)

        def work(connection: apsw.Connection) -> Renewed:
            now = self._clock.boot()
            expires = now + round(lease_for * 1000)
            held = [
                fence
                for fence in fences
                if connection.execute(SQL["renew"], (expires, fence, now, *who)).get is not None
            ]
            stopped = [
                job for fence in held for (job,) in connection.execute(SQL["stopped"], (fence,))
            ]
            return Renewed(held=frozenset(held), stopped=frozenset(stopped))

        return await self._database.write(work, label="queue.renew")

    async def settle(self, fence: int, outcomes: Mapping[int, Outcome]) -> Settled:
        """Record how held jobs ended, as one set in one commit."""

        def work(connection: apsw.Connection) -> Settled:
            return settlements.settle(connection, fence, outcomes, self._scopes, self._clock.now())

        settled = await self._database.write(work, label="queue.settle")
        self._ring()
        return settled

    async def reap(self) -> Sequence[Key]:
        """Hand back the jobs of leases that ran out or whose holder is dead; return their keys."""
        # Looked up before the write lock is asked for: mostly there is nothing to reap.
        fences = await self._database.read(
            lambda connection: reaping.doomed(
                connection, self._alive, self._boot, self._clock.boot()
            )
        )
        if not fences:
            return []

        def work(connection: apsw.Connection) -> list[Key]:
            now = self._clock.now()
            return reaping.reap(connection, fences, self._scopes, self._crashes_max, now)

        keys = await self._database.write(work, label="queue.reap")
        self._ring()
        return keys

    async def depth(self, scope: Scope | None = None) -> Depth:
        """Count what is unfinished, of everything or of one collection."""
        self._bell.look(self._clock.now())
        return await super().depth(scope)

    async def wait(self, timeout: float) -> None:
        """Return early if work may be ready. A hint: claim to find out."""
        # What was due when the caller looked is no reason to look again: it may not be had now, for
        # the queue is paused or its writer is busy, and looking without a pause keeps it busy.
        values = (self._bell.seen_until(),)
        due = await self._database.read(
            lambda connection: connection.execute(SQL["due"], values).get
        )
        if due is not None:
            timeout = min(timeout, max(0, due - self._clock.now()) / 1000)
        await self._bell.wait(timeout)

    async def close(self) -> None:
        """End waiting; the database belongs to whoever opened it."""
        self._bell.close()


def _seen_from_here() -> Callable[[Holder], bool]:
    here = this_process("")
    # A holder that cannot be seen from here lives until its lease runs out.
    return lambda holder: look_alive(holder, here) is not False

"""The operator's side: look, replay, cancel, drop, pause, count, prune."""

from collections.abc import Iterable, Mapping, Sequence

import apsw

from evervec.clock import Clock
from evervec.model import LOCAL, Depth, Id, Key, Lane, Mode, Scope, State, Tier
from evervec.ports import JobView
from evervec.queues.sqlite.puts import AGING_STEP
from evervec.queues.sqlite.rows import Row, Scopes, ids, rows
from evervec.sqlite.database import Database
from evervec.sqlite.events import Fact, append
from evervec.sqlite.statements import statements

SQL = statements("evervec.queues.sqlite", "control.sql")

PARKED = (State.FAILED, State.QUARANTINED, State.CANCELLED)
_FORGET_STEP = 10_000
_MODE_FACTS = {
    Mode.RUNNING: "queue.resumed",
    Mode.PAUSED: "queue.paused",
    Mode.DRAINING: "queue.draining",
}


class SqliteControl:
    """Implements the port `QueueControl`."""

    def __init__(self, database: Database, clock: Clock, boot: str) -> None:
        self._database = database
        self._clock = clock
        self._boot = boot
        self._scopes = Scopes()

    def _ring(self) -> None:
        """Tell waiters of this process that there may be work; the worker's side has them."""

    async def jobs(
        self,
        *,
        scope: Scope | None = None,
        states: Sequence[State] = (),
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[JobView]:
        """List jobs by number, a page at a time."""
        wanted = frozenset(states) or frozenset(State)

        def work(connection: apsw.Connection) -> list[Row]:
            number = None
            if scope is not None:
                place = self._scopes.find(connection, scope)
                if place is None:
                    return []
                number = place[0]
            if not wanted <= frozenset(PARKED):
                values = (after, number, ids(sorted(wanted)), limit)
                return rows(connection, SQL["jobs"], values)
            found: list[Row] = []
            for state in sorted(wanted):
                found += rows(connection, SQL["parked"], (state, after, number, limit))
            return sorted(found, key=lambda row: int(row[0]))[:limit]

        return [self._view(row) for row in await self._database.read(work)]

    async def find(self, keys: Sequence[Key]) -> Mapping[Key, JobView]:
        """Return the jobs of these documents; a document in sync has none."""

        def work(connection: apsw.Connection) -> list[Row]:
            found: list[Row] = []
            for key in keys:
                place = self._scopes.find(connection, key.scope)
                if place is not None:
                    found += rows(connection, SQL["find"], (place[0], key.id))
            return found

        views = [self._view(row) for row in await self._database.read(work)]
        return {view.key: view for view in views}

    def _view(self, row: Row) -> JobView:
        job, tenant, collection, document, state, lane, priority, attempts, crashes = row[:9]
        releases, since, run_key, holder, reason, kind, stack, expires, boot = row[9:]
        ready = run_key if state == State.DELAYED else run_key - priority * AGING_STEP
        stale = state == State.LEASED and (
            expires is None
            or expires <= self._clock.boot()
            or boot.partition("/")[0] != self._boot.partition("/")[0]
        )
        return JobView(
            job=job,
            key=Key(tenant, collection, Id(document)),
            state=State(state),
            lane=Lane.LIVE if lane > 0 else Lane.BACKFILL,
            priority=priority,
            attempts=attempts,
            crashes=crashes,
            releases=releases,
            since=since,
            due=ready,
            holder=holder,
            reason=reason,
            kind=kind,
            stack=stack,
            stale=stale,
        )

    async def replay(self, jobs: Sequence[int]) -> int:
        """Make parked jobs ready with all counters at zero; return how many were parked."""

        def work(connection: apsw.Connection) -> int:
            now = self._clock.now()
            replayed = rows(connection, SQL["replay"], (ids(jobs), now))
            facts = [self._fact(connection, "job.replayed", *row) for row in replayed]
            append(connection, facts, at=now)
            return len(replayed)

        replayed = await self._database.write(work)
        self._ring()
        return replayed

    def _fact(
        self, connection: apsw.Connection, name: str, job: int, number: int, document: str
    ) -> Fact:
        return Fact(name, self._scopes.name(connection, number), Id(document), {"job": job})

    async def cancel(self, keys: Sequence[Key]) -> Mapping[Key, int]:
        """Park unfinished jobs as cancelled; a holder's result no longer counts.

        Return a fence for each job cancelled, above every lease that ever held it.
        """

        def work(connection: apsw.Connection) -> dict[Key, int]:
            now = self._clock.now()
            cancelled: dict[Key, int] = {}
            fence = int(connection.execute(SQL["fence"]).get)
            for key in dict.fromkeys(keys):
                found = self._scopes.find(connection, key.scope)
                if found is None:
                    continue
                connection.execute(SQL["stop"], (found[0], key.id))
                job = connection.execute(SQL["cancel"], (found[0], key.id, now)).get
                if job is not None:
                    cancelled[key] = fence
                    fact = self._fact(connection, "job.cancelled", job, found[0], key.id)
                    append(connection, [fact], at=now)
            return cancelled

        return await self._database.write(work)

    async def drop(self, jobs: Sequence[int]) -> int:
        """Forget parked jobs; return how many."""

        def work(connection: apsw.Connection) -> int:
            connection.execute(SQL["drop"], (ids(jobs),))
            return connection.changes()

        return await self._database.write(work)

    async def forget(self, scope: Scope) -> None:
        """Forget everything about a collection that is no longer served, in bounded steps."""

        def work(connection: apsw.Connection) -> int:
            found = self._scopes.find(connection, scope)
            if found is None:
                return 0
            connection.execute(SQL["stop_scope"], (found[0],))
            connection.execute(SQL["forget"], (found[0], _FORGET_STEP))
            if not connection.changes():
                connection.execute(SQL["forget_finished"], (found[0], _FORGET_STEP))
            return connection.changes()

        while await self._database.write(work):
            pass

    async def set_mode(self, mode: Mode) -> None:
        """Pause, resume or drain, durably; what is held goes on."""

        def work(connection: apsw.Connection) -> None:
            connection.execute(SQL["set_mode"], (mode.value,))
            if connection.changes():
                fact = Fact(_MODE_FACTS[mode], Scope(LOCAL, ""))
                append(connection, [fact], at=self._clock.now())

        await self._database.write(work)
        self._ring()

    async def mode(self) -> tuple[Mode, int]:
        """Return the mode and how many jobs are held: drained is draining with none held."""
        ((mode, held),) = await self._database.read(
            lambda connection: rows(connection, SQL["mode"])
        )
        return Mode(mode), int(held)

    async def set_tier(self, tenant: str, tier: Tier) -> None:
        """Give *tenant* its weight in the fair order, from the next claim on."""
        await self._database.write(
            lambda connection: rows(connection, SQL["set_tier"], (tenant, int(tier)))
        )

    async def depth(self, scope: Scope | None = None) -> Depth:
        """Count what is unfinished, of everything or of one collection."""

        def work(connection: apsw.Connection) -> tuple[list[Row], dict[State, int]]:
            number = None
            if scope is not None:
                # A collection that never had a job counts nothing, as number 0 does.
                number = (self._scopes.find(connection, scope) or (0,))[0]
            counts = rows(connection, SQL["depth"], (number,))
            parked = {
                state: int(connection.execute(SQL["depth_parked"], (state, number)).get)
                for state in PARKED
            }
            return counts, parked

        counts, parked = await self._database.read(work)
        count = {state: number for state, number, _ in counts}
        return Depth(
            ready=count[State.READY] + count[State.SUSPECT],
            delayed=count[State.DELAYED],
            leased=count[State.LEASED],
            failed=parked[State.FAILED],
            quarantined=parked[State.QUARANTINED],
            cancelled=parked[State.CANCELLED],
            oldest=_oldest(since for _, _, since in counts),
        )

    async def prune(self, *, finished_before: int, parked_before: int | None, limit: int) -> int:
        """Delete up to *limit* finished (and, if asked, parked) rows that ended before then."""

        def work(connection: apsw.Connection) -> int:
            connection.execute(SQL["prune_finished"], (finished_before, limit))
            gone = connection.changes()
            if parked_before is not None:
                connection.execute(SQL["prune_parked"], (parked_before, limit - gone))
                gone += connection.changes()
            return gone

        return await self._database.write(work)


def _oldest(times: Iterable[int | None]) -> int | None:
    return min((time for time in times if time is not None), default=None)

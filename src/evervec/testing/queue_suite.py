"""What every queue must do: subclass `QueueSuite` and provide the fixtures `queue` and `clock`.

The queue under test must use *clock*, quarantine at three crashes, hold that the holder named
`dead` does not live and that every other one does, and be of the boot `BOOT`.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import pytest

from evervec.model import (
    Change,
    Holder,
    Job,
    Key,
    Lane,
    Lease,
    Mode,
    Scope,
    State,
    Tier,
    encode_id,
)
from evervec.outcome import Done, Fail, Outcome, Release, Retry
from evervec.ports import JobView, Put, Queue, QueueControl
from evervec.testing.clock import VirtualClock

BOOT = "boot-1"
LEASE_FOR = 60.0


class WholeQueue(Queue, QueueControl, Protocol):
    """Both sides of one queue."""


def alive(holder: Holder) -> bool:
    """Say who lives, for the queue under test."""
    return holder.name != "dead"


def holder(name: str = "w1", *, pid: int = 1, started: int = 1, boot: str = BOOT) -> Holder:
    return Holder(name, "host", pid, started, boot)


OTHERS = (
    holder("w2"),
    holder(pid=2),
    holder(started=2),
    holder(boot="other"),
    Holder("w1", "elsewhere", 1, 1, BOOT),
)
"""Each differs from `holder()` in one thing, and is therefore another process."""


def key(document: int | str, *, tenant: str = "", collection: str = "c") -> Key:
    return Key(tenant, collection, encode_id(document))


def changes(documents: Iterable[int | str], *, tenant: str = "") -> list[Change]:
    return [Change(key(document, tenant=tenant)) for document in documents]


async def take(
    queue: Queue, limit: int = 500, *, by: Holder | None = None, lane: Lane | None = None
) -> Lease:
    lease = await queue.claim(limit, holder=by or holder(), lease_for=LEASE_FOR, lane=lane)
    assert lease is not None, "there is something to claim"
    return lease


async def nothing(queue: Queue, *, lane: Lane | None = None) -> bool:
    return await queue.claim(500, holder=holder(), lease_for=LEASE_FOR, lane=lane) is None


async def handed_back(queue: Queue) -> None:
    """Let the one document change while it is worked on."""
    lease = await take(queue)
    await queue.put([Change(job.key) for job in lease.jobs])
    assert (await queue.settle(lease.fence, all_of(lease, Done()))).again


def all_of(lease: Lease, outcome: Outcome) -> dict[int, Outcome]:
    return {job.job: outcome for job in lease.jobs}


def keys(jobs: Iterable[Job]) -> list[Key]:
    return [job.key for job in jobs]


async def view(queue: QueueControl, wanted: Key) -> JobView:
    found: Mapping[Key, JobView] = await queue.find([wanted])
    return found[wanted]


class PutSuite:
    """Merging."""

    @pytest.mark.accepts("000-10", "000-34")
    async def test_a_thousand_changes_of_a_document_are_one_job(self, queue: WholeQueue) -> None:
        first = await queue.put(changes([1]))
        rest = await queue.put(changes([1] * 999))

        assert (first, rest) == (Put(1, 0), Put(0, 999))
        lease = await take(queue)
        assert keys(lease.jobs) == [key(1)]
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).ended
        assert (await queue.put(changes([1]))) == Put(1, 0), "a finished job does not block"

    async def test_changes_within_one_call_merge_too(self, queue: WholeQueue) -> None:
        assert await queue.put(changes([1, 2, 1, 1])) == Put(created=2, merged=2)
        assert await queue.put([]) == Put(0, 0)

    async def test_a_merged_change_keeps_the_oldest_age_and_the_best_place(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        put_at = clock.now()
        await queue.put([Change(key(1), priority=3), Change(key(2), priority=1)])
        clock.advance(10)
        await queue.put([Change(key(1), priority=0)])
        await queue.put([Change(key(2), priority=9)])

        first, second = await view(queue, key(1)), await view(queue, key(2))
        assert (first.since, first.priority, first.due) == (put_at, 0, put_at + 10_000)
        assert (second.since, second.priority, second.due) == (put_at, 1, put_at)
        lease = await take(queue)
        assert [job.since for job in lease.jobs] == [put_at, put_at]
        assert [job.took for job in lease.jobs] == [2, 2]

    async def test_the_age_is_the_time_of_the_commit_if_it_is_known(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        now = clock.now()
        await queue.put([Change(key(1), at=now - 500), Change(key(2), at=now + 500)])
        await queue.put([Change(key(1), at=now - 900), Change(key(1), at=now - 700)])

        assert (await view(queue, key(1))).since == now - 900
        assert (await view(queue, key(2))).since == now, "a clock ahead makes nothing younger"

    async def test_force_survives_merging_and_ends_with_the_attempt(
        self, queue: WholeQueue
    ) -> None:
        await queue.put([Change(key(1), force=True), Change(key(1))])
        await queue.put([Change(key(1))])
        lease = await take(queue)
        assert lease.jobs[0].force
        await queue.put([Change(key(1))])
        await queue.settle(lease.fence, all_of(lease, Done()))
        assert not (await take(queue)).jobs[0].force, "the change after it was not forced"

    @pytest.mark.parametrize("outcome", [Done(), Release(), Release(1)])
    async def test_force_during_an_attempt_is_for_the_next(
        self, queue: WholeQueue, clock: VirtualClock, outcome: Outcome
    ) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        await queue.put([Change(key(1), force=True)])
        await queue.settle(lease.fence, all_of(lease, outcome))
        clock.advance(1)
        lease = await take(queue)
        assert lease.jobs[0].force
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).ended

    @pytest.mark.parametrize("outcome", [Retry(0, "no", "E"), Fail("no", "E")])
    async def test_force_outlives_an_attempt_that_failed(
        self, queue: WholeQueue, outcome: Outcome
    ) -> None:
        await queue.put([Change(key(1), force=True)])
        lease = await take(queue)
        await queue.put(changes([1]))
        await queue.settle(lease.fence, all_of(lease, outcome))
        assert (await take(queue)).jobs[0].force

    async def test_a_live_change_moves_a_backfill_job_and_never_the_reverse(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes([1, 2]), lane=Lane.BACKFILL)
        await queue.put(changes([1]), lane=Lane.LIVE)
        await queue.put(changes([1]), lane=Lane.BACKFILL)

        lease = await take(queue, lane=Lane.LIVE)
        assert keys(lease.jobs) == [key(1)]
        assert lease.jobs[0].lane is Lane.LIVE
        rest = await take(queue, lane=Lane.BACKFILL)
        assert keys(rest.jobs) == [key(2)]
        assert rest.jobs[0].lane is Lane.BACKFILL

    @pytest.mark.accepts("000-24", "R-36")
    async def test_ids_that_differ_in_type_or_hold_separators_are_different_jobs(
        self, queue: WholeQueue
    ) -> None:
        awkward = [
            key(1),
            key("1"),
            key("b:c", collection="a"),
            key("c", collection="a:b"),
            key(1, tenant="t"),
            key("\ud800"),
            key("\\ud800"),
            key("\ud83d\ude00"),
            key("\N{GRINNING FACE}"),
            key("\0"),
            key(""),
        ]
        assert await queue.put([Change(each) for each in awkward]) == Put(len(awkward), 0)
        for each in awkward:
            assert set(await queue.find([each])) == {each}
        assert set(keys((await take(queue)).jobs)) == set(awkward)

    @pytest.mark.parametrize("park", [State.FAILED, State.QUARANTINED, State.CANCELLED])
    async def test_a_change_revives_a_parked_job_with_its_counters_at_zero(
        self, queue: WholeQueue, clock: VirtualClock, park: State
    ) -> None:
        await parked(queue, park)
        clock.advance(60)

        assert await queue.put([Change(key(1), priority=2)], lane=Lane.BACKFILL) == Put(0, 1)

        job = await view(queue, key(1))
        assert (job.state, job.attempts, job.crashes, job.releases) == (State.READY, 0, 0, 0)
        assert (job.reason, job.kind, job.stack) == ("", "", "")
        assert (job.since, job.due) == (clock.now(), clock.now())
        assert (job.lane, job.priority) == (Lane.BACKFILL, 2)
        lease = await take(queue)
        assert not lease.jobs[0].force
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).ended
        assert not await queue.find([key(1)])

    async def test_a_change_does_not_shorten_a_backoff(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Retry(30, "later", "E")))
        await queue.put(changes([1]))
        clock.advance(29.999)
        assert await nothing(queue)
        clock.advance(0.001)
        assert (await take(queue)).jobs[0].attempts == 1


async def parked(queue: WholeQueue, state: State) -> None:
    """Bring document 1 into a parked state, by the way it gets there, after every kind of trouble."""
    await queue.put([Change(key(1), force=True)])
    lease = await take(queue)
    await queue.settle(lease.fence, all_of(lease, Release()))
    lease = await take(queue)
    await queue.settle(lease.fence, all_of(lease, Retry(0, "again", "E", "stack")))
    if state is State.CANCELLED:
        await queue.cancel([key(1)])
    elif state is State.FAILED:
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Fail("broken", "Broken", "stack")))
    else:
        for _ in range(3):
            await take(queue, by=holder("dead"))
            await queue.reap()
    assert (await view(queue, key(1))).state is state


class ClaimSuite:
    """The order, and who gets what."""

    @pytest.mark.accepts("000-36")
    async def test_nothing_to_claim_is_none(self, queue: WholeQueue) -> None:
        assert await nothing(queue)
        await queue.put(changes([1]))
        assert await queue.claim(0, holder=holder(), lease_for=LEASE_FOR) is None

    async def test_what_is_held_is_not_claimed_again(self, queue: WholeQueue) -> None:
        await queue.put(changes(range(10)))
        first = await take(queue, 6)
        second = await take(queue, 6)
        assert len(first.jobs) == 6
        assert len(second.jobs) == 4
        assert not set(keys(first.jobs)) & set(keys(second.jobs))
        assert second.fence > first.fence
        assert await nothing(queue)

    @pytest.mark.accepts("000-35")
    async def test_older_jobs_go_first_and_priority_is_worth_minutes(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        """L3: a step of priority is overtaken only by what arrives in the next minute."""
        await queue.put([Change(key("low"), priority=2)])
        await queue.put(changes(["first"]))
        clock.advance(119.999)
        await queue.put(changes(["just before"]))
        clock.advance(0.002)
        await queue.put(changes(["too late"]))

        order = [(await take(queue, 1)).jobs[0].key for _ in range(4)]
        assert order == [key("first"), key("just before"), key("low"), key("too late")]

    @pytest.mark.accepts("R-15")
    async def test_one_job_among_ten_thousand_of_another_tenant_is_in_the_first_claim(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes(range(10_000), tenant="a"))
        await queue.put(changes([1], tenant="b"))
        for lease in [await take(queue, 100)]:
            assert key(1, tenant="b") in keys(lease.jobs)
            assert len(lease.jobs) == 100, "the other tenant fills what is left"

    @pytest.mark.parametrize("limit", [1, 3, 10, 100])
    @pytest.mark.parametrize("kind", list(Lane))
    async def test_every_lane_is_served_within_one_round(
        self, queue: WholeQueue, limit: int, kind: Lane
    ) -> None:
        """L2: with A lanes and k a claim, each within ceil(A / k) + 1 claims."""
        tenants = [f"t{number}" for number in range(30)]
        for tenant in tenants:
            await queue.put(changes(range(40), tenant=tenant), lane=kind)
        quantum = max(1, min(8, limit // 8))
        rounds = -(-30 * quantum // limit) + 1
        served: set[str] = set()
        for _ in range(rounds):
            served |= {job.key.tenant for job in (await take(queue, limit)).jobs}
        assert served == set(tenants)

    async def test_a_tier_may_change_at_any_time(self, queue: WholeQueue) -> None:
        for tenant in ("a", "b"):
            await queue.put(changes(range(200), tenant=tenant))
        for tier, share in ((Tier.FREE, 50), (Tier.ENTERPRISE, 80), (Tier.FREE, 50)):
            await queue.set_tier("a", tier)
            counts = Counter(job.key.tenant for job in (await take(queue, 100)).jobs)
            assert counts["a"] == share

    @pytest.mark.parametrize("limit", [1, 2, 5, 64, 200])
    @pytest.mark.parametrize("kind", list(Lane))
    async def test_tiers_share_by_weight_in_claims_of_any_size(
        self, queue: WholeQueue, limit: int, kind: Lane
    ) -> None:
        tiers = {"f": Tier.FREE, "p": Tier.PREMIUM, "e": Tier.ENTERPRISE}
        for tenant, tier in tiers.items():
            await queue.set_tier(tenant, tier)
            await queue.put(changes(range(1500), tenant=tenant), lane=kind)
        counts: Counter[str] = Counter()
        while counts.total() < min(1400, 70 * limit):
            counts.update(job.key.tenant for job in (await take(queue, limit)).jobs)
        assert counts["p"] / counts["f"] == pytest.approx(2, rel=0.2)
        assert counts["e"] / counts["f"] == pytest.approx(4, rel=0.2)

    @pytest.mark.parametrize(("lanes", "quanta"), [(70, (8, 16, 32))])
    async def test_with_many_lanes_each_gets_its_quantum(
        self, queue: WholeQueue, lanes: int, quanta: tuple[int, ...]
    ) -> None:
        for number in range(lanes):
            await queue.set_tier(f"t{number}", list(Tier)[number % 3])
            await queue.put(changes(range(40), tenant=f"t{number}"))
        counts = Counter(job.key.tenant for job in (await take(queue, 500)).jobs)
        whole = [count == quanta[int(tenant[1:]) % 3] for tenant, count in counts.items()]
        assert whole.count(False) <= 1, "only the last may be cut short"
        assert counts.total() == 500

    async def test_live_goes_before_backfill_which_keeps_an_eighth(self, queue: WholeQueue) -> None:
        await queue.put(changes(range(1000)), lane=Lane.BACKFILL)
        await queue.put(changes(range(2000, 3000)))
        for limit, backfill in ((80, 10), (81, 11), (4, 1), (2, 1)):
            counts = Counter(job.lane for job in (await take(queue, limit)).jobs)
            assert counts == {Lane.LIVE: limit - backfill, Lane.BACKFILL: backfill}
        lease = await take(queue, 80)
        assert [job.lane for job in lease.jobs] == sorted(job.lane for job in lease.jobs)
        ones = Counter([(await take(queue, 1)).jobs[0].lane for _ in range(16)])
        assert ones == {Lane.LIVE: 14, Lane.BACKFILL: 2}

    async def test_either_lane_fills_the_batch_if_the_other_is_empty(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes(range(100)), lane=Lane.BACKFILL)
        assert len((await take(queue, 80)).jobs) == 80
        await queue.put(changes(range(200, 300)))
        assert len((await take(queue, 110)).jobs) == 110
        assert len((await take(queue, 110)).jobs) == 10

    async def test_a_claim_of_one_kind_takes_no_other(self, queue: WholeQueue) -> None:
        await queue.put(changes([1]), lane=Lane.BACKFILL)
        assert await nothing(queue, lane=Lane.LIVE)
        await queue.put(changes([2]))
        assert keys((await take(queue, lane=Lane.BACKFILL)).jobs) == [key(1)]
        assert await nothing(queue, lane=Lane.BACKFILL)
        assert keys((await take(queue, lane=Lane.LIVE)).jobs) == [key(2)]

    @pytest.mark.accepts("R-11")
    async def test_sixty_jobs_that_always_fail_do_not_hold_up_the_next(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes(range(60)))
        await queue.put(changes(["good"]))
        for _ in range(8):
            lease = await take(queue, 10)
            if key("good") in keys(lease.jobs):
                return
            await queue.settle(lease.fence, all_of(lease, Retry(1, "always", "E")))
            clock.advance(1)
        pytest.fail("the good job was not reached")


class SettleSuite:
    """How attempts end."""

    @pytest.mark.accepts("000-37")
    async def test_a_finished_job_is_gone(self, queue: WholeQueue) -> None:
        await queue.put(changes([1, 2]))
        lease = await take(queue)
        settled = await queue.settle(lease.fence, all_of(lease, Done()))
        assert settled.ended == {job.job for job in lease.jobs}
        assert not settled.again
        assert not await queue.find([key(1), key(2)])
        assert not (await queue.renew([lease.fence], holder=holder(), lease_for=9)).held

    @pytest.mark.accepts("000-32")
    async def test_a_change_during_an_attempt_is_not_lost(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1, 2]))
        lease = await take(queue)
        clock.advance(5)
        newer = clock.now()
        assert await queue.put(changes([1])) == Put(0, 1)
        clock.advance(5)
        await queue.put(changes([1]))
        settled = await queue.settle(lease.fence, all_of(lease, Done()))
        assert len(settled.ended) == len(settled.again) == 1
        lease = await take(queue)
        (again,) = lease.jobs
        assert again.key == key(1)
        assert again.since == newer, "the age is that of the oldest change not yet seen"
        clock.advance(5)
        await queue.put(changes([1]))
        await queue.settle(lease.fence, all_of(lease, Done()))
        assert (await view(queue, key(1))).since == clock.now()

    async def test_a_change_during_an_attempt_starts_over_if_that_succeeds(
        self, queue: WholeQueue
    ) -> None:
        """What troubled the text that is published now says nothing of the next one."""
        await queue.put(changes([1]))
        await take(queue, by=holder("dead"))
        await queue.reap()
        for outcome in (Release(), Retry(0, "no", "E", "line 3")):
            lease = await take(queue)
            await queue.settle(lease.fence, all_of(lease, outcome))
        before = await view(queue, key(1))
        assert (before.attempts, before.crashes, before.releases) == (1, 1, 1)
        assert (before.reason, before.kind, before.stack) == ("no", "E", "line 3")
        lease = await take(queue)
        await queue.put(changes([1]))
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).again
        after = await view(queue, key(1))
        assert (after.attempts, after.crashes, after.releases) == (0, 0, 0)
        assert (after.reason, after.kind, after.stack) == ("", "", "")

    @pytest.mark.parametrize(
        "outcome", [Release(), Release(1), Retry(1, "no", "E"), Fail("no", "E"), None]
    )
    async def test_what_came_during_an_attempt_that_came_to_nothing_is_done_by_the_next(
        self, queue: WholeQueue, clock: VirtualClock, outcome: Outcome | None
    ) -> None:
        """Its age and its force go with the next attempt, and end with it."""
        await queue.put([Change(key(1), force=True)])
        lease = await take(queue, by=holder("dead" if outcome is None else "w1"))
        clock.advance(1)
        await queue.put([Change(key(1), force=True)])
        if outcome is None:
            await queue.reap()
        else:
            await queue.settle(lease.fence, all_of(lease, outcome))
        clock.advance(1)
        lease = await take(queue)
        assert lease.jobs[0].force
        clock.advance(1)
        await queue.put(changes([1]))
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).again
        (job,) = (await take(queue)).jobs
        assert (job.since, job.force) == (clock.now(), False)

    async def test_history_holds_what_was_finished_and_nothing_else(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        names = ["finished", "changed", "released", "held"]
        for name in [*names, "other"]:
            await queue.put(changes([name]))
            clock.advance(1)
        mine, other = await take(queue, 4), await take(queue)
        assert keys(other.jobs) == [key("other")]
        number = {job.key: job.job for job in (*mine.jobs, *other.jobs)}
        await queue.settle(mine.fence, {number[key("released")]: Release()})
        await queue.put(changes(["changed"]))
        done = [number[key(name)] for name in ("finished", "changed", "released", "other")]
        settled = await queue.settle(mine.fence, dict.fromkeys(done, Done()))
        assert settled.ended == {number[key("finished")]}
        clock.advance(1)
        now = clock.now()
        assert await queue.prune(finished_before=now, parked_before=None, limit=9) == 1

    async def test_what_was_settled_for_one_reading_is_not_settled_for_the_next(
        self, queue: WholeQueue
    ) -> None:
        """Settling twice, or after the job was handed back, does nothing."""
        await queue.put(changes([1]))
        lease = await take(queue)
        await queue.put(changes([1]))
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).again
        assert not (await queue.settle(lease.fence, all_of(lease, Done()))).held
        assert (await view(queue, key(1))).state is State.DELAYED

    async def test_a_document_that_changes_all_the_time_is_debounced(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        """L5: restless, it waits twice as long after each hand-back, and never over two seconds."""
        await queue.put(changes([1]))
        waits = []
        for _ in range(10):
            await handed_back(queue)
            begun = clock.now()
            while (due := (await view(queue, key(1))).due) > clock.now():
                clock.advance(min(10, due - clock.now()) / 1000)
                await queue.put(changes([1]))
            waits.append(clock.now() - begun)
        assert waits == [0, 50, 100, 200, 400, 800, 1600, 2000, 2000, 2000]

    async def test_a_document_that_comes_to_rest_waits_no_longer(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        for _ in range(9):
            await handed_back(queue)
            clock.advance(0.04)
        await handed_back(queue)
        clock.advance(0.02)
        await queue.put([Change(key(1), priority=1, at=1)])
        clock.advance(0.039)
        assert await nothing(queue)
        clock.advance(0.001)
        assert keys((await take(queue)).jobs) == [key(1)]

    @pytest.mark.parametrize("then", ["taken", "cancelled"])
    async def test_rest_is_waited_for_once(
        self, queue: WholeQueue, clock: VirtualClock, then: str
    ) -> None:
        """A change does not shorten the backoff of what failed after it came to rest."""
        await queue.put(changes([1]))
        for _ in range(2):
            await handed_back(queue)
        if then == "cancelled":
            await queue.cancel([key(1)])
            await queue.replay([job.job for job in await queue.jobs()])
        clock.advance(0.04)
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Retry(9, "reset", "OSError")))
        await queue.put(changes([1]))
        assert (await view(queue, key(1))).due == clock.now() + 9000

    async def test_a_job_cancelled_while_it_changed_starts_over(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Retry(0, "no", "E", "line 3")))
        await take(queue)
        await queue.put([Change(key(1), force=True)])
        await queue.cancel([key(1)])
        await queue.replay([job.job for job in await queue.jobs()])
        job = await view(queue, key(1))
        assert (job.reason, job.kind, job.stack) == ("", "", "")
        lease = await take(queue)
        assert lease.jobs[0].force
        clock.advance(1)
        await queue.put(changes([1]))
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).again
        (after,) = (await take(queue)).jobs
        assert (after.since, after.force) == (clock.now(), False)

    @pytest.mark.parametrize("revive", ["change", "person"])
    async def test_a_revived_job_is_not_debounced_for_what_was(
        self, queue: WholeQueue, clock: VirtualClock, revive: str
    ) -> None:
        await queue.put(changes([1]))
        for _ in range(3):
            clock.advance(2)
            await handed_back(queue)
        await queue.cancel([key(1)])
        if revive == "change":
            await queue.put(changes([1]))
        else:
            await queue.replay([job.job for job in await queue.jobs()])
        await handed_back(queue)
        assert (await view(queue, key(1))).due == clock.now()

    @pytest.mark.accepts("002-25", "R-09")
    async def test_a_retry_runs_again_after_its_backoff_and_not_before(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put([Change(key(1), priority=1)])
        lease = await take(queue)
        retry = Retry(2.5, "reset by peer", "OSError", "at line 3")
        settled = await queue.settle(lease.fence, all_of(lease, retry))
        assert settled.ended == {lease.jobs[0].job}
        job = await view(queue, key(1))
        assert (job.state, job.due, job.attempts) == (State.DELAYED, clock.now() + 2500, 1)
        assert (job.reason, job.kind, job.stack) == ("reset by peer", "OSError", "at line 3")
        clock.advance(2.499)
        assert await nothing(queue)
        clock.advance(0.001)
        lease = await take(queue)
        assert lease.jobs[0].attempts == 1
        assert (await view(queue, key(1))).due == clock.now(), "priority counts after the backoff"

    @pytest.mark.accepts("001-16", "002-18", "002-19")
    async def test_a_failed_job_waits_for_a_person_with_its_reason(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        for attempt in (1, 2):
            lease = await take(queue)
            await queue.settle(lease.fence, all_of(lease, Retry(0, f"no {attempt}", "E")))
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Fail("no vector", "Bad", "line 7")))
        clock.advance(1_000_000)
        assert await nothing(queue)
        job = await view(queue, key(1))
        assert (job.state, job.attempts) == (State.FAILED, 3)
        assert (job.reason, job.kind, job.stack) == ("no vector", "Bad", "line 7")

    async def test_errors_of_any_size_and_content_are_kept_in_bounds(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes([1, 2, 3]))
        lease = await take(queue)
        first, second, third = lease.jobs
        outcomes: dict[int, Outcome] = {
            first.job: Fail("r" * 9_000 + "\udcff", "k", "s" * 9_000 + "end"),
            second.job: Retry(0, "\udcff\0", "k", "\udcff"),
            third.job: Release(0, "r" * 9_000),
        }
        assert len((await queue.settle(lease.fence, outcomes)).ended) == 3
        job = await view(queue, first.key)
        assert (len(job.reason), len(job.stack), job.stack[-3:]) == (2_000, 8_000, "end")
        assert (await view(queue, second.key)).reason == "?\0"
        assert len((await view(queue, third.key)).reason) == 2_000

    @pytest.mark.parametrize("outcome", [Retry(600, "no", "E"), Fail("no", "E")])
    async def test_failing_at_what_is_not_wanted_any_more_is_no_failure(
        self, queue: WholeQueue, outcome: Outcome
    ) -> None:
        """Rule 8, S10: a job is dead for one reading only."""
        await queue.put(changes([2]))
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Fail("other", "E")))
        await queue.put([Change(key(1), priority=1)])
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Retry(0, "no", "E")))
        lease = await take(queue)
        await queue.put(changes([1]))
        settled = await queue.settle(lease.fence, all_of(lease, outcome))
        assert settled.again
        assert not settled.ended
        other = await view(queue, key(2))
        assert other.state is State.FAILED
        (job,) = (await take(queue)).jobs
        assert job.attempts == 0

    @pytest.mark.accepts("R-08")
    async def test_a_release_counts_nothing_and_keeps_the_place(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes(["old"]))
        clock.advance(1)
        await queue.put(changes(["new"]))
        for count in range(50):
            lease = await take(queue, 1)
            assert keys(lease.jobs) == [key("old")]
            assert lease.jobs[0].attempts == 0
            await queue.settle(lease.fence, all_of(lease, Release(0, f"busy {count}")))
        job = await view(queue, key("old"))
        assert (job.state, job.attempts, job.releases) == (State.READY, 0, 50)
        assert job.reason == "busy 49"
        lease = await take(queue, 1)
        await queue.settle(lease.fence, all_of(lease, Retry(1, "no", "E")))
        job = await view(queue, key("old"))
        assert (job.state, job.attempts) == (State.DELAYED, 1), "one failure does not end it"

    async def test_a_release_for_later_waits(self, queue: WholeQueue, clock: VirtualClock) -> None:
        await queue.put([Change(key(1), force=True)])
        lease = await take(queue)
        await queue.put([Change(key(1))])
        settled = await queue.settle(lease.fence, all_of(lease, Release(5, "down")))
        assert settled.held
        job = await view(queue, key(1))
        assert (job.attempts, job.releases, job.reason) == (0, 1, "down")
        assert await nothing(queue)
        clock.advance(5)
        assert (await take(queue)).jobs[0].force

    async def test_outcomes_of_every_kind_go_in_one_set(self, queue: WholeQueue) -> None:
        await queue.put(changes(range(7)))
        lease = await take(queue)
        kinds: list[Outcome] = [Done(), Retry(1, "r", "E"), Fail("f", "E"), Release(), Release(1)]
        outcomes = {job.job: outcome for job, outcome in zip(lease.jobs, kinds, strict=False)}
        assert (await queue.settle(lease.fence, outcomes)).ended == set(outcomes)
        assert (await queue.mode())[1] == 2, "those without an outcome are still held"
        assert (await queue.renew([lease.fence], holder=holder(), lease_for=9)).held
        rest = {job.job: Done() for job in lease.jobs[5:]}
        assert len((await queue.settle(lease.fence, rest)).ended) == 2
        assert not (await queue.renew([lease.fence], holder=holder(), lease_for=9)).held

    @pytest.mark.accepts("R-05")
    @pytest.mark.parametrize(
        "outcome", [Done(), Retry(0, "r", "E"), Fail("f", "E"), Release(), Release(1)]
    )
    async def test_a_late_holder_changes_nothing(
        self, queue: WholeQueue, clock: VirtualClock, outcome: Outcome
    ) -> None:
        """S7: not while it waits again, not while another holds it."""
        await queue.put(changes([1, 2]))
        late = await take(queue)
        clock.advance(LEASE_FOR)
        await queue.reap()
        before = await queue.find([key(1), key(2)])
        assert not (await queue.settle(late.fence, all_of(late, outcome))).held
        assert await queue.find([key(1), key(2)]) == before
        now = [await take(queue, by=holder("w2")), await take(queue, by=holder("w3"))]
        assert all(each.fence > late.fence for each in now)
        before = await queue.find([key(1), key(2)])
        assert not (await queue.settle(late.fence, all_of(late, outcome))).held
        assert not (await queue.settle(now[0].fence, all_of(now[1], outcome))).held
        assert await queue.find([key(1), key(2)]) == before


class LeaseSuite:
    """Holding, losing, and what becomes of the jobs."""

    @pytest.mark.accepts("001-39")
    async def test_renewing_extends_what_is_held(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        for _ in range(10):
            clock.advance(LEASE_FOR - 0.001)
            renewed = await queue.renew([lease.fence], holder=holder(), lease_for=LEASE_FOR)
            assert renewed.held == {lease.fence}
            assert not await queue.reap()
            assert await nothing(queue)

    async def test_a_renewal_never_shortens_a_lease(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        await queue.renew([lease.fence], holder=holder(), lease_for=1)
        clock.advance(LEASE_FOR - 0.001)
        assert not await queue.reap()

    @pytest.mark.parametrize("other", OTHERS)
    async def test_only_the_holder_itself_renews(self, queue: WholeQueue, other: Holder) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        assert not (await queue.renew([lease.fence], holder=other, lease_for=99)).held

    async def test_a_lease_that_ran_out_is_lost_even_if_nobody_noticed(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1, 2]))
        old, new = await take(queue, 1), await take(queue, 1)
        clock.advance(30)
        await queue.renew([new.fence], holder=holder(), lease_for=LEASE_FOR)
        clock.advance(30)
        renewed = await queue.renew([old.fence, new.fence], holder=holder(), lease_for=LEASE_FOR)
        assert renewed.held == {new.fence}

    @pytest.mark.accepts("000-28", "000-31", "001-38", "001-64", "R-07")
    async def test_jobs_of_a_lease_that_ran_out_are_handed_back_uncharged(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1, 2]))
        lease = await take(queue)
        clock.advance(LEASE_FOR - 0.001)
        assert not await queue.reap()
        assert not (await view(queue, key(1))).stale
        clock.advance(0.001)
        late = await view(queue, key(1))
        assert (late.state, late.stale) == (State.LEASED, True), "nobody wrote that it is stale"
        assert set(await queue.reap()) == set(keys(lease.jobs))
        assert not await queue.reap(), "a second reaper finds nothing"
        job = await view(queue, key(1))
        assert (job.state, job.attempts, job.stale) == (State.SUSPECT, 0, False)
        await take(queue, by=holder("w2"))

    async def test_the_wall_clock_neither_ends_nor_prolongs_a_lease(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        clock.set_back(-1_000_000)
        assert not await queue.reap()
        clock.set_back(2_000_000)
        clock.advance(LEASE_FOR)
        assert await queue.reap() == [lease.jobs[0].key]

    async def test_a_dead_holder_is_noticed_at_once(self, queue: WholeQueue) -> None:
        """L4: no lease is waited out; whoever lives keeps what it holds."""
        await queue.put(changes([1, 2]))
        await take(queue, 1, by=holder("dead"))
        living = await take(queue, 1)
        assert len(await queue.reap()) == 1
        renewed = await queue.renew([living.fence], holder=holder(), lease_for=LEASE_FOR)
        assert renewed.held == {living.fence}
        assert (await queue.settle(living.fence, all_of(living, Done()))).ended

    async def test_after_a_restart_of_the_machine_every_lease_is_void(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes([1]))
        await take(queue, by=holder(boot="boot-0/pid:1"))
        assert (await view(queue, key(1))).stale
        assert await queue.reap() == [key(1)]

    async def test_another_pid_namespace_of_this_boot_is_not_a_restart(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes([1]))
        await take(queue, by=holder(boot=f"{BOOT}/pid:1"))
        assert not (await view(queue, key(1))).stale
        assert not await queue.reap()

    @pytest.mark.accepts("R-13")
    async def test_the_job_that_kills_its_workers_is_found_and_the_others_are_done(
        self, queue: WholeQueue
    ) -> None:
        """L6: an eighth of the mates each time, at last alone, and three times then."""
        await queue.put(changes(range(500)))
        poison = key(70)
        sizes, rounds = [], 0
        while (await queue.depth()).backlog:
            assert rounds < 9, "the poison is found within nine rounds"
            lease = await take(queue, by=holder("dead"))
            if poison in keys(lease.jobs):
                rounds += 1
                sizes.append(len(lease.jobs))
                assert poison in await queue.reap()
            else:
                await queue.settle(lease.fence, all_of(lease, Done()))
        assert sizes == [500, 62, 7, 1, 1, 1]
        job = await view(queue, poison)
        assert (job.state, job.crashes, job.attempts) == (State.QUARANTINED, 3, 0)
        assert "died 3 times" in job.reason
        assert job.kind == "crash"
        assert (await queue.depth()).quarantined == 1

    @pytest.mark.parametrize("kind", list(Lane))
    @pytest.mark.parametrize("others", [1, 16])
    async def test_larger_groups_of_suspects_in_the_other_lane_hide_no_smaller_one(
        self, queue: WholeQueue, clock: VirtualClock, kind: Lane, others: int
    ) -> None:
        for count, lane in ((others, Lane(1 - kind)), (1, kind)):
            clock.advance(1)
            await queue.put([Change(key(n, collection=lane.name)) for n in range(count)], lane=lane)
            await take(queue, lane=lane, by=holder("dead"))
            await queue.reap()
        small = await take(queue, lane=kind)
        assert keys(small.jobs) == [key(0, collection=kind.name)]

    async def test_groups_of_suspects_that_are_held_hide_no_smaller_one(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes(range(16)))
        await take(queue, by=holder("dead"))
        await queue.reap()
        await take(queue, by=holder("dead"))
        await queue.reap()
        sizes = [len((await take(queue, by=holder(f"w{n}"))).jobs) for n in range(9)]
        assert sizes == [2] * 7 + [1] * 2

    async def test_suspects_and_the_rest_take_turns(self, queue: WholeQueue) -> None:
        await queue.put(changes(range(20)))
        await take(queue, by=holder("dead"))
        await queue.reap()
        await queue.put(changes(range(100, 200)))
        sizes = [len((await take(queue, 10)).jobs) for _ in range(6)]
        assert sorted(sizes) == [2, 2, 2, 10, 10, 10]
        assert not [a for a, b in itertools.pairwise(sizes) if a == b]

    async def test_suspects_keep_to_their_lane_and_their_order(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        for document in (3, 1, 2):
            await queue.put(changes([document]), lane=Lane.BACKFILL)
            clock.advance(1)
        await take(queue, by=holder("dead"))
        await queue.reap()
        assert await nothing(queue, lane=Lane.LIVE)
        await queue.put(changes([2]), lane=Lane.LIVE)
        first = await take(queue, lane=Lane.LIVE, by=holder("w1"))
        second = await take(queue, lane=Lane.BACKFILL, by=holder("w2"))
        third = await take(queue, by=holder("w3"))
        assert [keys(each.jobs) for each in (first, second, third)] == [
            [key(2)],
            [key(3)],
            [key(1)],
        ]

    @pytest.mark.accepts("R-13")
    async def test_a_lone_suspect_shares_its_process_with_nobody(self, queue: WholeQueue) -> None:
        """With several leases in one process, a death would be charged to innocents too."""
        await queue.put(changes([1, 2]))
        await take(queue, by=holder("dead"))
        await queue.reap()
        lone = await take(queue)
        await queue.put(changes([3]))
        assert await nothing(queue)
        assert len((await take(queue, by=holder("w2"))).jobs) == 1
        await queue.settle(lone.fence, all_of(lone, Done()))
        assert len((await take(queue)).jobs) == 1

    async def test_a_lone_suspect_stops_no_other_process(self, queue: WholeQueue) -> None:
        await queue.put(changes([1]))
        await take(queue, by=holder("dead"))
        await queue.reap()
        lone = await take(queue)
        for number, other in enumerate(OTHERS):
            for document in range(2):
                await queue.put(changes([f"{number}.{document}"]))
                assert len((await take(queue, by=other)).jobs) == 1
        assert (await queue.settle(lone.fence, all_of(lone, Done()))).ended

    async def test_a_busy_process_makes_room_for_a_lone_suspect(self, queue: WholeQueue) -> None:
        await queue.put(changes([1]))
        busy = await take(queue)
        await queue.put(changes([2]))
        await take(queue, by=holder("dead"))
        await queue.reap()
        await queue.put(changes(range(3, 9)))
        held = [busy]
        # Ready jobs and suspects take turns, so the suspect's comes at the second claim at most.
        while lease := await queue.claim(1, holder=holder(), lease_for=LEASE_FOR):
            held.append(lease)
        assert len(held) <= 2
        for each in held:
            await queue.settle(each.fence, all_of(each, Done()))
        assert keys((await take(queue, 1)).jobs) == [key(2)]

    @pytest.mark.parametrize(
        "other", [holder("w2"), *(replace(other, name="dead") for other in OTHERS[1:])]
    )
    async def test_who_dies_alone_is_blamed_whatever_other_processes_hold(
        self, queue: WholeQueue, other: Holder
    ) -> None:
        await queue.put(changes([1]))
        await take(queue, by=holder("dead"))
        await queue.put(changes([2]))
        await take(queue, by=other)
        await queue.reap()
        assert (await view(queue, key(1))).crashes == 1

    async def test_only_a_death_alone_leads_to_quarantine(self, queue: WholeQueue) -> None:
        """One that died thrice and then lived is not parked for what its neighbours do."""
        await queue.put([Change(key(1), priority=5)])
        for _ in range(3):
            await take(queue, by=holder("dead"))
            await queue.put([Change(key(1), priority=5)])
            await queue.reap()
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Release()))
        await queue.put(changes([2]))
        assert len((await take(queue, by=holder("dead"))).jobs) == 2
        await queue.reap()
        job = await view(queue, key(1))
        assert (job.state, job.crashes) == (State.SUSPECT, 3)
        assert len((await take(queue, by=holder("dead"))).jobs) == 1
        await queue.reap()
        assert {job.crashes for job in await queue.jobs(states=[State.SUSPECT])} == {1, 3}

    async def test_who_dies_beside_others_is_not_blamed(self, queue: WholeQueue) -> None:
        for document in (1, 2):
            await queue.put(changes([document]))
            await take(queue, by=holder("dead"))
        await queue.reap()
        assert {view.crashes for view in await queue.jobs()} == {0}

    async def test_a_job_that_survived_needs_no_process_of_its_own(self, queue: WholeQueue) -> None:
        await queue.put(changes([1]))
        await take(queue, by=holder("dead"))
        await queue.reap()
        lone = await take(queue)
        await queue.settle(lone.fence, all_of(lone, Release()))
        assert keys((await take(queue)).jobs) == [key(1)]
        await queue.put(changes([2]))
        assert keys((await take(queue)).jobs) == [key(2)]

    async def test_a_job_that_survives_is_no_suspect_any_more(self, queue: WholeQueue) -> None:
        await queue.put(changes(range(4)))
        await take(queue, by=holder("dead"))
        await queue.reap()
        outcomes: list[Outcome] = [Done(), Retry(0, "no", "E"), Release(), Fail("no", "E")]
        for outcome in outcomes:
            lease = await take(queue)
            assert len(lease.jobs) == 1
            await queue.settle(lease.fence, all_of(lease, outcome))
            if not isinstance(outcome, Done):
                await queue.cancel(keys(lease.jobs))
        ended = await queue.jobs(states=[State.FAILED, State.CANCELLED])
        assert await queue.replay([job.job for job in ended]) == 3
        assert len((await take(queue)).jobs) == 3

    async def test_a_text_that_was_never_tried_is_tried_before_the_job_is_parked(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes([1]))
        for _ in range(3):
            await take(queue, by=holder("dead"))
            await queue.put(changes([1]))
            await queue.reap()
        job = await view(queue, key(1))
        assert (job.state, job.crashes) == (State.SUSPECT, 3)
        await take(queue, by=holder("dead"))
        await queue.reap()
        assert (await view(queue, key(1))).state is State.QUARANTINED


class ControlSuite:
    """What operators do."""

    async def test_jobs_are_listed_by_number_in_pages(self, queue: WholeQueue) -> None:
        await queue.put([Change(key(n), priority=n) for n in range(5)])
        await queue.put([Change(key(9, collection="other"))], lane=Lane.BACKFILL)
        lease = await take(queue, 2)
        await queue.cancel([key(4)])
        scope = Scope("", "c")
        pages = []
        after = 0
        while page := await queue.jobs(scope=scope, after=after, limit=2):
            pages.append([job.key for job in page])
            after = page[-1].job
        assert pages == [[key(0), key(1)], [key(2), key(3)], [key(4)]]
        held = await queue.jobs(states=[State.LEASED])
        assert {job.key for job in held} == set(keys(lease.jobs))
        assert {job.holder for job in held} == {"w1"}
        assert [job.key for job in await queue.jobs(states=[State.CANCELLED])] == [key(4)]
        mixed = await queue.jobs(states=[State.CANCELLED, State.READY], scope=scope)
        assert key(4) in [job.key for job in mixed]
        assert len(mixed) + len(held) == 6
        assert await queue.jobs(scope=Scope("", "none")) == []
        assert await queue.jobs(scope=Scope("x", "c"), states=[State.FAILED]) == []

    async def test_parked_jobs_of_several_kinds_come_by_number(self, queue: WholeQueue) -> None:
        await queue.put(changes(range(6)))
        await queue.put([Change(key(7, collection="other"))])
        lease = await take(queue, 7)
        fail = {job.job: Fail("no", "E") for job in lease.jobs if job.key.id != "1"}
        await queue.settle(lease.fence, fail)
        await queue.cancel([key(1)])
        states = [State.FAILED, State.CANCELLED]
        listed = await queue.jobs(states=states, scope=Scope("", "c"), limit=3)
        assert [job.key for job in listed] == [key(0), key(1), key(2)]
        rest = await queue.jobs(states=states, scope=Scope("", "c"), after=listed[-1].job)
        assert [job.key for job in rest] == [key(3), key(4), key(5)]

    @pytest.mark.accepts("001-65", "R-21")
    @pytest.mark.parametrize("park", [State.FAILED, State.QUARANTINED, State.CANCELLED])
    async def test_a_replayed_job_starts_over_and_really_runs(
        self, queue: WholeQueue, clock: VirtualClock, park: State
    ) -> None:
        await parked(queue, park)
        await queue.put(changes([2]))
        clock.advance(100)
        old, waiting = await view(queue, key(1)), await view(queue, key(2))
        await queue.put(changes([3]))
        await queue.cancel([key(3)])
        assert await queue.replay([old.job, waiting.job, 99_999]) == 1
        assert (await view(queue, key(3))).state is State.CANCELLED
        job = await view(queue, key(1))
        assert (job.job, job.key, job.since) == (old.job, old.key, old.since)
        assert (job.state, job.due) == (State.READY, clock.now())
        assert (job.attempts, job.crashes, job.releases, job.reason) == (0, 0, 0, "")
        assert await view(queue, key(2)) == waiting, "what is not parked is left alone"
        lease = await take(queue)
        assert keys(lease.jobs).count(key(1)) == 1
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).ended
        assert not await queue.replay([old.job])

    @pytest.mark.accepts("R-22")
    async def test_a_job_cancelled_while_it_waits_never_runs(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes(["ready"]))
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Retry(1, "no", "E")))
        await queue.put(changes([2]))
        fences = await queue.cancel([key("ready"), key(2), key("unknown")])
        assert set(fences) == {key("ready"), key(2)}
        assert all(fence > lease.fence for fence in fences.values())
        clock.advance(10)
        assert await nothing(queue)
        assert not await queue.cancel([key(2)]), "it is cancelled already"
        await queue.put(changes([2]))
        assert (await take(queue)).fence > max(fences.values())

    @pytest.mark.accepts("R-22")
    async def test_a_job_cancelled_while_it_is_held_does_not_count_any_more(
        self, queue: WholeQueue
    ) -> None:
        await queue.put(changes([0]))
        elsewhere = await take(queue, by=holder("w2"))
        await queue.put(changes([1, 2, 3]))
        lease = await take(queue)
        fences = await queue.cancel([key(1)])
        assert fences[key(1)] > lease.fence
        one, two, three = sorted(lease.jobs, key=lambda job: job.key)
        await queue.settle(elsewhere.fence, all_of(elsewhere, Done()))
        await queue.settle(lease.fence, {three.job: Done()})
        renewed = await queue.renew([lease.fence], holder=holder(), lease_for=LEASE_FOR)
        assert renewed.held == {lease.fence}
        assert renewed.stopped == {one.job}
        await queue.put(changes([3]))
        elsewhere = await take(queue, by=holder("w2"))
        renewed = await queue.renew([elsewhere.fence], holder=holder("w2"), lease_for=LEASE_FOR)
        assert not renewed.stopped, "that is another's job"
        await queue.put(changes([1]))
        assert (await queue.settle(lease.fence, all_of(lease, Done()))).ended == {two.job}
        assert keys((await take(queue)).jobs) == [key(1)]

    async def test_a_document_of_the_same_id_elsewhere_is_not_cancelled(
        self, queue: WholeQueue
    ) -> None:
        other = key(1, collection="other")
        await queue.put([Change(key(1)), Change(other), *changes([2])])
        lease = await take(queue)
        await queue.settle(
            lease.fence, {job.job: Release() for job in lease.jobs if job.key == key(2)}
        )
        assert set(await queue.cancel([key(1), key(2)])) == {key(1), key(2)}
        assert (await view(queue, other)).state is State.LEASED
        renewed = await queue.renew([lease.fence], holder=holder(), lease_for=LEASE_FOR)
        stopped = {job.key for job in lease.jobs if job.job in renewed.stopped}
        assert stopped == {key(1)}, "what is not held any more stops nobody"

    async def test_suspects_can_be_cancelled(self, queue: WholeQueue) -> None:
        await queue.put(changes([1, 2]))
        await take(queue, by=holder("dead"))
        await queue.reap()
        assert set(await queue.cancel([key(1), key(2)])) == {key(1), key(2)}
        assert await nothing(queue)

    async def test_a_lease_whose_jobs_were_all_cancelled_ends(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1]))
        lease = await take(queue)
        await queue.cancel([key(1)])
        renewed = await queue.renew([lease.fence], holder=holder(), lease_for=LEASE_FOR)
        assert renewed.stopped == {lease.jobs[0].job}
        clock.advance(LEASE_FOR)
        assert await queue.reap() == []
        assert (await view(queue, key(1))).state is State.CANCELLED
        assert not (await queue.renew([lease.fence], holder=holder(), lease_for=9)).stopped

    async def test_only_parked_jobs_can_be_dropped(self, queue: WholeQueue) -> None:
        await queue.put(changes([1, 2, 3]))
        await queue.cancel([key(1), key(2)])
        numbers = [job.job for job in await queue.jobs()]
        cancelled = await view(queue, key(2))
        assert await queue.drop([number for number in numbers if number != cancelled.job]) == 1
        assert set(await queue.find([key(1), key(2), key(3)])) == {key(2), key(3)}

    async def test_a_forgotten_collection_leaves_nothing_and_the_others_stay(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        mine, other = changes(range(50)), [Change(key(1, collection="other"))]
        done_elsewhere = Change(key(2, collection="other"))
        await queue.put([done_elsewhere])
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Done()))
        await queue.put(mine + other)
        lease = await take(queue, 40)
        held = [job for job in lease.jobs if job.key.collection == "c"]
        done = {job.job: Done() for job in held[:10]}
        await queue.settle(lease.fence, done)
        await queue.forget(Scope("", "c"))
        await queue.forget(Scope("", "never was"))
        assert [job.key for job in await queue.jobs()] == [key(1, collection="other")]
        assert (await queue.depth(Scope("", "c"))).backlog == 0
        assert not (await queue.settle(lease.fence, all_of(lease, Fail("x", "E")))).held - {
            job.job for job in lease.jobs if job.key.collection == "other"
        }
        assert await queue.put(mine) == Put(50, 0), "it may come back"
        clock.advance(1)
        history = await queue.prune(finished_before=clock.now(), parked_before=None, limit=99)
        assert history == 1, "that of the other collection"

    async def test_holders_hear_that_a_collection_was_forgotten(self, queue: WholeQueue) -> None:
        await queue.put([*changes([1]), Change(key(1, collection="other"))])
        lease = await take(queue)
        await queue.forget(Scope("", "c"))
        renewed = await queue.renew([lease.fence], holder=holder(), lease_for=LEASE_FOR)
        gone = {job.job for job in lease.jobs if job.key.collection == "c"}
        assert renewed.stopped == gone

    @pytest.mark.accepts("R-25")
    @pytest.mark.parametrize("mode", [Mode.PAUSED, Mode.DRAINING])
    async def test_no_job_is_handed_out_until_resumed_and_what_is_held_goes_on(
        self, queue: WholeQueue, clock: VirtualClock, mode: Mode
    ) -> None:
        """S9. Drained is: draining, and none held."""
        await queue.put(changes(range(3)))
        lease = await take(queue, 2)
        await queue.set_mode(mode)
        assert await queue.mode() == (mode, 2)
        assert await nothing(queue)
        assert await queue.put(changes([7])) == Put(1, 0)
        assert (await queue.renew([lease.fence], holder=holder(), lease_for=9)).held
        one, two = lease.jobs
        await queue.settle(lease.fence, {one.job: Done()})
        assert await queue.mode() == (mode, 1)
        await queue.settle(lease.fence, {two.job: Retry(0, "no", "E")})
        assert await queue.mode() == (mode, 0)
        clock.advance(1)
        assert await nothing(queue)
        await queue.set_mode(Mode.RUNNING)
        assert (await queue.mode())[0] is Mode.RUNNING
        assert len((await take(queue)).jobs) == 3

    @pytest.mark.accepts("000-38", "002-27")
    async def test_depth_counts_every_state_by_collection(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        start = clock.now()
        await queue.put(changes(range(8)))
        await take(queue, 2, by=holder("dead"))
        await queue.reap()
        clock.advance(1)
        await queue.put([Change(key(n, collection="other")) for n in range(8, 10)])
        clock.advance(1)
        lease = await take(queue, 2, by=holder("w1"))
        while len(lease.jobs) < 2:
            lease = await take(queue, 2, by=holder(f"w{lease.fence}"))
        one, two = lease.jobs
        await queue.settle(lease.fence, {one.job: Fail("no", "E"), two.job: Retry(50, "no", "E")})
        await queue.cancel([key(7)])
        depth = await queue.depth()
        assert (depth.failed, depth.delayed, depth.cancelled, depth.quarantined) == (1, 1, 1, 0)
        assert depth.backlog == 8
        assert depth.oldest == start
        other = await queue.depth(Scope("", "other"))
        assert (other.ready, other.oldest) == (2, start + 1000)
        mine = await queue.depth(Scope("", "c"))
        assert (mine.failed, mine.cancelled, mine.backlog) == (1, 1, 6)
        none = await queue.depth(Scope("", "none"))
        assert (none.backlog, none.failed, none.oldest) == (0, 0, None)

    @pytest.mark.accepts("000-30", "R-24")
    async def test_finished_work_has_no_depth_and_no_age_and_is_pruned(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        for day in range(7):
            await queue.put(changes(range(day * 10, day * 10 + 10)))
            lease = await take(queue)
            await queue.settle(lease.fence, all_of(lease, Done()))
            clock.advance(86_400)
        depth = await queue.depth()
        assert (depth.backlog, depth.oldest) == (0, None)
        before = clock.now() - 3 * 86_400_000
        pruned = [
            await queue.prune(finished_before=before, parked_before=None, limit=15)
            for _ in range(4)
        ]
        assert pruned == [15, 15, 10, 0]

    async def test_parked_jobs_are_pruned_only_if_asked_and_only_by_age(
        self, queue: WholeQueue, clock: VirtualClock
    ) -> None:
        await queue.put(changes([1, 2, 3]))
        await queue.cancel([key(1)])
        clock.advance(10)
        await queue.cancel([key(2)])
        now = clock.now()
        assert await queue.prune(finished_before=now, parked_before=None, limit=9) == 0
        assert await queue.prune(finished_before=now, parked_before=now, limit=9) == 1
        assert set(await queue.find([key(1), key(2), key(3)])) == {key(2), key(3)}
        assert await queue.prune(finished_before=now, parked_before=now + 1, limit=0) == 0
        assert await queue.prune(finished_before=now, parked_before=now + 1, limit=9) == 1

    @pytest.mark.parametrize("revive", ["change", "person"])
    async def test_a_revived_job_is_not_parked_any_more(
        self, queue: WholeQueue, clock: VirtualClock, revive: str
    ) -> None:
        await queue.put(changes([1]))
        await queue.cancel([key(1)])
        if revive == "change":
            await queue.put(changes([1]))
        else:
            await queue.replay([job.job for job in await queue.jobs()])
        clock.advance(1)
        assert await queue.prune(finished_before=0, parked_before=clock.now(), limit=9) == 0
        assert (await view(queue, key(1))).state is State.READY

    async def test_waiting_ends_with_work_with_what_is_due_and_with_time(
        self, queue: WholeQueue
    ) -> None:
        assert await nothing(queue)
        await queue.wait(0.01)
        await queue.wait(0.01)
        await queue.put(changes([1]))
        await queue.wait(30)
        lease = await take(queue)
        await queue.settle(lease.fence, all_of(lease, Retry(0.05, "no", "E")))
        await queue.wait(30)
        assert await nothing(queue)
        await queue.wait(30)


class QueueSuite(PutSuite, ClaimSuite, SettleSuite, LeaseSuite, ControlSuite):
    """Everything above."""

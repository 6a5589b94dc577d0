"""Whole processes of the product, under every fault that a seeded schedule can bring."""

import pytest
from tests.simulation.budget import PARTS, schedules, seconds
from tests.simulation.engine import schedule
from tests.simulation.harness import World
from tests.simulation.run import many, one

from evervec.capture import Capture, Scan
from evervec.holder import this_process
from evervec.model import Id, Key, Lease, Publication
from evervec.outcome import Done
from evervec.testing.world import Notes, Row, SimulatedSource

SECONDS = seconds(0.4, at_least=4.0)

IN_CI = 4_000
"""Schedules in CI, whatever the machine; the protocol's make them 20,000."""

ENOUGH = 500
"""Schedules after which every rare state must have been reached."""

RARE = (
    "verdict barred",
    "handed back at settle",
    "lease lost at settle",
    "lease lost at renewal",
    "cancelled while leased",
    "suspect taken alone",
    "quarantined and revived",
    "reaped while dirty",
    "published in parts",
    "the model refused",
    "a log lost its past",
    "drained in order",
)


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_breaks_an_invariant_and_rare_states_are_reached(part: int) -> None:
    """S1 to S15 hold after each commit and at rest, whatever crashes, freezes or lies."""
    total = many(
        part * 10_000_000, 1_000_000, which="engine", seconds=SECONDS, at_least=schedules(IN_CI)
    )
    assert not total["violations"], total["violations"][0]
    assert total["crashes"] > total["schedules"] / 2 or total["schedules"] < ENOUGH
    missing = [state for state in RARE if not total["rare"].get(state)]
    assert not missing or total["schedules"] < ENOUGH, f"never reached {missing}"


def test_without_faults_each_text_is_paid_for_once() -> None:
    """Q2: nothing is executed twice, reaped or superseded where nothing breaks."""
    for seed in range(15):
        report = World(seed, calm=True).run(schedule)
        assert not report.violation, (seed, report.violation)
        wasted = ("lease lost at settle", "verdict superseded", "reaped", "quarantined")
        assert not any(report.rare[state] for state in wasted), (seed, report.rare)


def test_a_seed_replays_exactly() -> None:
    assert one(7, "engine") == one(7, "engine")


def test_a_scan_that_is_asked_for_during_another_processes_scan_begins_at_the_beginning() -> None:
    """Found by a schedule: the page under way was noted over the new beginning, and a change lost."""

    async def both(world: World) -> None:
        table = world.tables[0]
        table.commit({Id(str(n)): Row("text") for n in range(3)}, ())
        queue, store, notes = world.queue(), world.store(), Notes(table)
        other = Capture(table.scope, world.source(table), queue, queue, store, notes)

        class Interrupted(SimulatedSource):
            async def scan(self, after, limit):
                page = await super().scan(after, limit)
                await other.rescan()
                return page

        capture = Capture(table.scope, Interrupted(table), queue, queue, store, notes)
        await capture.open(scan=True)
        await capture.scan_step()
        left.extend(Scan.from_bytes(note) for note in (await notes.load("scan")).values())

    left: list[Scan] = []
    World(0, calm=True).run(both)
    assert Scan() in left


def test_a_page_that_another_process_has_put_meanwhile_is_not_put_again() -> None:
    """Found by timing four processes on one state: half of the documents were looked at twice."""

    async def both(world: World) -> None:
        table = world.tables[0]
        table.commit({Id(str(n)): Row("text") for n in range(3)}, ())
        queue, store, notes = world.queue(), world.store(), Notes(table)
        other = Capture(table.scope, world.source(table), queue, queue, store, notes)

        class Overtaken(SimulatedSource):
            async def scan(self, after, limit):
                page = await super().scan(after, limit)
                await other.scan_step()
                lease = await queue.claim(9, holder=this_process("worker"), lease_for=60)
                leases.extend([lease] if lease else [])
                return page

        capture = Capture(table.scope, Overtaken(table), queue, queue, store, notes)
        await capture.open(scan=True)
        await capture.scan_step()
        (lease,) = leases
        settled = await queue.settle(lease.fence, {job.job: Done() for job in lease.jobs})
        ended.append((len(settled.ended), len(settled.again)))

    leases: list[Lease] = []
    ended: list[tuple[int, int]] = []
    World(0, calm=True).run(both)
    assert ended == [(3, 0)]


@pytest.mark.parametrize("before", [False, True])
def test_only_what_was_stored_before_a_collection_was_followed_is_scanned_as_well(before) -> None:
    """Found by timing a million rows: each had a second job, only to see that it was still there."""

    async def scanned(world: World) -> None:
        table = world.tables[0]
        table.commit({Id(str(n)): Row("text") for n in range(3)}, ())
        queue, store = world.queue(), world.store()
        key = Key(table.scope.tenant, table.scope.collection, Id("stored"))
        stored = [Publication(key, 1, b"digest")]
        capture = Capture(table.scope, world.source(table), queue, queue, store, Notes(table))
        if before:
            await store.publish(stored, fence=1, space=1)
        await capture.open(scan=True)
        if not before:
            await store.publish(stored, fence=1, space=1)
        while await capture.scanning():
            await capture.scan_step()
        put.update(job.key.id for job in await queue.jobs(scope=table.scope))

    put: set[str] = set()
    World(0, calm=True).run(scanned)
    assert put == {"0", "1", "2", *["stored"] * before}

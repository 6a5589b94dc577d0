"""Whole processes of the product, under every fault that a seeded schedule can bring."""

import pytest
from tests.simulation.budget import PARTS, schedules, seconds
from tests.simulation.engine import schedule
from tests.simulation.harness import World
from tests.simulation.run import many, one

from evervec.capture import Capture, Scan
from evervec.model import Id
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

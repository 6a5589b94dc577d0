"""The protocol of queue and store, under every fault that a seeded schedule can bring."""

import pytest
from tests.simulation.budget import PARTS, schedules, seconds
from tests.simulation.harness import World
from tests.simulation.protocol import schedule
from tests.simulation.run import many, one

from evervec.testing.invariants import Violation

SECONDS = seconds(0.4, at_least=4.0)

IN_CI = 16_000
"""Schedules in CI, whatever the machine; the engine's make them 20,000."""

ENOUGH = 1000
"""Schedules after which every rare state must have been reached."""

RARE = (
    "verdict superseded",
    "verdict barred",
    "handed back at settle",
    "lease lost at settle",
    "lease lost at renewal",
    "published after the lease was lost",
    "failed and revived",
    "cancelled while leased",
    "suspect taken alone",
    "quarantined",
    "quarantined and revived",
    "reaped while dirty",
    "published in parts",
)


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_breaks_an_invariant_and_rare_states_are_reached(part: int) -> None:
    """S1 to S15 hold after each commit and at rest, whatever crashes, freezes or lies."""
    total = many(part * 10_000_000, 1_000_000, seconds=SECONDS, at_least=schedules(IN_CI))
    assert not total["violations"], total["violations"][0]
    assert total["crashes"] > total["schedules"] / 2 or total["schedules"] < ENOUGH
    # A run that never comes near the edge proves nothing about it.
    missing = [state for state in RARE if not total["rare"].get(state)]
    assert not missing or total["schedules"] < ENOUGH, (
        f"{total['schedules']} schedules never reached {missing}"
    )


def test_without_faults_nothing_is_wasted() -> None:
    """Q2: where nothing breaks, no lease is lost, nothing is superseded, nobody is reaped."""
    for seed in range(30):
        report = World(seed, calm=True).run(schedule)
        assert not report.violation, (seed, report.violation)
        wasted = ("lease lost at settle", "verdict superseded", "reaped", "quarantined")
        assert not any(report.rare[state] for state in wasted), (seed, report.rare)


def test_a_seed_replays_exactly_whatever_ran_before_it() -> None:
    first = one(11)
    for seed in range(20, 25):
        one(seed)
    assert one(11) == first


def test_a_violation_stops_the_schedule_and_is_reported() -> None:
    """The control: what the checks find does come out."""

    async def broken(world: World) -> None:
        world._violation = Violation("S0: on purpose")
        await world.faults_until(10)

    assert World(1).run(broken).violation == "Violation: S0: on purpose"

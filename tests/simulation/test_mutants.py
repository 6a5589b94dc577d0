"""The regime notices when a fence or a rule is missing."""

from typing import Any

import pytest
from tests.simulation.budget import FULL
from tests.simulation.harness import World
from tests.simulation.mutants import DIRECTED, MUTANTS, OF_THE_ENGINE
from tests.simulation.run import many

SCHEDULES = 1500 if FULL else 40
OF_ENGINE = 150 if FULL else 30


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name: str) -> None:
    with MUTANTS[name]():
        total = many(0, SCHEDULES, stop_at_first=True)
    judge(name, total)


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", OF_THE_ENGINE)
def test_each_mutant_of_the_engine_is_caught(name: str) -> None:
    with OF_THE_ENGINE[name]():
        total = many(0, OF_ENGINE, which="engine", stop_at_first=True)
    judge(name, total)


def judge(name: str, total: dict[str, Any]) -> None:
    if not total["violations"] and not FULL:
        pytest.skip("a sample does not find it: set EVERVEC_TEST_BUDGET")
    assert total["violations"], f"{name!r} survived {total['schedules']} schedules"


@pytest.mark.parametrize("name", DIRECTED)
def test_each_mutant_with_a_schedule_of_its_own_is_caught(name: str) -> None:
    mutant, schedule = DIRECTED[name]
    assert not World(0, calm=True).run(schedule).violation
    with mutant():
        violation = World(0, calm=True).run(schedule).violation
    assert "Violation: S" in violation

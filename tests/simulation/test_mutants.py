"""The regime notices when a fence or a rule is missing."""

import pytest
from tests.simulation.mutants import MUTANTS
from tests.simulation.run import many

SCHEDULES = 1500


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(name: str) -> None:
    with MUTANTS[name]():
        total = many(0, SCHEDULES, stop_at_first=True)
    assert total["violations"], f"{name!r} survived {total['schedules']} schedules"

"""The queue's suite notices when one condition or assignment of its SQL is gone."""

import random

import pytest
from tests.mutate_sql import EQUIVALENT, mutants, survivors


def test_every_excuse_is_for_a_mutant_that_exists():
    assert EQUIVALENT.keys() <= {mutant.name for mutant in mutants()}


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_a_sample_of_mutants_is_noticed():
    """The whole is run by hand: `python tests/mutate_sql.py`."""
    candidates = [mutant for mutant in mutants() if mutant.name not in EQUIVALENT]
    alive = survivors(random.Random(20).sample(candidates, 4), jobs=2)
    assert [mutant.name for mutant in alive] == []

"""The mutants of the queue's SQL, which `python tests/mutate_sql.py` runs the suite against."""

from tests.mutate_sql import EQUIVALENT, mutants


def test_every_excuse_is_for_a_mutant_that_exists():
    assert EQUIVALENT.keys() <= {mutant.name for mutant in mutants()}


def test_each_mutant_differs_from_what_is_shipped():
    texts = [mutant.text for mutant in mutants()]
    assert len(set(texts)) == len(texts) > 200

"""The mutants of the SQL, against which `python tests/mutate_sql.py` runs the suites."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutate_sql import EQUIVALENT, mutants

SECONDS = float(os.environ.get("EVERVEC_TEST_BUDGET", "15"))
OPTIONS = ("--only", "queues", "--seconds", str(SECONDS))


def test_every_excuse_is_for_a_mutant_that_exists():
    assert EQUIVALENT.keys() <= {mutant.name for mutant in mutants()}


def test_each_mutant_differs_from_what_is_shipped():
    texts = [mutant.text for mutant in mutants()]
    assert len(set(texts)) == len(texts) > 200


@pytest.mark.heavy
@pytest.mark.timeout(SECONDS + 180)
def test_a_sample_of_mutants_is_noticed():
    """Always the same order, so that a greater budget judges more of them and never others."""
    run = subprocess.run(
        [sys.executable, "tests/mutate_sql.py", "--sample", "1000", "--jobs", "1", *OPTIONS],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr

"""kill -9 at every named place of the product, under live writes by another program."""

import os
from pathlib import Path

import pytest
from tests.crash.history import Server
from tests.crash.labels import kill_at

from evervec.faults import LABELS

ROUNDS = max(1, int(float(os.environ.get("EVERVEC_TEST_BUDGET", "40")) // 60))


@pytest.mark.heavy
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.accepts("R-02", "R-03", "000-09", "002-03")
def test_a_process_killed_at_a_named_place_breaks_no_promise(
    label: str, server: Server, tmp_path: Path
) -> None:
    """Newest text stored, nothing orphaned, queue empty, each text asked once plus in flight."""
    for seed in range(ROUNDS):
        reached, broken = kill_at(server, tmp_path / str(seed), label, seed)
        assert not broken, f"seed {seed}: {broken}"
        assert reached, f"nothing ever passed {label!r}"

"""kill -9 and freezing at any moment, two workers on one state, many short histories."""

import os
from pathlib import Path

import pytest
from tests.crash.history import Server
from tests.crash.run import histories

SECONDS = 0.4 * float(os.environ.get("EVERVEC_TEST_BUDGET", "30"))


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.accepts("002-03", "002-28", "000-09", "R-02", "R-05")
def test_short_histories_of_random_kills_break_no_promise(server: Server, tmp_path: Path) -> None:
    """After each: the newest texts, no orphan, an empty queue, each text once plus in flight."""
    result = histories(server, tmp_path, seed=0, seconds=SECONDS, labels=False)
    assert not result["violations"], result["violations"][0]
    assert result["kills"] >= SECONDS / 4, result

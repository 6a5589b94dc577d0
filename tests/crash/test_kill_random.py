"""kill -9 and freezing at any moment, two workers on one state, many short histories."""

import os
from pathlib import Path

import pytest
from tests.crash.history import Server
from tests.crash.run import histories

BUDGET = float(os.environ.get("EVERVEC_TEST_BUDGET", "30"))
SECONDS = 0.4 * BUDGET
KILLS = int(200 * min(1.0, BUDGET / 240))
"""At least so many, however slow the machine is: 200 in CI."""


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.accepts("002-03", "002-28", "000-09", "R-02", "R-05")
def test_short_histories_of_random_kills_break_no_promise(server: Server, tmp_path: Path) -> None:
    """After each: the newest texts, no orphan, an empty queue, each text once plus in flight."""
    result = histories(server, tmp_path, seed=0, seconds=SECONDS, kills_least=KILLS, labels=False)
    assert not result["violations"], result["violations"][0]
    assert result["kills"] >= KILLS, result

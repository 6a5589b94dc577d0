"""How much time the simulations get: EVERVEC_TEST_BUDGET is for all heavy runs, on every core.

A plain `pytest` has no budget and only takes a sample, so that it stays quick.
"""

import os

BUDGET = float(os.environ.get("EVERVEC_TEST_BUDGET", "0"))
FULL = BUDGET > 0

CI_BUDGET = 240.0
"""What `scripts/test` takes unless it is told otherwise."""

PARTS = 4
"""Into how many tests a run is cut, each with seeds of its own, so that every core has some."""

_CORES = min(PARTS, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def seconds(share: float, *, at_least: float) -> float:
    """Return how long a part may take so that all parts take a *share* of the budget.

    Without a budget, all parts together take *at_least* so many seconds.
    """
    return max(at_least, share * BUDGET * _CORES) / PARTS


def schedules(in_ci: int) -> int:
    """Return how many schedules a part runs at least, however slow the machine is.

    In CI all parts together run *in_ci*; a smaller budget asks for fewer, and none asks for none.
    """
    return int(in_ci * min(1.0, BUDGET / CI_BUDGET) / PARTS)

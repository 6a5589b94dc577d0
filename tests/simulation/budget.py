"""How much time the simulations get: EVERVEC_TEST_BUDGET is for all heavy runs, on every core.

A plain `pytest` has no budget and only takes a sample, so that it stays quick.
"""

import os

BUDGET = float(os.environ.get("EVERVEC_TEST_BUDGET", "0"))
FULL = BUDGET > 0

PARTS = 4
"""Into how many tests a run is cut, each with seeds of its own, so that every core has some."""

_CORES = min(PARTS, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def seconds(share: float, *, at_least: float) -> float:
    """Return how long a part may take so that all parts take a *share* of the budget.

    Without a budget, all parts together take *at_least* so many seconds.
    """
    return max(at_least, share * BUDGET * _CORES) / PARTS

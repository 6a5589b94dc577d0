"""How much time the simulations get: EVERVEC_TEST_BUDGET is for all heavy runs, on all cores.

A plain `pytest` has no budget and only takes a sample, so that it stays quick.
"""

import os

BUDGET = float(os.environ.get("EVERVEC_TEST_BUDGET", "0"))
FULL = BUDGET > 0


def seconds(share: float, *, at_least: float) -> float:
    """Return a *share* of the budget, or *at_least* so much."""
    return max(at_least, share * BUDGET)

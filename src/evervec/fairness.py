"""Who gets how much of a claim: pure decisions, no I/O.

A cursor goes round the lanes that have work. Each lane may take its quantum and then the cursor
moves on, so a lane waits at most for one round, whatever stands in the others.
"""

from collections.abc import Sequence

from evervec.model import Tier

_WEIGHTS = {Tier.FREE: 1, Tier.PREMIUM: 2, Tier.ENTERPRISE: 4}
_UNIT_MAX = 8


def quantum(tier: Tier, limit: int) -> int:
    """Return how many jobs a lane of *tier* gets in its turn, in claims of *limit* jobs.

    8, 16 or 32 in claims of 64 and more; smaller claims scale it down, so that one lane's turn
    does not take many claims.
    """
    return max(1, min(_UNIT_MAX, limit // _UNIT_MAX)) * _WEIGHTS[tier]


def lanes_wanted(limit: int) -> int:
    """Return how many lanes fill a claim of *limit* if each takes the smallest quantum."""
    return -(-limit // quantum(Tier.FREE, limit))


def room(left: int, tiers: Sequence[Tier], limit: int) -> bool:
    """Say whether the quanta of all lanes fit into what is *left* of a claim of *limit*."""
    return sum(quantum(tier, limit) for tier in tiers) < left


def spread(tiers: Sequence[Tier], limit: int) -> list[int]:
    """Divide all of *limit* among lanes by weight; the first lanes get what does not divide."""
    total = sum(_WEIGHTS[tier] for tier in tiers)
    shares = [limit * _WEIGHTS[tier] // total for tier in tiers]
    left = limit - sum(shares)
    for place in range(left):
        shares[place % len(shares)] += 1
    return shares


def backfill_share(limit: int, turn: int) -> int:
    """Return how much of a claim is kept for backfill: an eighth, rounded up.

    A claim of one job cannot be divided, so then every eighth *turn* is backfill's.
    """
    if limit == 1:
        return int(turn % 8 == 1)
    return -(-limit // 8)

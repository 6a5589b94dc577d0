"""Joining rankings of the same things by rank alone, because their scores cannot be compared."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

RANK_OFFSET = 60
"""The k of reciprocal rank fusion: how little the first place counts more than the tenth."""


def fuse(
    rankings: Sequence[Sequence[T]],
    *,
    order: Callable[[T], Any] = lambda thing: thing,
    offset: int = RANK_OFFSET,
) -> list[tuple[T, float]]:
    """Join *rankings*, each best first and without repeats, into one with scores in 0..1.

    The score is the sum of 1 / (offset + rank), scaled so that first place everywhere is 1. Equal
    scores go by *order*, the things' own if it is not given, so the answer does not depend on the rankings' order.
    """
    scores: dict[T, float] = defaultdict(float)
    for ranking in rankings:
        for rank, thing in enumerate(ranking, start=1):
            scores[thing] += (offset + 1) / ((offset + rank) * len(rankings))
    return sorted(scores.items(), key=lambda entry: (-round(entry[1], 12), order(entry[0])))

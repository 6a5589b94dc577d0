"""Joining rankings of the same things by rank alone, because their scores cannot be compared."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

RANK_OFFSET = 10
"""The k of reciprocal rank fusion: how little the first place counts more than the tenth."""
WORDS_AND_VECTORS = 0.4, 0.6
"""What each ranking of a hybrid search weighs. Both this and the offset are measured: docs/quality.md."""


def fuse(
    rankings: Sequence[Sequence[T]],
    *,
    weights: Sequence[float] = (),
    order: Callable[[T], Any] = lambda thing: thing,
    offset: int = RANK_OFFSET,
) -> list[tuple[T, float]]:
    """Join *rankings*, each best first and without repeats, into one with scores in 0..1.

    The score is the sum of weight / (offset + rank), scaled so that first place everywhere is 1.
    Without *weights* all rankings weigh the same. Equal
    scores go by *order*, the things' own if it is not given, so the answer does not depend on the rankings' order.
    """
    scores: dict[T, float] = defaultdict(float)
    weights = weights or [1.0] * len(rankings)
    for ranking, weight in zip(rankings, weights, strict=True):
        share = weight / sum(weights) * (offset + 1)
        for rank, thing in enumerate(ranking, start=1):
            scores[thing] += share / (offset + rank)
    return sorted(scores.items(), key=lambda entry: (-round(entry[1], 12), order(entry[0])))

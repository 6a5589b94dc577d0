"""Decides where a text is cut: content-defined, so that one edit moves few cuts.

A span that fits stays whole. One that does not is cut at its strongest boundaries, and a part
that still does not fit at the next weaker ones. Among boundaries of one strength:

1. An *anchor* is a boundary that outranks all others within a quarter of the budget, on both
   sides. That is a local fact: an edit can add or remove anchors close to itself only.
2. Anchors too far apart get cuts between them, each at the highest rank between a quarter and
   the whole of the budget behind the cut before it.

So parts measure between a quarter and the whole of the budget, about half on average. Filling
each to the brim would need fewer, but then every cut depends on all cuts before it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from evervec.text.boundaries import Level, ranks

Span: TypeAlias = tuple[int, int]
Places: TypeAlias = Callable[[Level, int, int], Sequence[int]]
"""The boundaries of a level strictly inside a span, growing."""


def pack(
    text: str, span: Span, *, cost: Callable[[int], int], places: Places, budget: int
) -> Iterator[Span]:
    """Cut *span* into parts whose cost is at most *budget*.

    *cost* grows with the position. A single character that costs more is left as it is.
    """
    waiting: list[tuple[int, int, int]] = [(span[0], span[1], Level.SECTION)]
    while waiting:
        start, end, level = waiting.pop()
        if level < 0 or cost(end) - cost(start) <= budget:
            yield start, end
            continue
        strength = Level(level)
        inside = places(strength, start, end)
        if not inside:
            waiting.append((start, end, level - 1))
            continue
        points = [start, *inside, end]
        costs = [cost(point) for point in points]
        ranked = [0, *ranks(text, inside, strength), 0]
        parts = [
            # Several units of this level that do not fit together were joined on purpose.
            (points[low], points[high], level - 1)
            for low, high in _grouped(costs, ranked, budget)
        ]
        waiting.extend(reversed(parts))


def _grouped(costs: Sequence[int], ranks: Sequence[int], budget: int) -> Iterator[Span]:
    least = budget // 4
    last = len(costs) - 1
    for low, high in pairwise([0, *_anchors(costs, ranks, least), last]):
        yield from _marched(costs, ranks, (low, high), budget)


def _anchors(costs: Sequence[int], ranks: Sequence[int], reach: int) -> list[int]:
    """Return the inner points that outrank all within *reach*; the edges outrank everything."""
    last = len(costs) - 1
    before = [0] * last
    behind = [last] * last
    falling: list[int] = []
    for point in range(1, last):
        while falling and ranks[falling[-1]] < ranks[point]:
            behind[falling.pop()] = point
        before[point] = falling[-1] if falling else 0
        falling.append(point)
    return [
        point
        for point in range(1, last)
        if costs[point] - costs[before[point]] >= reach
        and costs[behind[point]] - costs[point] >= reach
    ]


def _marched(
    costs: Sequence[int], ranks: Sequence[int], between: Span, budget: int
) -> Iterator[Span]:
    low, high = between
    total = costs[high] - costs[low]
    if budget < total <= budget * 7 // 4:
        # One cut will do if it leaves no more than the budget on either side.
        first = bisect_left(costs, costs[high] - budget, low + 1, high)
        beyond = bisect_right(costs, costs[low] + budget, first, high)
        if first < beyond:
            cut = _highest(ranks, first, beyond)
            yield from ((low, cut), (cut, high))
            return
    while costs[high] - costs[low] > budget:
        cut = _next_cut(costs, ranks, (low, high), budget)
        yield low, cut
        low = cut
    if low < high:
        yield low, high


def _next_cut(costs: Sequence[int], ranks: Sequence[int], between: Span, budget: int) -> int:
    low, high = between
    least = budget // 4
    first = bisect_left(costs, costs[low] + least, low + 1, high)
    beyond = bisect_right(costs, costs[low] + budget, low + 1, high)
    if first < beyond:
        best = _highest(ranks, first, beyond)
        before_end = bisect_right(costs, costs[high] - least, first, beyond)
        # In text that repeats itself, cuts keep its rhythm even if little is left at the end.
        rhythmic = ranks[best] in ranks[first:best]
        if best < before_end or rhythmic or first == before_end:
            return best
        return _highest(ranks, first, before_end)
    fits = bisect_right(costs, costs[low] + budget, low + 1, high) - 1
    if fits == low:
        return low + 1
    # What comes next is kept whole if it can be; otherwise the little before it joins it.
    return fits if costs[fits + 1] - costs[fits] <= budget else fits + 1


def _highest(ranks: Sequence[int], first: int, beyond: int) -> int:
    """Return the point of the highest rank; of several, the last."""
    return max(range(first, beyond), key=lambda point: (ranks[point], point))

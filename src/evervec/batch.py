"""Which texts travel to the model together. Pure.

A model pads the texts of a request to the longest of them, so a request costs its longest text
times its size. Texts of like length therefore go together: on mixed texts this is worth a
factor of three.
"""

from collections.abc import Sequence
from typing import TypeVar

from evervec.ports import Limits

T = TypeVar("T")


def batches(counts: Sequence[int], *, limits: Limits) -> list[list[int]]:
    """Split the texts with these token *counts* into requests, as lists of indexes.

    Every index appears once. A request keeps to *limits*, with its tokens counted as padded;
    only a text that is too long by itself breaks them, and it travels alone. Long texts come
    first, equal ones in their order, so the last requests of a run are the small ones.
    """
    found: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(counts)), key=lambda index: -counts[index]):
        if found and _fits(found[-1], longest, limits):
            found[-1].append(index)
        else:
            found.append([index])
            # An empty text still takes a row of the request.
            longest = max(counts[index], 1)
    return found


def halves(batch: Sequence[T]) -> tuple[list[T], list[T]]:
    """Split a refused request in two, to find the guilty text. ValueError if it is down to one."""
    if len(batch) < 2:
        raise ValueError("a request of one text cannot be split")
    middle = (len(batch) + 1) // 2
    return list(batch[:middle]), list(batch[middle:])


def _fits(batch: Sequence[int], longest: int, limits: Limits) -> bool:
    """Tell whether one more text, no longer than *longest*, may join *batch*."""
    size = len(batch) + 1
    return (
        longest <= limits.text_tokens_max
        and longest * size <= limits.batch_tokens_max
        and size <= limits.batch_texts_max
    )

"""Which rows of a view are nearest to a query, and how many had to be read for it.

Small collections, and whatever a filter leaves little of, are compared in full. In a large one the
codes say in which rows to look (`codes.py`): the nearest by code are compared first, and how near
the last wanted one of them is says how many more could still be among the answer. Those are all
compared. Where that would be too many, as with vectors that point anywhere at random, the
whole matrix is: slower, never worse.

What is small is computed by `vecdot`, on this thread: a product wakes the BLAS's own threads and
waits for all of them, which takes 30 ms instead of one on a machine that is busy embedding.
"""

import numpy as np
from numpy.typing import NDArray

from evervec.stores.sqlite.chunks import Chunks
from evervec.stores.sqlite.codes import FAR, Coded, bits_of, code_of, reach
from evervec.stores.sqlite.index import View

NEAR = 1e-5
"""More than float32 sums of one product can differ by; who is nearer than this is measured again."""
FIRST_ROWS = 1_000
"""How many of the nearest by code are compared before it is known how far to read."""
FEW_ROWS = 20_000
"""So few are all compared, on this thread: what a filter leaves, or all there are."""
FEW_IN, WIDE = 32, 16
"""How many rows for each wanted one make a search by halves worth it; how sparse numbers may be."""
GATHERED_ROWS = 8_192
GROUP_ROWS = 64
"""The best of each group of so many rows say quickly how good a row must be at least."""
READ_SHARE_MAX = 1 / 12
"""Reading single rows costs more than reading all in order from about here on."""

Rows = NDArray[np.int64]


class Scan:
    """One query over one view. Ask deeper, or drop what turned out to be gone, as often as needed."""

    def __init__(self, view: View, vector: NDArray[np.float64], allowed: Chunks | None) -> None:
        self._view = view
        self._query = vector.astype(np.float32)
        self._allowed = None if allowed is None else rows_of(view.chunks, allowed)
        self.coded = False
        """Whether the codes chose what was compared."""
        self._distances = np.empty(0, np.uint16)
        self._reach = -1
        self._rows: Rows | None = None
        """Which rows the scores are of; None: of all."""
        few = self._allowed is not None and len(self._allowed) <= FEW_ROWS
        if view.coded is None or few:
            self._read_all()
        else:
            self._begin(view.coded)

    @property
    def compared(self) -> int:
        """How many rows were compared as they are."""
        return len(self._scores)

    def nearest(self, depth: int) -> Rows:
        """Return the *depth* nearest rows, unordered, with all that might tie with the last."""
        while self.coded and (further := self._further(depth)) > self._reach:
            self._widen(further)
        top = _top(self._scores, depth)
        return top if self._rows is None else self._rows[top]

    def drop(self, rows: Rows) -> None:
        """Leave out rows whose chunk is gone."""
        self._scores[rows if self._rows is None else np.isin(self._rows, rows)] = -np.inf

    def _begin(self, coded: Coded) -> None:
        view = self._view
        end = min(coded.rows, len(view.chunks))
        distances = coded.distances(code_of(self._query))[:end]
        if view.buried:
            distances[view.dead[:end]] = FAR
        self.coded, self._distances = True, distances
        # What came after the codes is compared in any case.
        if self._allowed is not None:
            others = np.ones(end, np.bool_)
            others[self._allowed[self._allowed < end]] = False
            distances[others] = FAR
            self._rows = self._allowed[self._allowed >= end]
            self._scores = self._compare(self._rows)
        else:
            self._rows = np.arange(end, len(view.chunks))
            self._scores = np.vecdot(view.matrix[end:], self._query)
            if view.buried:
                self._scores[view.dead[end:]] = -np.inf

    def _further(self, depth: int) -> int:
        """Return how far to read: until no row further off can be among the *depth* nearest."""
        bits = bits_of(len(self._query))
        found = int((self._scores > -np.inf).sum())
        if self._reach < 0 or found < depth:
            # Twice of what was compared, so that each turn reads on, whatever was dropped.
            return self._distance_of(max(FIRST_ROWS, 4 * depth, 2 * self.compared), bits)
        return min(bits, reach(_last(self._scores, depth), len(self._query)))

    def _distance_of(self, place: int, bits: int) -> int:
        if place >= len(self._distances):
            return bits
        return min(bits, int(np.partition(self._distances, place)[place]))

    def _widen(self, further: int) -> None:
        distances = self._distances
        new = np.flatnonzero(distances <= further)
        if len(new) > len(distances) * READ_SHARE_MAX:
            self._read_all()
            return
        new = new[distances[new] > self._reach] if self._reach >= 0 else new
        self._reach = further
        self._rows = new if self._rows is None else np.concatenate([self._rows, new])
        self._scores = np.concatenate([self._scores, self._compare(new)])

    def _read_all(self) -> None:
        view, allowed = self._view, self._allowed
        self.coded = False
        if allowed is not None and len(allowed) * 4 < len(view.chunks):
            self._rows, self._scores = allowed, self._compare(allowed)
            return
        self._rows = None
        if len(view.chunks) <= FEW_ROWS:
            self._scores = np.vecdot(view.matrix, self._query)
        else:
            self._scores = view.matrix @ self._query
        if allowed is not None:
            others = np.ones(len(view.chunks), np.bool_)
            others[allowed] = False
            self._scores[others] = -np.inf
        if view.buried:
            self._scores[view.dead] = -np.inf

    def _compare(self, rows: Rows) -> NDArray[np.float32]:
        scores = np.empty(len(rows), np.float32)
        for first in range(0, len(rows), GATHERED_ROWS):
            some = rows[first : first + GATHERED_ROWS]
            scores[first : first + GATHERED_ROWS] = np.vecdot(self._view.matrix[some], self._query)
        scores[self._view.dead[rows]] = -np.inf
        return scores


def rows_of(chunks: Chunks, allowed: Chunks) -> Rows:
    """Return where the *allowed* chunks are; both are sorted, and some may not be there."""
    if len(chunks) == 0 or len(allowed) * FEW_IN <= len(chunks):
        places = np.searchsorted(chunks, allowed)
        there = places < len(chunks)
        places, allowed = places[there], allowed[there]
        return np.compress(chunks[places] == allowed, places)
    first, span = chunks[0], int(chunks[-1] - chunks[0]) + 1
    if span > WIDE * len(chunks):
        return np.flatnonzero(np.isin(chunks, allowed, assume_unique=True))
    # Numbers lie close together: a table of all of them is looked up ten times as fast.
    table = np.zeros(span, np.bool_)
    table[allowed[(allowed >= first) & (allowed <= chunks[-1])] - first] = True
    return np.flatnonzero(table[chunks - first])


def _top(scores: NDArray[np.float32], depth: int) -> Rows:
    """Return where the *depth* greatest scores are, with all that might tie with the last."""
    groups = len(scores) // GROUP_ROWS
    rows = None
    if groups > depth:
        best = scores[: groups * GROUP_ROWS].reshape(GROUP_ROWS, groups).max(axis=0)
        rows = np.flatnonzero(scores >= _last(best, depth) - NEAR)
        scores = scores[rows]
    there = scores > -np.inf
    if len(scores) > depth:
        there &= scores >= _last(scores, depth) - NEAR
    top = np.flatnonzero(there)
    return top if rows is None else rows[top]


def _last(scores: NDArray[np.float32], depth: int) -> float:
    """Return the last of the *depth* greatest scores."""
    return float(np.partition(scores, len(scores) - depth)[len(scores) - depth])

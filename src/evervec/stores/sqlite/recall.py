"""How much of an exact answer the codes leave: measured with stored vectors as queries."""

import time

import numpy as np

from evervec.model import Recall
from evervec.stores.sqlite.index import View
from evervec.stores.sqlite.scan import NEAR, Scan

K = 10
DEPTH = 30
"""How deep a search for ten documents reads."""


def recall_of(view: View, collection: str, samples: int) -> Recall:
    """Compare both ways of searching, for *samples* chunks drawn by chance."""
    live = np.flatnonzero(~view.dead)
    drawn = np.random.default_rng().choice(live, min(samples, len(live)), replace=False)
    found = wanted = compared = 0
    seconds = exact_seconds = 0.0
    coded = False
    for row in drawn.tolist():
        vector = view.matrix[row].astype(np.float64)
        began = time.perf_counter()
        scan = Scan(view, vector, None)
        near = scan.nearest(DEPTH)
        seconds += time.perf_counter() - began
        coded = coded or scan.coded
        compared += scan.compared
        began = time.perf_counter()
        scores = view.matrix @ view.matrix[row]
        exact_seconds += time.perf_counter() - began
        scores[view.dead] = -np.inf
        k = min(K, len(live))
        last = np.partition(scores, len(scores) - k)[len(scores) - k]
        wanted += k
        # What is as near as the last of the best is as good an answer.
        found += min(k, int((scores[near] >= last - NEAR).sum()))
    count = max(1, len(drawn))
    return Recall(
        collection=collection,
        chunks=len(live),
        sampled=len(drawn),
        recall=found / wanted if wanted else 1.0,
        index="codes" if coded else "exact",
        compared=compared // count,
        milliseconds=seconds / count * 1000,
        exact_milliseconds=exact_seconds / count * 1000,
    )

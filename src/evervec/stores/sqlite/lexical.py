"""Ranking by words: BM25 whose numbers come from the collections that are searched, and no others.

SQLite's own BM25 counts words in the whole file, so one tenant's documents would move another's
scores. Here the full text only finds chunks and says how often each word is in them. How rare a
word is comes from the searched collections; a chunk's length is compared with a fixed one.

A word scores at most `K + 1` times its weight. So the rarest words are searched first, and when
the others together cannot lift a chunk above the worst of those found, chunks that have only
others are never read. The answer is the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import apsw
import apsw.fts5
import numpy as np
from numpy.typing import NDArray

from evervec.stores.sqlite.index import SQL, Chunks
from evervec.stores.sqlite.ranking import Target
from evervec.stores.sqlite.words import any_of

K = 1.2
"""How soon more of the same word adds nothing."""
B = 0.75
"""How much length counts."""
LENGTH = 100
"""Words in a chunk of middle length."""
COMMON_SHARE = 1 / 3
COMMON_FROM_CHUNKS = 10_000
"""From this size on, words in more than a third of all chunks are left out beside rarer ones."""
NEAR = 1e-9

_SCORES = np.dtype([("chunk", "<i8"), ("score", "<f8")])
_ready: WeakSet[apsw.Connection] = WeakSet()


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query, with the most that it can add to a score."""

    text: str
    weight: float


def best_matches(
    connection: apsw.Connection, targets: Sequence[Target], words: list[str], depth: int
) -> list[tuple[Target, Chunks, NDArray[np.float64]]]:
    """Return each target's chunks that are among the *depth* best of all, ties included."""
    targets = [target for target in targets if target.allowed is None or len(target.allowed)]
    counted = _counted(connection, targets, words)
    if not counted:
        return []
    prepare(connection)
    weighed = _weighed(targets, counted)
    few = _enough(counted, weighed, depth)
    found = _scored(connection, targets, weighed, few)
    floor = _worst(found, depth)
    needed = few
    while needed < len(weighed) and sum(w.weight for w in weighed[needed:]) >= floor - NEAR:
        needed += 1
    if needed > few:
        found = _scored(connection, targets, weighed, needed)
        floor = _worst(found, depth)
    best = []
    for target, rows in zip(targets, found, strict=True):
        good = rows[rows["score"] >= floor - NEAR]
        best.append((target, good["chunk"], good["score"]))
    return best


def _counted(
    connection: apsw.Connection, targets: Sequence[Target], words: list[str]
) -> dict[str, int]:
    """Return the words to search by, and how many chunks have each."""
    total = sum(target.row.chunks for target in targets)
    common = int(total * COMMON_SHARE) if total >= COMMON_FROM_CHUNKS else total

    def counts(limit: int) -> dict[str, int]:
        there = {
            word: sum(_frequency(connection, target, word, limit) for target in targets)
            for word in words
        }
        return {word: count for word, count in there.items() if count}

    # Counting ends where a word is known to be common: that is most of what counting costs.
    found = counts(common + 1)
    telling = {word: count for word, count in found.items() if count <= common}
    return telling or (counts(total) if found else {})


def _frequency(connection: apsw.Connection, target: Target, word: str, limit: int) -> int:
    given = {"words": any_of([word]), "first": target.row.first, "end": target.row.end}
    if len(target.hidden.all):
        rows = connection.execute(SQL["having"], given)
        having = np.fromiter((chunk for (chunk,) in rows), np.int64)
        return min(limit, int(np.isin(having, target.hidden.all, invert=True).sum()))
    return int(connection.execute(SQL["frequency"], {**given, "limit": limit}).get)


def _weighed(targets: Sequence[Target], counted: dict[str, int]) -> list[Word]:
    """Return the words, those first that tell most."""
    total = sum(target.row.chunks for target in targets)
    weighed = [
        Word(word, (K + 1) * math.log(1 + max(0.0, total - count + 0.5) / (count + 0.5)))
        for word, count in counted.items()
    ]
    return sorted(weighed, key=lambda word: (-word.weight, word.text))


def _enough(counted: dict[str, int], weighed: list[Word], depth: int) -> int:
    """Return how many of the first words may bring *depth* chunks together."""
    sum_ = 0
    for number, word in enumerate(weighed, start=1):
        sum_ += counted[word.text]
        if sum_ >= depth:
            return number
    return len(weighed)


def _scored(
    connection: apsw.Connection, targets: Sequence[Target], words: list[Word], needed: int
) -> list[NDArray[np.void]]:
    """Score, in each target, the chunks that have one of the first *needed* words."""
    texts = [word.text for word in words]
    if needed < len(words):
        # Each chunk has a rare word then; the common ones still count in its score.
        match = f"({any_of(texts[:needed])}) AND ({any_of(texts)})"
        shift = needed
    else:
        match, shift = any_of(texts), 0
    weights = tuple((shift + place, word.weight) for place, word in enumerate(words))
    found = []
    for target in targets:
        given = {
            "words": match,
            "weights": apsw.pyobject(weights),
            "first": target.row.first,
            "end": target.row.end,
        }
        rows = np.fromiter(connection.execute(SQL["lexical"], given), _SCORES)
        if target.allowed is not None:
            rows = rows[np.isin(rows["chunk"], target.allowed)]
        elif len(target.hidden.all):
            rows = rows[np.isin(rows["chunk"], target.hidden.all, invert=True)]
        found.append(rows)
    return found


def _worst(found: list[NDArray[np.void]], depth: int) -> float:
    """Return the score of the last of the *depth* best; with fewer, anything is good enough."""
    scores = np.concatenate([rows["score"] for rows in found])
    if len(scores) < depth:
        return 0.0
    return float(np.partition(scores, len(scores) - depth)[len(scores) - depth])


def prepare(connection: apsw.Connection) -> None:
    """Teach *connection* the function that the statement `lexical` scores with."""
    if connection not in _ready:
        connection.register_fts5_function("evervec_bm25", _bm25)
        _ready.add(connection)


def _bm25(chunk: apsw.FTS5ExtensionApi, *given: Any) -> float:
    weights: tuple[tuple[int, float], ...] = given[0]
    norm = K * (1 - B + B * chunk.column_size() / LENGTH)
    score = 0.0
    for phrase, weight in weights:
        count = len(chunk.phrase_locations(phrase)[0])
        if count:
            score += weight * count / (count + norm)
    return score

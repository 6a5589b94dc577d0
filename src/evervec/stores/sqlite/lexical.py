"""Ranking by words: BM25 whose numbers come from the collections that are searched, and no others.

SQLite's own BM25 counts words in the whole file, so one tenant's documents would move another's
scores. Here the full text only finds chunks and says how often each word is in them. How rare a
word is comes from the searched collections; a chunk's length is compared with a fixed one.

A word scores at most `K + 1` times its weight. So the rarest words are searched first. A chunk that
has none of them is read only if it has so many of the others that they could lift it above the worst
of those found: the full text is asked for these together. The answer is the same.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import apsw
import apsw.fts5
import numpy as np
from numpy.typing import NDArray

from evervec.stores.sqlite.chunks import Chunks
from evervec.stores.sqlite.index import SQL
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
COUNTED_MAX = 4_096
"""How many words' counts are remembered."""
DEEP, COMBINED_MAX = 3, 10
"""How many words are asked for in one, and among how many."""

_SCORES = np.dtype([("chunk", "<i8"), ("score", "<f8")])
_ready: WeakSet[apsw.Connection] = WeakSet()


@dataclass(frozen=True, slots=True)
class Word:
    """A word of the query, with the most that it can add to a score."""

    text: str
    weight: float


class Frequencies:
    """In how many chunks a word is. What was counted holds until the collection changes.

    To count a word that a fifth of a million chunks have takes as long as to score a thousandth.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int, int, str], int] = OrderedDict()

    def of(self, connection: apsw.Connection, target: Target, word: str, limit: int) -> int:
        """Count the chunks of *target* with *word*, up to *limit*."""
        key = target.row.number, target.row.revision, limit, word
        count = self._known.pop(key, None)
        if count is None:
            count = _frequency(connection, target, word, limit)
        # Threads may do this at once; the worst is that one of them counts for nothing.
        self._known[key] = count
        while len(self._known) > COUNTED_MAX:
            self._known.popitem(last=False)
        return count


def best_matches(
    connection: apsw.Connection,
    targets: Sequence[Target],
    words: list[str],
    depth: int,
    frequencies: Frequencies,
) -> list[tuple[Target, Chunks, NDArray[np.float64]]]:
    """Return each target's chunks that are among the *depth* best of all, ties included."""
    targets = [target for target in targets if target.allowed is None or len(target.allowed)]
    counted = _counted(connection, targets, words, frequencies)
    if not counted:
        return []
    prepare(connection)
    weighed = _weighed(targets, counted)
    few = _enough(counted, weighed, depth / _share(targets))
    found = _scored(connection, targets, weighed, any_of([word.text for word in weighed[:few]]))
    floor = _worst(found, depth)
    if more := together(weighed[few:], floor - NEAR):
        either = f"{any_of([word.text for word in weighed[:few]])} OR {more}"
        found = _scored(connection, targets, weighed, either)
        floor = _worst(found, depth)
    best = []
    for target, rows in zip(targets, found, strict=True):
        good = rows[rows["score"] >= floor - NEAR]
        best.append((target, good["chunk"], good["score"]))
    return best


def _counted(
    connection: apsw.Connection,
    targets: Sequence[Target],
    words: list[str],
    frequencies: Frequencies,
) -> dict[str, int]:
    """Return the words to search by, and how many chunks have each."""
    total = sum(target.row.chunks for target in targets)
    common = int(total * COMMON_SHARE) if total >= COMMON_FROM_CHUNKS else total

    def counts(limit: int) -> dict[str, int]:
        there = {
            word: sum(frequencies.of(connection, target, word, limit) for target in targets)
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


def _share(targets: Sequence[Target]) -> float:
    """Return how much of the collections a filter leaves."""
    left = sum(
        target.row.chunks if target.allowed is None else len(target.allowed) for target in targets
    )
    return left / max(left, sum(target.row.chunks for target in targets))


def together(words: Sequence[Word], least: float, *, deep: int = DEEP) -> str:
    """Write the search for what has words that may add up to *least*; empty if nothing can.

    Those first that tell most. More than that is found where it would take more than *deep* words in
    one, or where there are many: a search of all combinations would be longer than the texts.
    """
    parts = []
    left = sum(word.weight for word in words)
    for place, word in enumerate(words):
        if left < least:
            break
        left -= word.weight
        rest = ""
        if word.weight < least and deep > 1 and len(words) <= COMBINED_MAX:
            rest = together(words[place + 1 :], least - word.weight, deep=deep - 1)
        part = any_of([word.text])
        parts.append(f"({part} AND ({rest}))" if rest else part)
    return " OR ".join(parts)


def _enough(counted: dict[str, int], weighed: list[Word], depth: float) -> int:
    """Return how many of the first words may bring *depth* chunks together."""
    sum_ = 0
    for number, word in enumerate(weighed, start=1):
        sum_ += counted[word.text]
        if sum_ >= depth:
            return number
    return len(weighed)


def _scored(
    connection: apsw.Connection, targets: Sequence[Target], words: list[Word], wanted: str
) -> list[NDArray[np.void]]:
    """Score, in each target, the chunks that the search *wanted* finds, by all of the words."""
    match, before = any_of([word.text for word in words]), 0
    if wanted != match:
        # Every word stands once more behind it: also those that need not be there count.
        match, before = f"({wanted}) AND ({match})", wanted.count('"') // 2
    weights = tuple((before + place, word.weight) for place, word in enumerate(words))
    found = []
    for target in targets:
        first, end = target.row.first, target.row.end
        given = {
            "words": match,
            "weights": apsw.pyobject((weights, first, _mask(target))),
            "first": first,
            "end": end,
        }
        rows = np.fromiter(connection.execute(SQL["lexical"], given), _SCORES)
        found.append(rows[rows["score"] >= 0])
    return found


def _mask(target: Target) -> bytes | None:
    """Return a byte for each chunk number, not zero where a search may see it; None: all of them."""
    first, size = target.row.first, target.row.end - target.row.first + 1
    if target.allowed is not None:
        mask = np.zeros(size, np.uint8)
        mask[target.allowed - first] = 1
    elif len(target.hidden.all):
        mask = np.ones(size, np.uint8)
        mask[target.hidden.all - first] = 0
    else:
        return None
    return mask.tobytes()


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
    weights: tuple[tuple[int, float], ...]
    mask: bytes | None
    weights, first, mask = given[0]
    if mask is not None and not mask[chunk.rowid - first]:
        return -1.0
    norm = K * (1 - B + B * chunk.column_size() / LENGTH)
    score = 0.0
    for phrase, weight in weights:
        count = len(chunk.phrase_locations(phrase)[0])
        if count:
            score += weight * count / (count + norm)
    return score

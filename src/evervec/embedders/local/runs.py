"""Which tokens a text has and where they end, at several times the tokenizer's own speed.

BERT's tokenizers part a text at blanks before anything else, and what lies between two blanks (a *run*)
becomes the same tokens wherever it stands. People write the same runs again and again, so each is
given to the tokenizer once. Other kinds of tokenizers look across blanks and are not for this.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

REMEMBERED = 65_536
REMEMBERED_CHARS = 40
"""Of each of them; together they bound what is remembered to some 55 MB, mostly 15."""
_RUN = re.compile(r"[^ \t\n\r]+")

Part: TypeAlias = tuple[int, ...]
"""A run's tokens: the end of each, counted from the run's own beginning, and then its id."""


class Runs:
    """What is known of runs. Safe for use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._able = (
            isinstance(tokenizer.normalizer, BertNormalizer)
            and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
            and isinstance(tokenizer.model, WordPiece)
        )
        self._special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        # Each number once, however many runs have that token.
        self._numbers: dict[int, int] = {}
        self._known: dict[str, Part] = {}

    def able(self, text: str) -> bool:
        """Say whether this is such a tokenizer and *text* spells none of its special tokens."""
        return self._able and not any(token in text for token in self._special)

    def ends(self, text: str) -> list[int]:
        """Return where each token of *text* ends, which `able` was asked about."""
        ends, _ = self.read(text)
        return ends

    def read(self, text: str) -> tuple[list[int], NDArray[np.int64]]:
        """Return the end of each token of *text*, and its id; `able` was asked about it."""
        found = list(_RUN.finditer(text))
        parts = self._parts([run[0] for run in found])
        starts = np.fromiter((run.start() for run in found), np.int64, len(found))
        sizes = np.fromiter(map(len, parts), np.int64, len(found))
        told = np.fromiter(chain.from_iterable(parts), np.int64, int(sizes.sum()))
        ends: list[int] = (np.repeat(starts, sizes // 2) + told[::2]).tolist()
        return ends, told[1::2]

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each of *texts* has, all of which `able` was asked about."""
        runs = [_RUN.findall(text) for text in texts]
        sizes = map(len, self._parts(list(chain.from_iterable(runs))))
        return [sum(islice(sizes, len(each))) // 2 for each in runs]

    def _parts(self, runs: Sequence[str]) -> list[Part]:
        known = self._known
        new = self._new(list(set(runs).difference(known)))
        parts = [new[run] if run in new else known[run] for run in runs]
        if len(known) > REMEMBERED:
            # Another thread may still be reading the old one.
            self._known = known = {}
        known.update({run: part for run, part in new.items() if len(run) <= REMEMBERED_CHARS})
        return parts

    def _new(self, runs: Sequence[str]) -> dict[str, Part]:
        if not runs:
            return {}
        # In one text: to begin a text costs the tokenizer ten times as much as a run.
        encoding = self._tokenizer.encode(" ".join(runs), add_special_tokens=False)
        ends = list(accumulate((end for _, end in encoding.offsets), max))
        ids = [self._numbers.setdefault(number, number) for number in encoding.ids]
        read: dict[str, Part] = {}
        start = first = 0
        for run in runs:
            stop = start + len(run)
            beyond = bisect_right(ends, stop, first)
            inner = (end - start for end in ends[first:beyond])
            read[run] = tuple(chain.from_iterable(zip(inner, ids[first:beyond], strict=True)))
            start, first = stop + 1, beyond
        return read

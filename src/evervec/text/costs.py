"""What text costs in the model's own tokens, and the heading line that each chunk carries."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from operator import sub
from typing import Protocol

from evervec.text.cutting import ChunkRecipe
from evervec.text.sections import Section

SPECIAL = 2
"""Tokens that models put around a text, at least."""
JOINT = " > "
_WORD_MOST = 32
"""Tokens of more characters stand for words the tokenizer gave up on: see `Costs`."""


class TokenEnds(Protocol):
    """The model's own tokenizer."""

    def token_ends(self, text: str) -> Sequence[int]:
        """Return where each token ends, as growing offsets, without special tokens."""

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """Return each text's tokens, special ones included."""


class Costs:
    """What each stretch of a batch costs in tokens, as far as can be told before it is cut.

    Some tokenizers make one "unknown" of a very long word, and some skip characters. Cut in two,
    such a stretch would cost more than the whole; so it counts as a token for each character.
    Any coarser count would shift all cuts behind an edit, because its steps would shift.
    """

    def __init__(self, text: str, start: int, end: int, tokens: TokenEnds) -> None:
        self._ends = _ends(text, start, end, tokens)
        self.until = partial(bisect_right, self._ends)
        """Returns the cost of everything before a place. Asked so often that a method is too slow."""

    def back(self, at: int, count: int) -> int:
        """Return where the *count* tokens before *at* begin."""
        before = self.until(at) - count
        return self._ends[before - 1] if before > 0 else 0


def _ends(text: str, start: int, end: int, tokens: TokenEnds) -> list[int]:
    told = [*tokens.token_ends(text[start:end]), end - start]
    if max(map(sub, told, chain([0], told))) <= _WORD_MOST:
        # Nearly every text: worth a pass of its own that runs in C.
        told.pop()
        return [start + after for after in told] if start else told
    ends: list[int] = []
    last = start
    for after in told:
        at = start + after
        if at - last > _WORD_MOST:
            word = text[last:at].strip()
            if len(word) > _WORD_MOST:
                begin = text.index(word[0], last)
                ends.extend(range(begin + 1, begin + len(word)))
        ends.append(at)
        last = at
    # The end of the text is no token, it only bounds the last stretch.
    ends.pop()
    return ends


class Headings:
    """What is put above each section's chunks, and what it costs."""

    def __init__(self, sections: Iterable[Section], tokens: TokenEnds, recipe: ChunkRecipe) -> None:
        paths = {section.path for section in sections}
        titles = list(dict.fromkeys(chain.from_iterable(paths)))
        self._most = recipe.tokens_max // 4
        self._embedded = recipe.heading_context
        self._tokens = tokens
        # A row without headings asks for nothing that has to be counted.
        (special,) = tokens.count_tokens([""])
        parts = [JOINT, *titles] if titles else []
        self._costs = {
            part: count - special
            for part, count in zip(parts, tokens.count_tokens(parts), strict=True)
        }
        self.special = max(special, SPECIAL)
        self._shown: dict[tuple[str, ...], tuple[str, int]] = {}

    def of(self, path: tuple[str, ...]) -> tuple[str, int]:
        """Return the heading line for *path* and its tokens; the outermost go if it is long.

        What is not embedded takes no tokens.
        """
        if path not in self._shown:
            line, cost = self._made(path)
            self._shown[path] = line, cost if self._embedded else 0
        return self._shown[path]

    def _made(self, path: tuple[str, ...]) -> tuple[str, int]:
        kept: list[str] = []
        cost = 1  # the end of the line, which some models count
        for title in reversed(path):
            more = self._costs[title] + (self._costs[JOINT] if kept else 0)
            if cost + more > self._most:
                break
            kept.append(title)
            cost += more
        if not kept and path:
            ends = self._tokens.token_ends(path[-1])
            return path[-1][: ends[self._most - 3]].rstrip(), self._most
        return (JOINT.join(reversed(kept)), cost) if kept else ("", 0)

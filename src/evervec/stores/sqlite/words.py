"""What a word is, for the full text and for a query: both sides must cut alike.

The full text takes a run of letters for one word. Scripts that write no spaces (Chinese, Japanese,
Thai and others; Korean writes some, but glues endings to words) would make a sentence one word, so
their letters are stored apart, each a word of its own, and a query asks for each two neighbours as
a phrase: what is written inside a longer run is found.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby, pairwise

WORDS_MAX = 64

# Thai to Lao, Myanmar, Khmer, kana to bopomofo, ideographs, Hangul, the half-width forms.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_LETTER = re.compile(f"[{_UNSPACED}]")
_PARTS = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")


def spaced(text: str) -> str | None:
    """Set letters apart that are written without spaces; None if *text* has no such letter."""
    if text.isascii() or not _LETTER.search(text):
        return None
    return _LETTER.sub(r" \g<0> ", text)


def places_in(text: str) -> list[int]:
    """Return, for each character of `spaced(text)`, which character of *text* it stands for."""
    return [at for at, letter in enumerate(text) for _ in range(3 if _LETTER.match(letter) else 1)]


def words_of(text: str) -> list[str]:
    """Take apart what a person typed: each word once, up to `WORDS_MAX` of them."""
    words: dict[str, str] = {}
    for in_word, letters in groupby(text, key=_in_word):
        if in_word:
            for word in _words_in("".join(letters)):
                # The full text folds case and accents itself, in its own way.
                words.setdefault(word.casefold(), word)
    return list(words.values())[:WORDS_MAX]


def _words_in(run: str) -> Iterator[str]:
    for part in _PARTS.findall(run):
        letters = [letter for letter in part if letter.isalnum()]
        if not letters:
            continue
        if not _LETTER.match(part):
            yield part
        elif len(letters) == 1:
            yield letters[0]
        else:
            yield from (f"{one} {two}" for one, two in pairwise(letters))


def any_of(words: list[str]) -> str:
    """Write the search for any of *words*, quoted: nothing that a person types is an operator."""
    return " OR ".join(f'"{word}"' for word in words)


def _in_word(letter: str) -> bool:
    # A mark belongs to the letter before it and must not cut a word in two.
    return letter.isalnum() or unicodedata.category(letter).startswith("M")

"""Where a query's words are in a text: cut and folded by the very tokenizer of the full text."""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import apsw

from evervec.stores.sqlite.words import places_in, spaced

TOKENIZER = ("unicode61", ["remove_diacritics", "2"])
"""As the schema has it for `store_text`."""


class Marker:
    """Finds the words of one query, each of them one token or a phrase of some."""

    def __init__(self, connection: apsw.Connection, words: Sequence[str]) -> None:
        name, arguments = TOKENIZER
        self._tokenizer = connection.fts5_tokenizer(name, arguments)
        self._phrases: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
        for word in words:
            phrase = [token for _, _, token in self._tokens(word)]
            if phrase:
                self._phrases[phrase[0]].append((word, phrase))

    def found(self, text: str) -> dict[str, list[tuple[int, int]]]:
        """Return each word that *text* has, with its places as offsets in characters."""
        if not self._phrases:
            return {}
        apart = spaced(text)
        places = None if apart is None else places_in(text)
        tokens = self._tokens(text if apart is None else apart)
        names = [token for _, _, token in tokens]
        marks: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for at, name in enumerate(names):
            for word, phrase in self._phrases.get(name, ()):
                if names[at : at + len(phrase)] == phrase:
                    first, last = tokens[at][0], tokens[at + len(phrase) - 1][1]
                    if places is not None:
                        first, last = places[first], places[last - 1] + 1
                    marks[word].append((first, _with_accents(text, last)))
        return dict(marks)

    def _tokens(self, text: str) -> list[tuple[int, int, str]]:
        utf8 = text.encode("utf-8", "replace")
        told: Any = self._tokenizer(
            utf8, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False
        )
        if text.isascii():
            return list(told)
        # Offsets come in bytes and in order: each is counted on from the one before it.
        tokens, byte, letters = [], 0, 0
        for first, last, token in told:
            letters += len(utf8[byte:first].decode("utf-8", "replace"))
            begin = letters
            letters += len(utf8[first:last].decode("utf-8", "replace"))
            byte = last
            tokens.append((begin, letters, token))
        return tokens


def merged(marks: dict[str, list[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """Return the places of all words in order; what overlaps or touches is one place."""
    places: list[tuple[int, int]] = []
    for first, last in sorted(place for mine in marks.values() for place in mine):
        if places and first <= places[-1][1]:
            places[-1] = places[-1][0], max(last, places[-1][1])
        else:
            places.append((first, last))
    return tuple(places)


def _with_accents(text: str, end: int) -> int:
    """Take the marks along that stand behind a word's last letter and belong to it."""
    while end < len(text) and unicodedata.category(text[end]).startswith("M"):
        end += 1
    return end

"""Where a text may be cut, from the strongest kind of place to the weakest.

What follows a boundary starts a new piece; the whitespace before it belongs to the old one. A
boundary depends on the characters around it alone, never on what lies further away.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from zlib import crc32

_SENTENCE = re.compile(
    # The full stops of scripts without spaces end a sentence at once, all others need a space.
    # The lookbehind and the possessive plus keep a long row of dots from costing its square.
    r"""[\u3002\uff01\uff1f\uff61]+[\u300d\u300f\uff09\u201d\u2019]*\s*"""
    r"""|(?<![.!?\u2026\u061f\u0964])[.!?\u2026\u061f\u0964]++["'\u2019\u201d\xbb)\]]*+\s+"""
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'])(?:[^\W\d_]|(?:[^\W\d_]\.)+[^\W\d_]|mrs?|ms|dr|prof|st|mt|vs|etc|inc|ltd|co|"
    r"corp|no|nos|fig|figs|eq|vol|pp?|ca|cf|approx|dept|est|jan|feb|mar|apr|jun|jul|aug|sept?|"
    r"oct|nov|dec|bzw|usw|nr|bspw|ggf|evtl|sr|sra|jr)\.$",
    re.IGNORECASE,
)
_LINE = re.compile(r"\n\s*")
_ITEM = re.compile(r"\n(?=[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])")
_ROW = re.compile(r"\n(?=[ \t]*[^\s])")
_WORD = re.compile(r"\s+")
_LOOK = 12
"""Characters on each side of a boundary that decide its rank."""
_LOOK_INSIDE_WORD = 4
_CHARACTER_MOST = 16
"""Code points of one visible character; a family of emoji has up to eleven."""


class Level(IntEnum):
    """How strong a boundary is."""

    CHARACTER = 0
    WORD = 1
    LINE = 2
    SENTENCE = 3
    ROW = 4  # a line of code or of a table, an item of a list
    BLOCK = 5
    SECTION = 6


def ranks(text: str, places: Sequence[int], level: Level) -> list[int]:
    """Return for each of the growing *places* an arbitrary number that depends on the text close to it.

    Where several places will do, the one of the highest rank is taken. An edit elsewhere does not
    change it, which is why the cuts behind an edit fall where they fell before.
    """
    look = _LOOK_INSIDE_WORD if level is Level.CHARACTER else _LOOK
    first = max(places[0] - look, 0) if places else 0
    region = text[first : places[-1] + look] if places else ""
    # A checksum's high bits of similar texts are related; multiplying spreads them.
    if region.isascii():
        # A byte is a character: encoding once instead of for each place halves the time.
        data = memoryview(region.encode())
        return [
            crc32(data[max(at - look - first, 0) : at + look - first]) * 0x9E3779B1 & 0xFFFFFFFF
            for at in places
        ]
    around = (text[max(at - look, 0) : at + look] for at in places)
    return [crc32(one.encode("utf-8", "surrogatepass")) * 0x9E3779B1 & 0xFFFFFFFF for one in around]


def rank(text: str, at: int, level: Level) -> int:
    return ranks(text, [at], level)[0]


def sentences(text: str, start: int, end: int) -> Iterator[int]:
    for found in _SENTENCE.finditer(text, start, end):
        at = found.end()
        if at < end and not (found[0][0] == "." and _goes_on(text, found.start(), at)):
            yield at


def _goes_on(text: str, stop: int, following: int) -> bool:
    """Say whether the full stop at *stop* ends an abbreviation and not a sentence."""
    if text[following].islower():
        return True
    return _ABBREVIATION.search(text[max(stop - 14, 0) : stop + 1]) is not None


def lines(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _LINE.finditer(text, start, end))


def rows(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _ROW.finditer(text, start, end))


def items(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _ITEM.finditer(text, start, end))


def words(text: str, start: int, end: int) -> Iterator[int]:
    return (found.end() for found in _WORD.finditer(text, start, end))


def characters(text: str, start: int, end: int) -> Iterator[int]:
    """Yield every place between two characters as a reader sees them, if they are not endless."""
    last = start
    for at in range(start + 1, end):
        joined = not text[at].isascii() and (_joins(text[at]) or text[at - 1] == "\u200d")
        if not joined or at - last >= _CHARACTER_MOST:
            last = at
            yield at


def _joins(character: str) -> bool:
    return character == "\u200d" or unicodedata.category(character) in {"Mn", "Me", "Mc"}


WITHIN: dict[Level, Callable[[str, int, int], Iterator[int]]] = {
    Level.SENTENCE: sentences,
    Level.LINE: lines,
    Level.WORD: words,
    Level.CHARACTER: characters,
}
"""The boundaries that the text alone tells; those above come from its structure."""

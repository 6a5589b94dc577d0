"""The edits that people make to Markdown, drawn by lot: one of each kind at a time."""

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

Edit: TypeAlias = Callable[[str, random.Random], str | None]
"""Returns the edited text; None if this text has no place for such an edit."""

_FENCE = re.compile(r"[ \t]*(```|~~~)")
_HEADING = re.compile(r"(#{1,6})[ \t]+\S")
_WORD = re.compile(r"[A-Za-z]{3,}")
_PARAGRAPH_LEAST = 80
_NEW = "evergreen"


class _Line(NamedTuple):
    start: int
    end: int
    level: int
    """Of a heading; 0 for any other line."""
    fenced: bool


def inserted_word(text: str, chance: random.Random) -> str | None:
    words = list(_WORD.finditer(text))
    at = chance.choice(words).start()
    return f"{text[:at]}{_NEW} {text[at:]}"


def moved_section(text: str, chance: random.Random) -> str | None:
    """Put a section, with all below it, before another of its own level that it does not adjoin."""
    headings = _headings(text)
    moves = []
    for number, heading in enumerate(headings):
        end = _end(text, headings, number)
        for other in headings:
            beside = heading.start <= other.start <= end
            if not beside and other.level == heading.level > 1:
                moves.append((heading.start, end, other.start))
    if not moves:
        return None
    start, end, to = chance.choice(moves)
    section = text[start:end].rstrip("\n") + "\n\n"
    if to < start:
        return text[:to] + section + text[to:start] + text[end:]
    return text[:start] + text[end:to] + section + text[to:]


def renamed_heading(text: str, chance: random.Random) -> str | None:
    """Replace one word of one heading."""
    words = [
        (heading.start + word.start(), heading.start + word.end())
        for heading in _headings(text)
        for word in _WORD.finditer(text[heading.start : heading.end])
    ]
    if not words:
        return None
    start, end = chance.choice(words)
    return text[:start] + _NEW + text[end:]


def deleted_paragraph(text: str, chance: random.Random) -> str | None:
    spans = [
        span
        for span in _paragraphs(text)
        if span[1] - span[0] >= _PARAGRAPH_LEAST and not text.startswith("#", span[0])
    ]
    if not spans:
        return None
    start, end = chance.choice(spans)
    return text[:start] + text[end:]


EDITS: dict[str, Edit] = {
    "one inserted word": inserted_word,
    "one moved section": moved_section,
    "one renamed heading": renamed_heading,
    "one deleted paragraph": deleted_paragraph,
}


def drawn(
    texts: Sequence[str], edit: Edit, *, count: int, chance: random.Random
) -> list[tuple[int, str]]:
    """Return *count* edits as (which text, what became of it), each of a text drawn by lot."""
    found: list[tuple[int, str]] = []
    while len(found) < count:
        number = chance.randrange(len(texts))
        edited = edit(texts[number], chance)
        if edited is not None and edited != texts[number]:
            found.append((number, edited))
    return found


def _lines(text: str) -> list[_Line]:
    lines, fence, start = [], "", 0
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        heading = _HEADING.match(line)
        level = len(heading[1]) if heading and not fence else 0
        lines.append(_Line(start, start + len(line), level, bool(fence or mark)))
        if mark and fence in {"", mark[1]}:
            fence = "" if fence else mark[1]
        start += len(line)
    return lines


def _headings(text: str) -> list[_Line]:
    return [line for line in _lines(text) if line.level]


def _end(text: str, headings: Sequence[_Line], number: int) -> int:
    level = headings[number].level
    later = (line.start for line in headings[number + 1 :] if line.level <= level)
    return next(later, len(text))


def _paragraphs(text: str) -> list[tuple[int, int]]:
    """Return where blank lines begin and end paragraphs, those in fences aside."""
    spans: list[tuple[int, int]] = []
    start: int | None = None
    for line in _lines(text):
        blank = not line.fenced and not text[line.start : line.end].strip()
        if blank and start is not None:
            spans.append((start, line.end))
            start = None
        elif not blank and start is None:
            start = line.start
    if start is not None:
        spans.append((start, len(text)))
    return spans

"""The blocks a text consists of, and how plain text falls into them."""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple


class Kind(Enum):
    """What a block is made of, which decides where it is cut if it must be."""

    PROSE = auto()
    ROWS = auto()  # code, tables, html: each line counts
    ITEMS = auto()  # a list
    HEADING = auto()


class Block(NamedTuple):
    """A stretch of text; with those before and after it covers the whole text without gaps."""

    start: int
    end: int
    kind: Kind
    level: int = 0
    """Of a heading, 1 to 6."""
    title: str = ""


_PARAGRAPH = re.compile(r"\n\s*\n\s*|\f\s*")


def plain_blocks(text: str) -> Iterator[Block]:
    """Yield the paragraphs of *text*: what blank lines or page breaks keep apart."""
    start = 0
    for found in _PARAGRAPH.finditer(text):
        if found.end() < len(text):
            yield Block(start, found.end(), Kind.PROSE)
            start = found.end()
    if start < len(text):
        yield Block(start, len(text), Kind.PROSE)

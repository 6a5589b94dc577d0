"""The few marks of markdown that parsers write, so that structure stays visible to the chunker."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

_HASH = re.compile(r"^( {0,3})(?=#{1,6}(?:[ \t]|$))", re.MULTILINE)
_TICKS = re.compile(r"`{3,}")
_NUMBER = re.compile(r"[-+]?[\d.,\s]*\d[\d.,\s]*[%€$£]?$")
_HEADER_MOST = 80
"""A longer cell is a text, and no name of a column."""


def heading(title: str, level: int) -> str:
    return f"{'#' * min(level, 6)} {' '.join(title.split())}"


def literal(text: str) -> str:
    """Return *text* such that none of its lines is taken for a heading."""
    return _HASH.sub(r"\1\\", text) if "#" in text else text


def fenced(code: str, language: str = "") -> str:
    """Return *code* as a block of code, whatever marks are in it; empty if it is blank."""
    code = code.strip("\n")
    if not code.strip():
        return ""
    longest = max((len(ticks) for ticks in _TICKS.findall(code)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{code}\n{marks}"


def row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def table(rows: Iterable[Sequence[str]], *, level: int) -> Iterator[str]:
    """Yield the lines of a table; its header is a heading of *level*.

    Every chunk carries the headings above it. So each group of rows has its columns'
    names wherever the table is cut, and a new row moves no other.
    """
    rest = (cells for cells in rows if any(cell.strip() for cell in cells))
    first = next(rest, None)
    if first is None:
        return
    second = next(rest, None)
    if second is not None and _is_header(first):
        yield heading(" | ".join(first), level)
        yield ""
    else:
        yield row(first)
    for cells in chain([] if second is None else [second], rest):
        yield row(cells)


def _is_header(cells: Sequence[str]) -> bool:
    names = [cell.strip() for cell in cells]
    named = all(0 < len(name) <= _HEADER_MOST and not _NUMBER.match(name) for name in names)
    return named and len(set(names)) == len(names)

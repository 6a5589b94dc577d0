"""Finds the blocks of markdown: enough of CommonMark to know where a text may be cut.

One pass over the lines, nothing kept but the block that is open. What is no heading, fence,
list, table, html or front matter is prose; a mistake costs a less good cut, never text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evervec.text.blocks import Block, Kind

_LOOK = 1000
"""How much of a line is looked at; a longer heading is taken for prose."""
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_CLOSING = re.compile(r"(?:^|[ \t])#+$")
_SETEXT = re.compile(r" {0,3}(?:=+|-+)$")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_TABLE = re.compile(r"[ \t|:-]*-[ \t|:-]*$")
_HTML = re.compile(r" {0,3}<[A-Za-z/!?]")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_MARKS = re.compile(r"\*\*|__|`")


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of *text* in order; together they cover it."""
    scanner = _Scanner(text)
    at, size = 0, len(text)
    while at < size:
        end = text.find("\n", at) + 1 or size
        block = scanner.take(at, text[at : min(end, at + _LOOK)].rstrip())
        if block is not None:
            yield block
        at = end
    if text:
        yield scanner.block(len(text))


def header_row(text: str, block: Block) -> tuple[int, int] | None:
    """Return where the row with the names of the columns stands, if *block* is a table with one."""
    head = text.find("\n", block.start, block.end)
    under = text.find("\n", head + 1, block.end)
    if head < 0 or under < 0 or under - head > _LOOK:
        return None
    named = "|" in text[block.start : head] and _TABLE.match(text[head + 1 : under].rstrip())
    return (block.start, head) if named else None


@dataclass(slots=True)
class _Scanner:
    text: str
    start: int = 0
    kind: Kind = Kind.PROSE
    level: int = 0
    title: str = ""
    lines: int = 0
    """How many lines the open block has."""
    closed: bool = True
    """Whether the next line that is not blank opens a block."""
    until: str = ""
    """What ends the open block: a fence's marks, `-->`, `---`."""
    blank: bool = False
    """Whether the line before was blank."""

    def block(self, end: int) -> Block:
        return Block(self.start, end, self.kind, self.level, self.title)

    def take(self, at: int, line: str) -> Block | None:
        """Look at the next line; return the block that it ends, if it begins another."""
        if self.until:
            self._within(line)
            return None
        if not line:
            self.closed = self.closed or self.kind is not Kind.ITEMS
            self.blank = True
            return None
        ended = None
        if self._underlines(line):
            self.kind, self.closed = Kind.HEADING, True
            self.level = 1 if line.lstrip()[0] == "=" else 2
            self.title = _plain(" ".join(self.text[self.start : at].split()))
        else:
            kind = self._opened(at, line)
            if kind is not None:
                ended = self._begin(at, line, kind)
        self.lines += 1
        self.blank = False
        if self.lines == 2 and self.kind is Kind.PROSE and "|" in line and _TABLE.match(line):
            self.kind = Kind.ROWS
        return ended

    def _within(self, line: str) -> None:
        stripped = line.strip()
        if self.until in {"-->", "?>"}:
            ended = self.until in line
        elif self.until == "---":
            ended = stripped in {"---", "..."}
        else:
            ended = stripped.startswith(self.until) and not stripped.strip(self.until[0])
        if ended:
            self.until, self.closed = "", True

    def _underlines(self, line: str) -> bool:
        """Say whether *line* makes the open paragraph a heading."""
        if self.closed or self.kind is not Kind.PROSE or not 0 < self.lines <= 3:
            return False
        return _SETEXT.match(line) is not None

    def _opened(self, at: int, line: str) -> Kind | None:
        """Return the kind of the block that *line* opens; None if it goes on with the last."""
        in_list = self.kind is Kind.ITEMS and not self.closed
        begins = self.blank and not line[0].isspace() if in_list else self.closed
        if line[0].isalpha():
            # Most lines: no mark begins with a letter.
            return Kind.PROSE if begins else None
        fence = _FENCE.match(line) and (in_list or not line.startswith(("    ", "\t")))
        if fence or (at == 0 and line == "---"):
            return Kind.ROWS
        if _ATX.match(line):
            return Kind.HEADING
        if _ITEM.match(line) and not _RULE.match(line):
            return None if in_list else Kind.ITEMS
        if not begins:
            return None
        rows = line.startswith(("    ", "\t", "|")) or _HTML.match(line)
        return Kind.ROWS if rows and not in_list else Kind.PROSE

    def _begin(self, at: int, line: str, kind: Kind) -> Block | None:
        # What comes before the first block belongs to it.
        ended = self.block(at) if self.lines else None
        self.start = at if ended else 0
        self.kind, self.level, self.title = kind, 0, ""
        self.lines, self.closed = 0, False
        heading = _ATX.match(line) if kind is Kind.HEADING else None
        if heading is not None:
            self.level, self.closed = len(heading[1]), True
            self.title = _plain(_CLOSING.sub("", line[heading.end() :].strip()))
        elif kind is Kind.ROWS:
            self.until = _closer(at, line)
        return ended


def _closer(at: int, line: str) -> str:
    """Return what will end the block that *line* opens; empty if a blank line does."""
    fence = _FENCE.match(line)
    if fence is not None:
        return fence[1]
    if at == 0 and line == "---":
        return "---"
    for opening, closing in (("<!--", "-->"), ("<?", "?>")):
        if line.lstrip().startswith(opening) and closing not in line:
            return closing
    return ""


def _plain(title: str) -> str:
    """Return a heading without the marks of links, emphasis and code."""
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", title)).split())

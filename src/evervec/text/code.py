"""Finds the blocks of source code, whatever the language: definitions by their words and indents.

A definition is a heading, so that it starts a section, is never parted from its first lines, and
is found by its own name and by the class it stands in. Its level follows its indent. What stands
directly above it (decorators, comments) belongs to it. A mistake costs a less good cut, never text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from evervec.text.blocks import Block, Kind

_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_LOOK = 400
"""How much of a line is looked at."""
_TITLE_MOST = 120
_TAB = 4
_DEEPEST = 3
"""Definitions inside definitions inside definitions are code like any other."""
_LEVEL = 3
"""Of the outermost definitions: small neighbours of this level may share a chunk."""

_BEFORE = (
    r"(?:(?:export|default|public|private|protected|internal|static|async|abstract|final|sealed|"
    r"partial|virtual|override|open|inline|extern|unsafe|const|readonly|declare|data|suspend|"
    r"pub(?:\([\w: ]+\))?)\s+)*"
)
_NAMED = re.compile(
    _BEFORE + r"(?:class|def|fn|func|fun|function\*?|interface|struct|enum|trait|impl|mod|module|"
    r"namespace|protocol|extension|macro_rules!|type(?=[^=]*[={]))\b\s*[\w$(<\[]"
)
"""class Queue: | pub fn put(…) | func (q *Queue) Put(…) | impl<T> Queue<T>"""
_OTHER = re.compile(
    r"(?:export\s+)?(?:const|let|var)\s+[\w$]+\s*=\s*(?:async\b\s*)?(?:\(|function\b)|"
    r"(?i:create\s+(?:or\s+replace\s+|unique\s+|temp(?:orary)?\s+)*"
    r"(?:table|view|materialized|index|function|procedure|trigger|type|schema))\b|"
    r"\[{1,2}[^\[\]\n]+\]{1,2}\s*(?:[#;].*)?$|"
    r"[\w-]+\s*\(\)\s*\{"
)
"""const put = (…) => { | create or replace view fresh as | [section] | put() {"""
_FUNCTION = re.compile(r"[A-Za-z_][\w:<>,.\[\]*&?~ ]*+\([^;={}]*+(\{?)$")
"""static int put(struct queue *q) { | public async Task<int> Put(int n) {"""
_KEY = re.compile(r"[\w.\"'-]+:(?:\s|$)")
"""A key of YAML, and of nothing else that starts at the margin."""
_NO_DEFINITION = re.compile(
    r"(?:return|if|else|elif|for|foreach|while|switch|case|catch|try|with|await|yield|throw|new|"
    r"delete|not|and|or|in|print|using|import|from|raise|assert|goto)\b"
)
_LEADS = re.compile(r"(?:@|#\[|#(?!!|\s*-{3})|//|/\*|\*|--\s|;)")
"""Decorators, attributes and comments: they belong to what follows directly."""
_CLOSES = re.compile(r"[)\]}{]|end\b|\*/|\"\"\"|'''")


def code_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of *text* in order; together they cover it."""
    scanner = _Scanner(text, _keyed(text))
    for found in _LINE.finditer(text):
        line = text[found.start() : min(found.end(), found.start() + _LOOK)].rstrip()
        yield from scanner.take(found.start(), found.end(), line)
    yield from scanner.rest(len(text))


@dataclass(slots=True)
class _Scanner:
    text: str
    keyed: bool
    start: int = 0
    """Of the open block."""
    lead: int | None = None
    """Where the decorators and comments directly above begin, if there are any."""
    blank: bool = True
    """Whether the line before was blank."""
    inside: list[int] = field(default_factory=list)
    """The indents of the definitions that the line stands in."""

    def take(self, at: int, end: int, line: str) -> Iterator[Block]:
        """Look at the next line; yield the blocks that it ends, and itself if it is a heading."""
        if not line:
            self.blank, self.lead = True, None
            return
        said = line.lstrip()
        indent = _indent(line, said)
        # A section of settings stands in no other.
        section = said[0] == "["
        least = 0 if section else -1
        outer = [each for each in self.inside if least <= each < indent]
        title = self._title(said, end, margin=said == line) if len(outer) < _DEEPEST else ""
        leads = _LEADS.match(said) is not None
        if title or (self.inside and not outer and not leads and not _CLOSES.match(said)):
            # Without a title it is back at the margin, where it stands in no definition.
            begin = at if self.lead is None else self.lead
            yield from self.rest(begin)
            yield Block(begin, end, Kind.HEADING, _LEVEL + len(outer), title)
            self.inside = [*outer, indent] if title else []
            if title and section:
                # What stands in a section of settings stands at the margin, as itself does.
                self.inside = [-1]
            self.start, self.lead = end, None
        elif not leads:
            if self.blank and not _CLOSES.match(said):
                yield from self.rest(at)
            self.lead = None
        elif self.lead is None:
            if self.blank:
                yield from self.rest(at)
            self.lead = at
        self.blank = False

    def rest(self, end: int) -> Iterator[Block]:
        if self.start < end:
            yield Block(self.start, end, Kind.ROWS)
            self.start = end

    def _title(self, said: str, end: int, *, margin: bool) -> str:
        braced = margin and self.text.startswith("{", end)
        return _title(said, braced=braced, keyed=margin and self.keyed)


def _title(said: str, *, braced: bool, keyed: bool) -> str:
    """Return what a definition's first line names; empty for any other line.

    *braced* says that the next line opens a block, *keyed* that a key is a definition.
    """
    if keyed and _KEY.match(said):
        return said.split(":", 1)[0].strip("\"'")
    if not _defines(said, braced=braced):
        return ""
    if said.startswith("["):
        return said[: said.rfind("]")].strip("[ ")
    return " ".join(said.rstrip("{:=>( ").split())[:_TITLE_MOST].rstrip()


def _defines(said: str, *, braced: bool) -> bool:
    if _NO_DEFINITION.match(said):
        return False
    if _NAMED.match(said):
        # A sentence may begin with such a word as well.
        return said[-1] in "{:(,)=;" or len(said.split()) <= 4
    if _OTHER.match(said):
        return True
    function = _FUNCTION.match(said)
    if function is None or not (function[1] or braced):
        return False
    return any(space in said[: said.index("(")].strip() for space in " *")


def _indent(line: str, said: str) -> int:
    width = len(line) - len(said)
    return len(line[:width].expandtabs(_TAB)) if "\t" in line else width


def _keyed(text: str) -> bool:
    """Say whether this looks like YAML: the lines at the margin are keys, comments or items."""
    margin = [line for line in text[:4000].splitlines() if line[:1].strip()][:40]
    keys = sum(_KEY.match(line) is not None for line in margin)
    others = sum(not line.startswith(("#", "-", "...")) for line in margin)
    return keys > 0 and keys == others

"""reStructuredText to markdown, as far as structure goes: headings, code, tables, definitions."""

import re
from collections.abc import Iterator, Sequence

from evervec.text.parse import markup
from evervec.text.parse.decode import decode
from evervec.text.parse.parsed import Parsed

_LINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$")
"""What stands under a title, or over and under it."""
_DIRECTIVE = re.compile(r"\.\. (?:\|[^|]+\| )?([\w:.+-]+)::(?:\s+(.*))?$")
_FOOTNOTE = re.compile(r"\.\. \[[^\]]+\]\s+")
_OPTION = re.compile(r":[\w -]+:(?:\s|$)")
_SIMPLE = re.compile(r"={2,}(?: +={2,})+$")
_GRID = re.compile(r"\+[-=+]{3,}\+$")
_ROLE = re.compile(r":[\w:.+-]{1,60}:`([^`<]*+)(?:<[^`>]*+>)?`")
_LINK = re.compile(r"(?<!`)`([^`<]++)(?:<[^`>]*+>)?`__?")
_CODE = re.compile(r"``([^`]+)``")
_CODES = frozenset(["code", "code-block", "sourcecode", "parsed-literal", "doctest", "testcode"])
_DROPPED = frozenset(
    [
        "contents",
        "currentmodule",
        "default-domain",
        "highlight",
        "image",
        "include",
        "index",
        "literalinclude",
        "raw",
        "role",
        "sectionauthor",
        "tabularcolumns",
        "toctree",
    ]
)
_DEFINES = frozenset(
    [
        "attribute",
        "class",
        "classmethod",
        "cmdoption",
        "confval",
        "data",
        "decorator",
        "describe",
        "envvar",
        "exception",
        "function",
        "macro",
        "method",
        "module",
        "opcode",
        "option",
        "property",
        "setting",
        "staticmethod",
        "type",
    ]
)
_DEEPEST = 12
"""Directives inside directives beyond this are left as they are written."""


def parse_rst(name: str, data: bytes) -> Parsed:
    reader = _Reader()
    reader.read(decode(name, data).expandtabs(8).split("\n"), 0)
    return Parsed(reader.text(), "markdown")


class _Reader:
    def __init__(self) -> None:
        self._written: list[str] = []
        self._styles: list[str] = []
        """The kinds of lines around titles, the outermost first."""
        self._level = 0

    def text(self) -> str:
        return re.sub(r"\n{3,}", "\n\n", "\n".join(self._written)).strip("\n")

    def read(self, lines: Sequence[str], depth: int) -> None:
        at = 0
        while at < len(lines):
            line = lines[at].rstrip()
            if taken := self._title(lines, at) or self._table(lines, at):
                at += taken
            elif line.startswith(".. ") or line == "..":
                body = _indented(lines, at + 1)
                self._explicit(line, _dedented(lines[at + 1 : body]), depth)
                at = body
            elif line.endswith("::"):
                body = _indented(lines, at + 1)
                said = line[:-2].rstrip()
                self._written.append(_inline(f"{said}:" if said else ""))
                self._block(markup.fenced("\n".join(_dedented(lines[at + 1 : body]))))
                at = body
            else:
                self._written.append(_inline(line))
                at += 1

    def _block(self, text: str) -> None:
        self._written += ["", text, ""]

    def _title(self, lines: Sequence[str], at: int) -> int:
        """Take the title at this place; return how many lines it has, 0 if there is none."""
        line, *after = (each.rstrip() for each in lines[at : at + 3])
        above = _LINE.match(line)
        if above and len(after) == 2 and after[1] == line and after[0].strip():
            self._heading(after[0], above[1] * 2)
            return 3
        below = _LINE.match(after[0]) if after else None
        if below and line and not line.startswith(" ") and not above:
            self._heading(line, below[1])
            return 2
        if above and not line.startswith(("..", "::", ">>>")) and (not after or not after[0]):
            return 1  # a line across the page
        return 0

    def _heading(self, title: str, style: str) -> None:
        if style not in self._styles:
            self._styles.append(style)
        self._level = self._styles.index(style) + 1
        self._block(markup.heading(_inline(title), self._level))

    def _table(self, lines: Sequence[str], at: int) -> int:
        grid = _GRID.match(lines[at].strip())
        if not grid and not _SIMPLE.match(lines[at].strip()):
            return 0
        end = at
        borders = 0
        while end < len(lines):
            line = lines[end].strip()
            if grid and not line.startswith(("+", "|")):
                break
            end += 1
            borders += _SIMPLE.match(line) is not None
            # The third line across ends a table with a header, and the second one without.
            if not grid and borders >= 2 and (end >= len(lines) or not lines[end].strip()):
                break
        rows = _grid(lines[at:end]) if grid else _simple(lines[at:end])
        for cells in rows:
            self._written.append(markup.row([_inline(cell) for cell in cells]))
        return end - at

    def _explicit(self, line: str, body: list[str], depth: int) -> None:
        directive = _DIRECTIVE.match(line)
        if directive is None:
            footnote = _FOOTNOTE.match(line)
            if footnote:  # all else is a comment, or a place to link to
                self._block(_inline(" ".join([line[footnote.end() :], *map(str.strip, body)])))
            return
        name, said = directive[1].rpartition(":")[2], directive[2] or ""
        while body and (_OPTION.match(body[0]) or not body[0].strip()):
            body.pop(0)
        if name in _CODES:
            self._block(markup.fenced("\n".join(body), said if said.isalnum() else ""))
        elif name in _DEFINES and said:
            self._block(markup.heading(said, self._level + 1))
            self._inner(body, depth)
        elif name not in _DROPPED:
            self._block(_inline(said))
            self._inner(body, depth)

    def _inner(self, body: list[str], depth: int) -> None:
        if depth < _DEEPEST:
            self.read(body, depth + 1)
        else:
            self._written += body
        self._written.append("")


def _inline(text: str) -> str:
    if "`" not in text:
        return markup.literal(text)
    text = _LINK.sub(_label, _ROLE.sub(_label, text))
    return markup.literal(_CODE.sub(r"`\1`", text))


def _label(found: re.Match[str]) -> str:
    return found[1].strip()


def _indented(lines: Sequence[str], at: int) -> int:
    """Return where the indented lines from *at* on end."""
    end = at
    while at < len(lines) and (lines[at].startswith(" ") or not lines[at].strip()):
        at += 1
        if lines[at - 1].strip():
            end = at
    return end


def _dedented(lines: Sequence[str]) -> list[str]:
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    least = min(indents, default=0)
    return [line[least:] for line in lines]


def _grid(lines: Sequence[str]) -> Iterator[list[str]]:
    cells: list[str] = []
    for line in map(str.strip, lines):
        if line.startswith("+"):
            if cells:
                yield cells
            cells = []
            continue
        parts = [part.strip() for part in line.strip("|").split("|")]
        # A cell of several lines.
        cells = [f"{a} {b}".strip() for a, b in zip(cells, parts, strict=False)] if cells else parts
    if cells:
        yield cells


def _simple(lines: Sequence[str]) -> Iterator[list[str]]:
    starts = [found.start() for found in re.finditer(r"=+", lines[0])]
    for line in lines:
        if line.strip() and not set(line.strip()) <= set("=- "):
            bounds = zip(starts, [*starts[1:], None], strict=True)
            yield [line[start:end].strip() for start, end in bounds]

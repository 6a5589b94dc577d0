"""Word documents: headings, paragraphs, lists, tables and footnotes, with the pages last printed."""

import re
from dataclasses import dataclass, field, replace

from evervec.text.parse import markup
from evervec.text.parse.growing import Growing
from evervec.text.parse.package import Attributes, Package, attribute
from evervec.text.parse.parsed import Parsed

_HEADING = re.compile(r"heading\s*(\d)$", re.IGNORECASE)
_INDENT_MOST = 8
_ITEM = -1
_OUTLINED = frozenset("012345678")


def parse_docx(name: str, data: bytes) -> Parsed:
    if not data:
        return Parsed("", "markdown")
    package = Package(name, data)
    main = package.main()
    parts = dict(package.related(main).values())
    styles, footnotes = parts.get("styles", ""), parts.get("footnotes", "")
    levels = _levels(package, styles) if styles in package else {}
    text = Growing(name)
    text.page()
    _Reader(package, main, levels, text).read()
    if footnotes in package:
        _Reader(package, footnotes, levels, text).read()
    parsed = text.parsed("markdown", package.properties())
    # Where pages begin stands in the file only if a program has laid it out.
    return parsed if len(parsed.pages) > 1 else replace(parsed, pages=())


def _levels(package: Package, part: str) -> dict[str, int]:
    """Return which styles are headings, and of which level; those of lists have `_ITEM`."""
    levels: dict[str, int] = {}
    based: dict[str, str] = {}
    style = [""]

    def start(tag: str, attributes: Attributes) -> None:
        if tag == "style":
            style[0] = attribute(attributes, "styleId")
        elif tag == "basedOn":
            based[style[0]] = attribute(attributes, "val")
        elif level := _level(tag, attribute(attributes, "val")):
            # A heading with a number is a heading all the same.
            levels[style[0]] = max(levels.get(style[0], level), level)

    package.read(part, start=start)
    for each in based:
        above, steps = each, 0
        while above not in levels and above in based and steps < 20:
            above, steps = based[above], steps + 1
        if above in levels:
            levels[each] = levels[above]
    return levels


def _level(tag: str, value: str) -> int:
    """Return what one property of a style makes of it; 0 for nothing."""
    if tag == "numPr":
        return _ITEM
    if tag == "name":
        found = _HEADING.match(value)
        return int(found[1]) if found else int(value.lower() == "title")
    return int(value) + 1 if tag == "outlineLvl" and value in _OUTLINED else 0


@dataclass(slots=True)
class _Paragraph:
    pieces: list[str] = field(default_factory=list)
    level: int = 0
    item: int = -1
    """How deep in a list it stands; -1 outside."""

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()


class _Reader:
    """Reads one part. What is inside a table is gathered until the table ends."""

    def __init__(self, package: Package, part: str, levels: dict[str, int], text: Growing) -> None:
        self._package = package
        self._part = part
        self._levels = levels
        self._text = text
        self._open: list[_Paragraph] = []
        """A text box in a paragraph has paragraphs of its own."""
        self._tables = 0
        self._rows: list[list[str]] = []
        self._skipped = 0
        self._in_text = False

    def read(self) -> None:
        self._package.read(self._part, start=self._start, end=self._end, said=self._said)

    def _said(self, text: str) -> None:
        if self._in_text and self._open and not self._skipped:
            self._open[-1].pieces.append(text)

    def _start(self, tag: str, attributes: Attributes) -> None:
        if tag == "Fallback" or self._skipped:
            # What an older program shows instead: the same text once more.
            self._skipped += 1
        elif tag == "t":
            self._in_text = True
        elif tag == "p":
            self._open.append(_Paragraph())
        elif tag == "tbl":
            self._tables += 1
        elif tag == "tr" and self._tables == 1:
            self._rows.append([])
        elif tag == "tc" and self._tables == 1 and self._rows:
            self._rows[-1].append("")
        elif self._open:
            self._within(self._open[-1], tag, attributes)

    def _within(self, paragraph: _Paragraph, tag: str, attributes: Attributes) -> None:
        value = attribute(attributes, "val")
        if tag == "pStyle":
            level = self._levels.get(value, 0)
            if level == _ITEM:
                paragraph.item = max(paragraph.item, 0)
            else:
                paragraph.level = paragraph.level or level
        elif tag == "outlineLvl" and value in _OUTLINED:
            paragraph.level = int(value) + 1
        elif tag == "numPr":
            paragraph.item = max(paragraph.item, 0)
        elif tag == "ilvl" and value.isdecimal():
            paragraph.item = min(int(value), _INDENT_MOST)
        elif tag == "tab":
            paragraph.pieces.append("\t")
        elif tag in {"br", "cr"}:
            paragraph.pieces.append("\n")
        elif tag == "noBreakHyphen":
            paragraph.pieces.append("-")
        elif tag == "lastRenderedPageBreak":
            self._text.page()

    def _end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag == "t":
            self._in_text = False
        elif tag == "p" and self._open:
            self._close(self._open.pop())
        elif tag == "tbl" and self._tables:
            self._tables -= 1
            if not self._tables:
                self._table()

    def _close(self, paragraph: _Paragraph) -> None:
        text = paragraph.text
        if not text:
            return
        if self._tables and self._rows and self._rows[-1]:
            self._rows[-1][-1] = f"{self._rows[-1][-1]} {text}".strip()
        elif paragraph.level:
            self._text.add(markup.heading(text, paragraph.level))
        elif paragraph.item >= 0:
            self._text.add(f"{'  ' * paragraph.item}- {text}", near="item")
        else:
            self._text.add(markup.literal(text))

    def _table(self) -> None:
        for number, cells in enumerate(cells for cells in self._rows if any(cells)):
            self._text.add(markup.row(cells), near="row")
            if number == 0:
                self._text.add("|" + " --- |" * len(cells), near="row")
        self._rows = []

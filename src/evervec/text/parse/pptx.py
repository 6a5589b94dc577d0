"""Presentations: a heading for each slide, its texts and tables, and what the speaker noted."""

from evervec.text.parse import markup
from evervec.text.parse.growing import Growing
from evervec.text.parse.package import Attributes, Package, attribute
from evervec.text.parse.parsed import Parsed

_TITLES = frozenset({"title", "ctrTitle"})
_FURNITURE = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})


def parse_pptx(name: str, data: bytes) -> Parsed:
    if not data:
        return Parsed("", "markdown")
    package = Package(name, data)
    main = package.main()
    text = Growing(name)
    for part in _slides(package, main):
        text.page()
        slide = _Shapes(package, part)
        title, *blocks = slide.blocks or [""]
        text.add(markup.heading(title, 1) if title else "")
        for block in blocks:
            text.add(block, near="row" if block.startswith("| ") else "")
        for kind, notes in package.related(part).values():
            if kind == "notesSlide" and notes in package:
                for block in _Shapes(package, notes).blocks:
                    text.add(block)
    return text.parsed("markdown", package.properties())


def _slides(package: Package, main: str) -> list[str]:
    """Return the slides in the order in which they are shown."""
    related = package.related(main)
    shown: list[str] = []

    def start(tag: str, attributes: Attributes) -> None:
        if tag == "sldId":
            reference = next((v for key, v in attributes.items() if key.endswith("}id")), "")
            kind, part = related.get(reference, ("", ""))
            if kind == "slide" and part in package:
                shown.append(part)

    package.read(main, start=start)
    return shown


class _Shapes:
    """The texts of a slide, its title first; without a title what is said first is the title."""

    def __init__(self, package: Package, part: str) -> None:
        self._title = ""
        self._blocks: list[str] = []
        self._holder = ""
        """What the present shape is a place for."""
        self._pieces: list[str] = []
        self._row: list[str] | None = None
        self._in_text = False
        self._skipped = 0
        package.read(part, start=self._start, end=self._end, said=self._said)
        self.blocks = [self._title, *self._blocks] if self._title else self._blocks

    def _said(self, text: str) -> None:
        if self._in_text and not self._skipped:
            self._pieces.append(text)

    def _start(self, tag: str, attributes: Attributes) -> None:
        if tag == "Fallback" or self._skipped:
            self._skipped += 1
        elif tag == "t":
            self._in_text = True
        elif tag == "sp":
            self._holder = ""
        elif tag == "ph":
            self._holder = attribute(attributes, "type")
        elif tag == "tr":
            self._row = []
        elif tag == "tc" and self._row is not None:
            self._row.append("")
        elif tag in {"br", "tab"}:
            self._pieces.append(" ")

    def _end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag == "t":
            self._in_text = False
        elif tag == "p":
            text = " ".join("".join(self._pieces).split())
            self._pieces = []
            if text and self._holder not in _FURNITURE:
                self._put(text)
        elif tag == "tr" and self._row is not None:
            if any(self._row):
                self._blocks.append(markup.row(self._row))
            self._row = None

    def _put(self, text: str) -> None:
        if self._row is not None:
            if self._row:
                self._row[-1] = f"{self._row[-1]} {text}".strip()
        elif self._holder in _TITLES:
            self._title = f"{self._title} {text}".strip()
        else:
            self._blocks.append(markup.literal(text))

"""Workbooks: a heading for each sheet, its rows under their columns' names."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from evervec.text.parse import markup
from evervec.text.parse.growing import Growing
from evervec.text.parse.package import Attributes, Package, attribute
from evervec.text.parse.parsed import Parsed

_COLUMNS_MAX = 16_384
_DATES = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
"""Formats of dates and times that every workbook knows."""
_IN_QUOTES = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
_DAYS_MOST = 2_958_466
"""The end of the year 9999."""


def parse_xlsx(name: str, data: bytes) -> Parsed:
    if not data:
        return Parsed("", "markdown")
    package = Package(name, data)
    main = package.main()
    book = _Book(package, main)
    text = Growing(name)
    for title, part in book.sheets:
        text.page()
        text.add(markup.heading(title, 1))
        for line in markup.table(book.rows(part), level=2):
            text.add(line, near="row" if line.startswith("|") else "")
    return text.parsed("markdown", package.properties())


class _Book:
    def __init__(self, package: Package, main: str) -> None:
        self._package = package
        self._related = package.related(main)
        self.sheets: list[tuple[str, str]] = []
        self._first = datetime(1899, 12, 30, tzinfo=UTC)
        package.read(main, start=self._start)
        parts = dict(self._related.values())
        strings, styles = parts.get("sharedStrings", ""), parts.get("styles", "")
        self._strings = _strings(package, strings) if strings in package else []
        self._dates = _date_styles(package, styles) if styles in package else frozenset[int]()

    def _start(self, tag: str, attributes: Attributes) -> None:
        if tag == "sheet":
            reference = next((v for key, v in attributes.items() if key.endswith("}id")), "")
            kind, part = self._related.get(reference, ("", ""))
            if kind == "worksheet" and part in self._package:
                self.sheets.append((attribute(attributes, "name"), part))
        elif tag == "workbookPr" and attribute(attributes, "date1904") in {"1", "true"}:
            self._first = datetime(1904, 1, 1, tzinfo=UTC)

    def rows(self, part: str) -> Iterator[Sequence[str]]:
        """Yield the rows of a sheet as they are read: it may be larger than memory."""
        sheet = _Sheet(self)
        reading = self._package.reading(part, start=sheet.start, end=sheet.end, said=sheet.said)
        for _ in reading:
            yield from sheet.done
            sheet.done.clear()

    def shown(self, kind: str, value: str, style: int) -> str:
        """Return a cell as a reader sees it, or nearly so."""
        if kind == "s":
            at = int(value) if value.isdecimal() else len(self._strings)
            return self._strings[at] if at < len(self._strings) else ""
        if kind == "b":
            return "true" if value == "1" else "false"
        if kind == "e":
            return ""
        if kind in {"str", "inlineStr", "d"} or not value:
            return value
        return self._number(value, style)

    def _number(self, value: str, style: int) -> str:
        try:
            number = float(value)
        except ValueError:
            return value
        if style in self._dates and 0 <= number < _DAYS_MOST:
            moment = self._first + timedelta(seconds=round(number * 86_400))
            if number < 1:
                return f"{moment:%H:%M:%S}"
            return f"{moment:%Y-%m-%d}" if number == int(number) else f"{moment:%Y-%m-%d %H:%M:%S}"
        # Programs store 0.1 + 0.2 as it is and show it rounded.
        return value if len(value) < 12 else f"{number:.12g}"


class _Sheet:
    """Takes the events of one sheet; rows that are whole are in `done`."""

    def __init__(self, book: _Book) -> None:
        self._book = book
        self.done: list[Sequence[str]] = []
        self._row: list[str] = []
        self._kind = ""
        self._style = 0
        self._column = 0
        self._value = ""
        self._in_value = False

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "c":
            self._kind = attributes.get("t", "n")
            style = attributes.get("s", "")
            self._style = int(style) if style.isdecimal() else 0
            self._column = _column(attributes.get("r", ""), len(self._row))
            self._value = ""
        elif tag in {"v", "t"}:
            self._in_value = True
        elif tag == "row":
            self._row = []

    def said(self, text: str) -> None:
        if self._in_value:
            self._value += text

    def end(self, tag: str) -> None:
        if tag in {"v", "t"}:
            self._in_value = False
        elif tag == "c":
            value = self._book.shown(self._kind, self._value, self._style)
            if value and len(self._row) <= self._column < _COLUMNS_MAX:
                self._row.extend([""] * (self._column - len(self._row)))
                self._row.append(value)
        elif tag == "row" and self._row:
            self.done.append(self._row)


def _column(reference: str, following: int) -> int:
    """Return the place of a cell `BC7` in its row; *following* if it names none."""
    number = 0
    for letter in reference[:3]:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number - 1 if number else following


def _strings(package: Package, part: str) -> list[str]:
    found: list[str] = []
    pieces: list[str] = []
    state = {"t": False, "rPh": False}

    def start(tag: str, _attributes: Attributes) -> None:
        if tag == "si":
            pieces.clear()
        elif tag in state:
            state[tag] = True

    def said(text: str) -> None:
        # How a word is spoken stands beside it in some languages.
        if state["t"] and not state["rPh"]:
            pieces.append(text)

    def end(tag: str) -> None:
        if tag == "si":
            found.append("".join(pieces))
        elif tag in state:
            state[tag] = False

    package.read(part, start=start, end=end, said=said)
    return found


def _date_styles(package: Package, part: str) -> frozenset[int]:
    """Return the numbers of the styles that show a number as a date."""
    own: set[str] = set()
    formats: list[str] = []
    inside = [False]

    def start(tag: str, attributes: Attributes) -> None:
        if tag == "numFmt":
            code = _IN_QUOTES.sub("", attributes.get("formatCode", "").lower())
            if re.search(r"[ydhs]|mm", code):
                own.add(attributes.get("numFmtId", ""))
        elif tag == "cellXfs":
            inside[0] = True
        elif tag == "xf" and inside[0]:
            formats.append(attributes.get("numFmtId", ""))

    def end(tag: str) -> None:
        if tag == "cellXfs":
            inside[0] = False

    package.read(part, start=start, end=end)
    return frozenset(
        number
        for number, each in enumerate(formats)
        if each in own or (each.isdecimal() and int(each) in _DATES)
    )

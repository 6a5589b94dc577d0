"""PDF documents, by PDFium: the text of each page, with headings where the outline names them."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evervec.errors import Permanent
from evervec.text.parse import markup
from evervec.text.parse.growing import Growing
from evervec.text.parse.parsed import Parsed

if TYPE_CHECKING:
    import pypdfium2 as pdfium

_HYPHEN = re.compile("[\x02\ufffe\xad]\r?\n?")
"""PDFium's mark for a word that was divided at the end of a line."""
_UNSHOWN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NUMBER = re.compile(
    r"^(?:(?:chapter|section|part|appendix)\s+)?[\dA-Z]{1,3}(?:\.\d+)*[.:]?\s", re.IGNORECASE
)
_PASSWORD = 4
_OUTLINE_MOST = 5000
_TITLE_LINES = 3
"""Over so many lines a title may run."""

Outline = Mapping[int, Sequence[tuple[int, str]]]


def parse_pdf(name: str, data: bytes) -> Parsed:
    if not data:
        return Parsed("", "plain")
    try:
        import pypdfium2 as pdfium
    except ImportError as error:
        raise Permanent(
            f"{name!r} is a PDF, and pypdfium2 is not installed to read it",
            hint="run: pip install pypdfium2, then `evervec failed retry --all`",
        ) from error
    try:
        with pdfium.PdfDocument(data) as document:
            return _parsed(name, document)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD:
            raise Permanent(
                f"{name!r} is protected by a password",
                hint="save it without one, or leave it out in .evervecignore",
            ) from error
        raise Permanent(
            f"{name!r} is damaged: {error}",
            hint="open it in a viewer and print it to a new PDF; it is tried again when it changes",
        ) from error


def _parsed(name: str, document: "pdfium.PdfDocument") -> Parsed:
    outline = _outline(document)
    text = Growing(name)
    for number in range(len(document)):
        text.page()
        page = document[number]
        spoken = page.get_textpage()
        text.add(_page(spoken.get_text_bounded(), outline.get(number, ()), marked=bool(outline)))
        # A document of thousands of pages would hold them all.
        spoken.close()
        page.close()
    if text.empty:
        raise Permanent(
            f"{name!r} holds no text: its {len(document):,} pages are pictures, as of a scan",
            hint="let a program read the letters first (ocrmypdf in.pdf out.pdf, say)",
        )
    told = {
        "title": document.get_metadata_value("Title"),
        "author": document.get_metadata_value("Author"),
    }
    metadata = {key: shown for key, value in told.items() if (shown := " ".join(value.split()))}
    return text.parsed("markdown" if outline else "plain", metadata)


def _outline(document: "pdfium.PdfDocument") -> Outline:
    """Return the titles of each page, with their levels."""
    titles: dict[int, list[tuple[int, str]]] = {}
    for number, mark in enumerate(document.get_toc(max_depth=6)):
        if number >= _OUTLINE_MOST:
            break
        place = mark.get_dest()
        page = place.get_index() if place is not None else None
        title = " ".join(mark.get_title().split())
        if page is not None and title:
            titles.setdefault(page, []).append((mark.level + 1, title))
    return titles


def _page(text: str, titles: Sequence[tuple[int, str]], *, marked: bool) -> str:
    text = _UNSHOWN.sub("", _HYPHEN.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
    if not marked:
        return text.strip()
    lines = markup.literal(text).strip().split("\n")
    at = 0
    for level, title in titles:
        found = _found(lines, at, _letters(title))
        if found is not None:
            start, end = found
            lines[start:end] = ["", markup.heading(" ".join(lines[start:end]), level), ""]
            at = start + 3
    return "\n".join(lines).strip("\n")


def _found(lines: Sequence[str], at: int, letters: str) -> tuple[int, int] | None:
    """Return from where to where *lines* are nothing but this title."""
    for start in range(at, len(lines)):
        # In an outline titles often lack the numbers that they have on the page.
        for first in (_letters(lines[start]), _letters(_NUMBER.sub("", lines[start]))):
            told, end = first, start + 1
            while told != letters and letters.startswith(told):
                if end == min(start + _TITLE_LINES, len(lines)):
                    break
                told += _letters(lines[end])
                end += 1
            if told == letters and letters:
                return start, end
    return None


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()

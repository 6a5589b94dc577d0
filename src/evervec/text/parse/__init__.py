"""Files to text. One entry in `PARSERS` is all that a format needs."""

from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import MappingProxyType

from evervec.errors import Permanent
from evervec.text.parse.decode import decode
from evervec.text.parse.parsed import Parsed

__all__ = ["PARSERS", "Parsed", "parse"]


def parse(name: str, data: bytes) -> Parsed:
    """Return the text of the file *name*; Permanent if it holds none that we can read.

    Pure: no I/O, and nothing but Parsed or Permanent comes of any bytes.
    """
    suffix = PurePath(name).suffix.lower()
    parser = PARSERS.get(suffix)
    if parser is not None:
        return parser(name, data)
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise Permanent(
                f"{name!r} is {what}, and there is no parser for {suffix or 'such'!r} files",
                hint="leave it out of the collection, or convert it to markdown, html or text",
            )
    return _plain(name, data)


def _plain(name: str, data: bytes) -> Parsed:
    return Parsed(decode(name, data), "plain")


def _markdown(name: str, data: bytes) -> Parsed:
    return Parsed(decode(name, data), "markdown")


def _html(name: str, data: bytes) -> Parsed:
    # The html parser is a shared library; those who have no html need not load it.
    from evervec.text.parse.html import html_to_markdown

    text, metadata = html_to_markdown(decode(name, data, html=True))
    return Parsed(text, "markdown", metadata)


PARSERS: Mapping[str, Callable[[str, bytes], Parsed]] = MappingProxyType(
    {
        ".md": _markdown,
        ".markdown": _markdown,
        ".mdx": _markdown,
        ".txt": _plain,
        ".text": _plain,
        ".html": _html,
        ".htm": _html,
        ".xhtml": _html,
    }
)
"""By suffix. A file of another suffix is read as plain text if it is text."""

_MAGIC = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a zip archive or an office document",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old office document",
    b"{\\rtf": "a rich text document",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"\x1f\x8b": "a compressed file",
    b"SQLite format 3\0": "a SQLite database",
    b"\x7fELF": "a program",
}

"""Files to text. One entry in `PARSERS` is all that a format needs."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import PurePath
from types import MappingProxyType
from typing import TypeAlias

from evervec.errors import Permanent
from evervec.text.parse.decode import decode
from evervec.text.parse.parsed import Parsed

__all__ = ["IN_PLACE", "PARSERS", "Parsed", "Parser", "parse", "suffix_of"]

Parser: TypeAlias = Callable[[str, bytes], Parsed]


def parse(name: str, data: bytes, *, also: Mapping[str, Parser] = MappingProxyType({})) -> Parsed:
    """Return the text of the file *name*; Permanent if it holds none that we can read.

    Pure: no I/O, and nothing but Parsed or Permanent comes of any bytes. Of files that strangers
    wrote, `evervec.parsing` reads those with a structure in a process of its own. *also* holds
    parsers that go before ours.
    """
    suffix = suffix_of(name)
    parser = also.get(suffix) or PARSERS.get(suffix)
    if parser is not None:
        return parser(name, data)
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise Permanent(
                f"{name!r} is {what}, and there is no parser for {suffix or 'such'!r} files",
                hint="leave it out of the collection, or convert it to markdown, html or text",
            )
    return _plain(name, data)


def suffix_of(name: str) -> str:
    return PurePath(name).suffix.lower()


def _plain(name: str, data: bytes) -> Parsed:
    return Parsed(decode(name, data), "plain")


def _markdown(name: str, data: bytes) -> Parsed:
    return Parsed(decode(name, data), "markdown")


def _code(name: str, data: bytes) -> Parsed:
    return Parsed(decode(name, data), "code")


def _html(name: str, data: bytes) -> Parsed:
    # The html parser is a shared library; those who have no html need not load it.
    from evervec.text.parse.html import html_to_markdown

    text, metadata = html_to_markdown(decode(name, data, html=True))
    return Parsed(text, "markdown", metadata)


def _later(module: str, function: str) -> Parser:
    """Name a parser that is imported when the first file needs it."""

    def parser(name: str, data: bytes) -> Parsed:
        loaded = import_module(f"evervec.text.parse.{module}")
        parsed: Parsed = getattr(loaded, function)(name, data)
        return parsed

    return parser


_rst = _later("rst", "parse_rst")
_CODE = frozenset(
    f".{ending}"
    for ending in re.findall(
        r"\w+",
        """
        bash c cc cfg clj conf cpp cs css cxx dart ex exs fs go gradle graphql h hpp hs hxx ini java
        jl js jsx kt kts less lua m mjs ml nix php pl pm proto ps1 py pyi r rb rs sass scala scss sh
        sql svelte swift tf toml ts tsx vue yaml yml zig zsh
        """,
    )
)

PARSERS: Mapping[str, Parser] = MappingProxyType(
    {
        ".md": _markdown,
        ".markdown": _markdown,
        ".mdx": _markdown,
        ".txt": _plain,
        ".text": _plain,
        ".rst": _rst,
        ".rest": _rst,
        ".html": _html,
        ".htm": _html,
        ".xhtml": _html,
        ".csv": _later("tables", "parse_csv"),
        ".tsv": _later("tables", "parse_csv"),
        ".json": _later("records", "parse_json"),
        ".jsonl": _later("records", "parse_json_lines"),
        ".ndjson": _later("records", "parse_json_lines"),
        ".ipynb": _later("notebook", "parse_notebook"),
        ".eml": _later("mail", "parse_mail"),
        ".pdf": _later("pdf", "parse_pdf"),
        ".docx": _later("docx", "parse_docx"),
        ".docm": _later("docx", "parse_docx"),
        ".pptx": _later("pptx", "parse_pptx"),
        ".pptm": _later("pptx", "parse_pptx"),
        ".xlsx": _later("xlsx", "parse_xlsx"),
        ".xlsm": _later("xlsx", "parse_xlsx"),
    }
    | dict.fromkeys(sorted(_CODE), _code)
)
"""By suffix. A file of another suffix is read as plain text if it is text."""

IN_PLACE = frozenset([".md", ".markdown", ".mdx", ".txt", ".text"]) | _CODE
"""What needs no process of its own: nothing is taken apart, the text is only decoded."""

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

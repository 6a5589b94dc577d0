"""HTML to text that reads like markdown, so that headings, lists, tables and code stay visible."""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from evervec.text.parse.markup import fenced

_DROPPED = frozenset(
    [
        "script",
        "style",
        "nav",
        "template",
        "noscript",
        "iframe",
        "object",
        "embed",
        "svg",
        "canvas",
        "head",
        "form",
        "button",
        "select",
        "input",
        "textarea",
        "dialog",
        "audio",
        "video",
        "map",
    ]
)
_BLOCKS = frozenset(
    [
        "p",
        "div",
        "section",
        "article",
        "main",
        "header",
        "footer",
        "aside",
        "figure",
        "figcaption",
        "address",
        "ul",
        "ol",
        "dl",
        "dt",
        "dd",
        "table",
        "thead",
        "tbody",
        "tfoot",
        "caption",
        "blockquote",
        "details",
        "summary",
        "hr",
        "fieldset",
        "body",
        "center",
    ]
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\n\f\r]+")
_LINES = re.compile(r"(?:[ \t]*\n){2,}")
_DEPTH_MOST = 12
"""Deeper lists are indented no further."""


def html_to_markdown(html: str) -> tuple[str, dict[str, str]]:
    """Return the text of *html* and its title, if it has one.

    Walks the tree without recursion: how deeply a page is nested does not matter.
    """
    tree = LexborHTMLParser(html)
    metadata = {}
    title = tree.css_first("title")
    if title is not None and (name := " ".join(title.text(deep=True).split())):
        metadata["title"] = name
    writer = _Writer()
    if tree.body is not None:
        for node, entering in _walk(tree.body):
            if entering:
                writer.enter(node)
            else:
                writer.leave(node.tag or "")
    return writer.text(), metadata


def _walk(root: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
    """Yield every node that counts twice: before and after what is in it."""
    waiting: list[tuple[LexborNode, bool]] = [(root, True)]
    while waiting:
        node, entering = waiting.pop()
        yield node, entering
        if not entering:
            continue
        waiting.append((node, False))
        children = [child for child in node.iter(include_text=True) if child.tag not in _DROPPED]
        waiting.extend((child, True) for child in reversed(children))


class _Writer:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._code: list[str] | None = None
        """The text of the code block being read."""
        self._lists: list[int | None] = []
        """The next number of each open list; None if it has none."""
        self._cells = 0
        self._rows = 0
        self._in_cell = 0
        self._in_heading = False

    def text(self) -> str:
        return _LINES.sub("\n\n", "".join(self._pieces)).strip()

    def enter(self, node: LexborNode) -> None:
        tag = node.tag or ""
        if tag == "-text":
            self._write(node.text_content or "")
        elif self._code is not None:
            if tag == "br":
                self._code.append("\n")
        elif self._in_cell or self._in_heading:
            # One line, whatever is in it.
            self._in_cell += tag in {"td", "th"}
            if tag in _BLOCKS or tag in {"br", "li", "pre"}:
                self._space()
        elif tag in _HEADINGS:
            self._in_heading = True
            self._pieces.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "pre":
            self._code = []
        elif tag == "br":
            self._pieces.append("\n")
        else:
            self._enter_structure(tag)

    def _enter_structure(self, tag: str) -> None:
        if tag in {"ul", "ol"}:
            self._break(1 if self._lists else 2)
            self._lists.append(1 if tag == "ol" else None)
        elif tag == "li":
            self._break(1)
            indent = "  " * min(max(len(self._lists) - 1, 0), _DEPTH_MOST)
            self._pieces.append(indent + self._bullet())
        elif tag == "tr":
            self._cells = 0
            self._pieces.append("\n|")
        elif tag in {"td", "th"}:
            self._in_cell = 1
            self._cells += 1
            self._pieces.append(" ")
        elif tag in _BLOCKS:
            if tag == "table":
                self._rows = 0
            # The paragraph of a list item belongs on its bullet's line.
            if not (self._lists and self._pieces[-1].endswith((". ", "- "))):
                self._break(1 if self._lists else 2)

    def leave(self, tag: str) -> None:
        if self._code is not None:
            if tag == "pre":
                self._fence("".join(self._code))
                self._code = None
        elif self._in_cell:
            if tag in {"td", "th"}:
                self._in_cell -= 1
                self._space()
                self._pieces.append("" if self._in_cell else "|")
            elif tag in _BLOCKS:
                self._space()
        elif self._in_heading:
            if tag in _HEADINGS:
                self._in_heading = False
                self._pieces.append("\n\n")
        else:
            self._leave_structure(tag)

    def _leave_structure(self, tag: str) -> None:
        if tag in {"ul", "ol"} and self._lists:
            self._lists.pop()
            self._break(1 if self._lists else 2)
        elif tag == "tr":
            if not self._rows:
                self._pieces.append("\n|" + " --- |" * max(self._cells, 1))
            self._rows += 1
        elif tag in _BLOCKS:
            self._break(1 if self._lists else 2)

    def _break(self, lines: int) -> None:
        if not self._pieces or not self._pieces[-1].endswith("\n" * lines):
            self._pieces.append("\n" * lines)

    def _space(self) -> None:
        if not self._pieces or not self._pieces[-1].endswith((" ", "\n")):
            self._pieces.append(" ")

    def _bullet(self) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "

    def _write(self, text: str) -> None:
        if self._code is not None:
            self._code.append(text)
            return
        text = _SPACE.sub(" ", text)
        if self._in_cell:
            text = text.replace("|", "\\|")
        if not self._pieces or self._pieces[-1].endswith(("\n", " ")):
            text = text.lstrip(" ")
        if text:
            self._pieces.append(text)

    def _fence(self, code: str) -> None:
        self._pieces.append(f"\n\n{fence}\n\n" if (fence := fenced(code)) else "")

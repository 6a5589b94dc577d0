"""A test set for search, made from Python's documentation and its own library: questions, and the
passage that answers each.

The documentation is Debian's package `python3.11-doc` (PSF licence): installed, or fetched with
`apt-get download`, or any folder of its HTML. The pages of the tutorial, the FAQ, the language
reference, the glossary, and some of the library's (drawn with a fixed seed) become Markdown through
this project's own parser. Questions are of five kinds:

- *heading*: a section's heading of two words or more; the section's own text answers it. The headings
  that are asked for stand empty in the text that is searched.
- *faq*: the same for the questions of the FAQ.
- *link*: a sentence of 5 to 40 words with a link to a section of another page; that section's own text
  answers it. The sentence's page is left out of the answers.
- *term*: a term of the glossary; its definition answers it.
- *docstring*: the first sentence of a docstring in the interpreter's own library; the manual's entry of
  that function, written by somebody else at another time, answers it. Those that stand in the entry
  word for word are left out.
"""

import ast
import posixpath
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from benches.reading import kept
from selectolax.lexbor import LexborHTMLParser, LexborNode

from evervec.text.parse.html import html_to_markdown

PACKAGE = "python3.11-doc"
INSIDE = Path("usr/share/doc/python3.11/html")
WHOLE = ("tutorial", "faq", "reference")
SEED = 7
ANSWER_LEAST = 80
"""Characters of a section that can answer."""
KINDS = ("heading", "faq", "link", "term", "docstring")

T = TypeVar("T")

_BEGIN, _END, _CLOSE = "\ue000", "\ue001", "\ue002"
_MARK = re.compile(f"([{_BEGIN}{_END}])(\\d+){_CLOSE}")
_WORD = re.compile(r"[A-Za-z]{2,}")
_NUMBER = re.compile(r"^[\d.]+\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


@dataclass(frozen=True, slots=True)
class Question:
    kind: str
    text: str
    page: str
    start: int
    end: int
    source: str | None = None
    """The page that the question was taken from, which is no answer to it."""


@dataclass(frozen=True, slots=True)
class TestSet:
    pages: Mapping[str, str]
    """Markdown by the page's path."""
    questions: Sequence[Question]


class _Spot(NamedTuple):
    """A heading, or a definition's head, and until where the text under it goes."""

    title: str
    heading: bool
    begin: int
    end: int
    until: int


class _Page(NamedTuple):
    text: str
    spots: dict[str, _Spot]
    links: list[tuple[str, str]]
    """The sentence around each, and where it leads: page#name."""


def test_set(folder: Path | None, *, library: int, each: int) -> TestSet:
    """Make it of *library* pages of the library and at most *each* questions of a kind."""
    root = folder or documentation()
    names = sorted(
        str(file.relative_to(root)) for top in WHOLE for file in root.glob(f"{top}/*.html")
    )
    of_library = sorted(str(file.relative_to(root)) for file in root.glob("library/*.html"))
    chance = random.Random(SEED)
    names += chance.sample(of_library, min(library, len(of_library)))
    names += ["glossary.html"] * (root / "glossary.html").exists()
    pages = {name: _page((root / name).read_text("utf-8"), name) for name in names}
    asked = _asked_headings(pages, chance, each)
    blanked = {name: _blanked(page, asked.get(name, set())) for name, page in pages.items()}
    found = [
        question
        for make in (
            _headings(blanked, asked),
            _links(blanked),
            _terms(blanked),
            _docstrings(blanked),
        )
        for question in make
    ]
    kept_few = [
        question
        for kind in KINDS
        for question in _some([one for one in found if one.kind == kind], each, chance)
    ]
    return TestSet({name: page.text for name, page in blanked.items()}, kept_few)


def documentation() -> Path:
    """Return the folder of Python's documentation in HTML, fetched if it is not installed."""
    installed = Path("/") / INSIDE
    if installed.is_dir():
        return installed
    target = kept() / PACKAGE
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=kept()) as scratch:
            fetch = ["apt-get", "download", PACKAGE]
            subprocess.run(fetch, cwd=scratch, check=True, stdout=sys.stderr)
            (archive,) = Path(scratch).glob("*.deb")
            whole = Path(scratch) / "all"
            subprocess.run(["dpkg-deb", "-x", archive, whole], check=True)
            whole.rename(target)
    return target / INSIDE


def _page(html: str, name: str) -> _Page:
    """Read one page. What will be looked for is marked before the parser sees it, and found after."""
    body = LexborHTMLParser(html).css_first("div.body")
    if body is None:
        return _Page("", {}, [])
    for node in body.css("a.headerlink, div.toctree-wrapper, div.versionchanged > p > span"):
        node.decompose()
    links = [
        (_sentence(node), _resolved(name, node.attributes.get("href") or ""))
        for node in body.css("p a.reference.internal")
    ]
    marked: list[tuple[list[str], bool]] = []
    for node in body.css("section[id] > h1, section[id] > h2, section[id] > h3, section[id] > h4"):
        _surround(node, len(marked))
        marked.append((_names(node), True))
    for node in body.css("dt[id]"):
        _surround(node, len(marked))
        marked.append(([node.attributes["id"] or ""], False))
    text, _ = html_to_markdown(f"<body>{body.html}</body>")
    return _Page(*_found(text, marked), links)


def _sentence(link: LexborNode) -> str:
    """Return the sentence that a link stands in."""
    around: LexborNode | None = link
    while around is not None and around.tag != "p":
        around = around.parent
    words = " ".join(link.text().split())
    text = " ".join(around.text().split()) if around is not None else words
    return next((part for part in _SENTENCE_END.split(text) if words in part), words)


def _names(heading: LexborNode) -> list[str]:
    """Return what links call the section of *heading*; a page's first is also called nothing."""
    section = heading.parent
    if section is None:
        return []
    spans = [node for node in section.iter() if node.tag == "span"]
    names = [node.attributes.get("id") or "" for node in (section, *spans)]
    return [*names, ""] if heading.tag == "h1" else [name for name in names if name]


def _surround(node: LexborNode, number: int) -> None:
    first = node.child
    if first is not None:
        first.insert_before(f"{_BEGIN}{number}{_CLOSE}")
        last = node.last_child or first
        last.insert_after(f"{_END}{number}{_CLOSE}")


def _found(text: str, marked: Sequence[tuple[list[str], bool]]) -> tuple[str, dict[str, _Spot]]:
    """Take the marks out of *text*, and say what they marked."""
    pieces, at, size = [], 0, 0
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for mark in _MARK.finditer(text):
        pieces.append(text[at : mark.start()])
        size += len(pieces[-1])
        (begins if mark[1] == _BEGIN else ends)[int(mark[2])] = size
        at = mark.end()
    plain = "".join(pieces) + text[at:]
    heads = sorted((begins[number], ends[number], number) for number in begins.keys() & ends.keys())
    spots = {}
    for place, (begin, end, number) in enumerate(heads):
        names, heading = marked[number]
        last, later = end, place + 1
        # Definitions right after one another share the answer below the last of them.
        while not heading and later < len(heads) and not plain[last : heads[later][0]].strip():
            last = heads[later][1]
            later += 1
        until = heads[later][0] if later < len(heads) else len(plain)
        title = _NUMBER.sub("", " ".join(plain[begin:end].split()))
        spots.update(dict.fromkeys(names, _Spot(title, heading, begin, end, until)))
    return plain, spots


def _resolved(page: str, href: str) -> str:
    path, _, name = href.partition("#")
    there = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
    return f"{there}#{name}"


def _asked_headings(
    pages: Mapping[str, _Page], chance: random.Random, each: int
) -> dict[str, set[str]]:
    """Draw the headings to ask for: names by page."""
    candidates: dict[str, list[tuple[str, str]]] = {"heading": [], "faq": []}
    titles = Counter(spot.title for page in pages.values() for spot in set(page.spots.values()))
    for path, page in pages.items():
        for spot, name in {spot: name for name, spot in page.spots.items()}.items():
            telling = len(_WORD.findall(spot.title)) >= 2 and titles[spot.title] == 1
            if spot.heading and telling and _answers(page, spot):
                kind = "faq" if path.startswith("faq/") else "heading"
                if kind == "heading" or spot.title.endswith("?"):
                    candidates[kind].append((path, name))
    asked: dict[str, set[str]] = defaultdict(set)
    for found in candidates.values():
        for path, name in _some(found, each, chance):
            asked[path].add(name)
    return asked


def _blanked(page: _Page, names: AbstractSet[str]) -> _Page:
    """Put spaces where the headings *names* stand, so that no other place moves."""
    text = page.text
    for name in names:
        spot = page.spots[name]
        text = text[: spot.begin] + " " * (spot.end - spot.begin) + text[spot.end :]
    return page._replace(text=text)


def _headings(
    pages: Mapping[str, _Page], asked: Mapping[str, AbstractSet[str]]
) -> Iterator[Question]:
    for path, names in asked.items():
        kind = "faq" if path.startswith("faq/") else "heading"
        for name in sorted(names):
            spot = pages[path].spots[name]
            yield Question(kind, spot.title, path, spot.end, spot.until)


def _links(pages: Mapping[str, _Page]) -> Iterator[Question]:
    seen = set()
    for source, page in pages.items():
        for words, target in page.links:
            path, _, name = target.partition("#")
            spot = pages[path].spots.get(name) if path in pages and path != source else None
            if spot is None or not spot.heading or not _answers(pages[path], spot):
                continue
            if 5 <= len(words.split()) <= 40 and words not in seen:
                seen.add(words)
                yield Question("link", words, path, spot.end, spot.until, source)


def _terms(pages: Mapping[str, _Page]) -> Iterator[Question]:
    for path, page in pages.items():
        for name, spot in page.spots.items():
            if name.startswith("term-") and _WORD.search(spot.title):
                yield Question("term", spot.title, path, spot.begin, spot.until)


def _docstrings(pages: Mapping[str, _Page]) -> Iterator[Question]:
    entries = {
        name: (path, spot)
        for path, page in pages.items()
        for name, spot in page.spots.items()
        if not spot.heading and "." in name and not name.startswith("term-")
    }
    seen = set()
    for name, sentence in _sentences():
        if name not in entries or name in seen or len(_WORD.findall(sentence)) < 4:
            continue
        path, spot = entries[name]
        if _bare(sentence) not in _bare(pages[path].text[spot.begin : spot.until]):
            seen.add(name)
            yield Question("docstring", sentence, path, spot.begin, spot.until)


def _sentences() -> Iterator[tuple[str, str]]:
    """Yield the functions and classes of the interpreter's library with their docstring's beginning."""
    library = Path(sysconfig.get_path("stdlib"))
    for file in sorted(library.rglob("*.py")):
        parts = file.relative_to(library).with_suffix("").parts
        if {"test", "tests", "idlelib", "site-packages", "lib2to3"} & set(parts):
            continue
        try:
            tree = ast.parse(file.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        module = ".".join(part for part in parts if part != "__init__")
        for inner, text in _documented(tree, ""):
            sentence = _SENTENCE_END.split(" ".join(text.split("\n\n")[0].split()))[0]
            yield f"{module}.{inner}", sentence
            if "." in module:
                # What a package's module defines is mostly documented as the package's own.
                yield f"{module.rpartition('.')[0]}.{inner}", sentence


def _documented(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(child)
            if text and not child.name.startswith("_"):
                yield prefix + child.name, text
            if isinstance(child, ast.ClassDef):
                yield from _documented(child, f"{prefix}{child.name}.")


def _answers(page: _Page, spot: _Spot) -> bool:
    return len(page.text[spot.end : spot.until].strip()) >= ANSWER_LEAST


def _some(found: Sequence[T], most: int, chance: random.Random) -> Sequence[T]:
    return found if len(found) <= most else chance.sample(found, most)


def _bare(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))

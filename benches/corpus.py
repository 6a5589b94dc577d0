"""Real English prose without a download: docstrings and comments of the running interpreter.

The order is the same on every run of one installation: files by name, then by position.
"""

import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

WORDS_MIN, WORDS_MAX = 20, 200

# Reading the quotes instead of parsing the file takes a tenth of the time. What is misread
# is code, and code does not pass for prose.
_BLOCKS = re.compile(r'"""(.*?)"""|((?:^[ \t]*#.*\n)+)', re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*#+", re.MULTILINE)
_WORD = re.compile(r"[\"'(]*[A-Za-z][A-Za-z'-]*[.,:;!?)\"']*")


@cache
def paragraphs(count: int = 10_000) -> tuple[str, ...]:
    """Return *count* distinct paragraphs of 20 to 200 words; ValueError if there are fewer."""
    found: dict[str, None] = {}
    for path in _files():
        for paragraph in _paragraphs(path):
            found[paragraph] = None
            if len(found) == count:
                return tuple(found)
    raise ValueError(f"the interpreter's library holds only {len(found):,} paragraphs")


def _files() -> Iterator[Path]:
    # The standard library first: it is there on every machine. What else is installed only
    # fills up.
    library, packages = (Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib"))
    for path in sorted(library.rglob("*.py")):
        if "site-packages" not in path.parts:
            yield path
    yield from sorted(packages.rglob("*.py"))


def _paragraphs(path: Path) -> Iterator[str]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return
    for match in _BLOCKS.finditer(text):
        docstring, comment = match.groups()
        block = docstring if comment is None else _COMMENT.sub("", comment)
        for part in re.split(r"\n\s*\n", block):
            words = part.split()
            if WORDS_MIN <= len(words) <= WORDS_MAX and _prose(words):
                yield " ".join(words)


def _prose(words: list[str]) -> bool:
    if any('"""' in word or word == "[" for word in words):
        return False
    return sum(_WORD.fullmatch(word) is not None for word in words) >= 0.8 * len(words)

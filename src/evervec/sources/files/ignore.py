"""Which paths of a folder are left out: the rules of `.gitignore` and `.evervecignore`. Pure.

The rules are git's: the last rule that matches decides, a rule of an inner folder goes before one
of an outer folder, and nothing inside an excluded folder can be brought back. On top of them
stand the names that are left out everywhere (hidden ones, `node_modules`, `__pycache__`, what
programs write for programs, our own state). A `!rule` of `.gitignore` does not bring those back, because `!*/` is common there and
means no `.venv`; a `!rule` of `.evervecignore` or of the settings does, except for `.git` and the
state.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

GIT_FILE = ".gitignore"
OWN_FILE = ".evervecignore"
FILES = (GIT_FILE, OWN_FILE)
"""In rising precedence."""

_MEMBER = re.compile(r"\[:(?P<name>[^\]]*):\]|\\?(?P<low>.)(?:-(?!\])\\?(?P<high>.))?", re.DOTALL)
"""What may stand between brackets: a class, a character or a range of them."""
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \t",
    "cntrl": "\0-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": " \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}

LOCKS = frozenset(
    {
        "conda-lock.yaml",
        "conda-lock.yml",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "packages.lock.json",
        "pnpm-lock.yaml",
    }
)
"""Lists of versions by programs, in formats that people write too. The others end in no known way."""
NAMES = LOCKS | {"node_modules", "__pycache__"}
MADE = (".min.js", ".min.css")
"""What programs write for programs; nobody searches it."""
STATE = "evervec.db"


def is_never(name: str) -> bool:
    """Tell whether nothing can bring *name* into a collection."""
    return name == ".git" or name.startswith(STATE)


def is_left_out(name: str) -> bool:
    """Tell whether *name* is left out unless a rule of ours brings it back."""
    return name.startswith(".") or name in NAMES or name.endswith(MADE)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file, matched against paths from the root."""

    matches: re.Pattern[str]
    negated: bool
    folders_only: bool
    ours: bool
    above: str = ""
    """What paths from the root must be preceded by, for a rule from above the root."""


@dataclass(frozen=True, slots=True)
class Rules:
    """All the rules that hold in one folder, the strongest last."""

    rules: tuple[Rule, ...] = ()

    def excludes(self, path: str, *, folder: bool) -> bool:
        """Decide on *path* (from the root, `/` between), whose parents are not excluded."""
        name = path[path.rfind("/") + 1 :]
        if is_never(name):
            return True
        excluded = left_out = is_left_out(name)
        for rule in self.rules:
            if rule.folders_only and not folder:
                continue
            if left_out and rule.negated and not rule.ours:
                continue
            if excluded is rule.negated and rule.matches.fullmatch(rule.above + path):
                excluded = not rule.negated
        return excluded

    def seen_from(self, way: str) -> "Rules":
        """Return the same rules for paths that begin at the folder *way*; none if they exclude it."""
        parts = way.split("/")
        ways = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        if any(self.excludes(folder, folder=True) for folder in ways):
            return Rules()
        return Rules(tuple(replace(rule, above=f"{way}/") for rule in self.rules))

    def inside(self, more: Iterable[Rule]) -> "Rules":
        """Return the rules of an inner folder, whose own are *more*."""
        added = tuple(more)
        return Rules(self.rules + added) if added else self


def parse_rules(text: str, *, folder: str = "", ours: bool = False) -> tuple[Rule, ...]:
    """Read the lines of an ignore file that lies in *folder* (from the root, "" for the root)."""
    # Only these end a line; a name may hold whatever else Unicode takes for a line's end.
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    return tuple(rule for line in lines if (rule := parse_rule(line, folder=folder, ours=ours)))


def parse_rule(line: str, *, folder: str = "", ours: bool = False) -> Rule | None:
    """Read one line; None if it holds no rule."""
    # Trailing spaces do not count unless one is written "\ ".
    line = re.sub(r"(?<!\\) +$", "", line)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    pattern = line[1:] if negated else line
    folders_only = pattern.endswith("/")
    pattern = pattern.rstrip("/") if folders_only else pattern
    if not pattern:
        return None
    prefix = re.escape(f"{folder}/") if folder else ""
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    body = glob(pattern.removeprefix("/"))
    if body is None:
        return None
    return Rule(re.compile(prefix + anywhere + body, re.DOTALL), negated, folders_only, ours)


def glob(pattern: str) -> str | None:
    """Translate git's wildcards into a regular expression; None for one that matches nothing."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        if (stars := _stars(pattern, at)) is not None:
            text, at = stars
        elif pattern[at] == "?":
            text, at = "[^/]", at + 1
        elif pattern[at] == "[":
            span = _bracket(pattern, at)
            if span is None:
                return None
            text, at = span
        elif pattern[at] == "\\" and at + 1 < len(pattern):
            text, at = re.escape(pattern[at + 1]), at + 2
        else:
            text, at = re.escape(pattern[at]), at + 1
        out.append(text)
    return "".join(out)


def _stars(pattern: str, at: int) -> tuple[str, int] | None:
    end = at
    while end < len(pattern) and pattern[end] == "*":
        end += 1
    if end == at:
        return None
    # "**" means folders only where it stands alone between slashes; elsewhere it is one "*".
    alone = end - at >= 2 and (at == 0 or pattern[at - 1] == "/")
    if alone and pattern[end : end + 1] == "/":
        return "(?:.*/)?", end + 1
    if alone and at and end == len(pattern):
        return ".+", end
    if alone and end == len(pattern):
        return ".*", end
    return "[^/]*", end


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    start = at + 1
    negated = pattern[start : start + 1] in {"!", "^"}
    start += negated
    members: list[str] = []
    end = start
    # A "]" right behind the opening is an ordinary member.
    while (found := _MEMBER.match(pattern, end)) and (end == start or pattern[end] != "]"):
        end = found.end()
        if found["name"] is not None:
            if found["name"] not in _CLASSES:
                return None
            members.append(_CLASSES[found["name"]])
            continue
        low, high = re.escape(found["low"]), re.escape(found["high"] or "")
        members.append(low)
        if found["low"] <= (found["high"] or ""):
            members.append(f"{low}-{high}")
    if found is None:
        return None
    inside = "".join(members)
    return (f"[^/{inside}]" if negated else f"(?!/)[{inside}]"), end + 1

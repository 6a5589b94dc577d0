"""The folder as it is now: which files belong, in a stable order, and their signatures.

Links are followed: one to a file is a document of its own. One to a folder outside the root is
walked, and in it links to folders are not, so that loops end and every walk is bounded. A link to
a folder inside the root is not walked, because that folder has its own name there. So whether a
path belongs is decided by that path alone, and a look, a walk and a read always agree.

Order: a folder's files by name, then its folders by name.
"""

import errno
import os
import re
import stat
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evervec.errors import ConfigError, SourceError
from evervec.model import Id, decode_id, encode_id
from evervec.sources.files.ignore import (
    FILES,
    GIT_FILE,
    OWN_FILE,
    Rules,
    glob,
    parse_rule,
    parse_rules,
)
from evervec.text.parse import PARSERS

PATTERNS = tuple(f"*{suffix}" for suffix in PARSERS)
"""Every format that can be read."""

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""What the system says of a file that does not exist, or of a link that leads nowhere."""

READING = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)  # a pipe in a file's place must not stop us
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
"""How files that may be anything are opened."""

_SUFFIX = re.compile(r"\*\.[\w.-]+")
_SIGNATURE = struct.Struct("<?Qqqq")

# Kernels stamp files with a coarse clock (up to 10 ms); file systems that keep whole seconds do so
# in steps of up to two. Two writes within one step leave the same signature.
STEP_FINE = 100_000_000
STEP_COARSE = 2_100_000_000


def signature_of(status: os.stat_result, now: int) -> bytes:
    """Return what changes when the file changes, taken at *now* (ns).

    A file written so recently that another write may leave the same times is marked as fresh.
    Later its signature is another one, so it is looked at once more.
    """
    return _SIGNATURE.pack(
        is_fresh(status, now),
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino & 0x7FFF_FFFF_FFFF_FFFF,
    )


def is_fresh(status: os.stat_result, now: int) -> bool:
    # A write sets both times to now, so it goes unseen only if both already say so. On Windows
    # the second is the time of creation and says nothing.
    times = [status.st_mtime_ns] if os.name == "nt" else [status.st_mtime_ns, status.st_ctime_ns]
    coarse = all(time % 1_000_000_000 == 0 for time in times)
    step = STEP_COARSE if coarse else STEP_FINE
    return all(abs(now - time) < step for time in times)


def is_fresh_signature(signature: bytes) -> bool:
    return bool(signature) and signature[0] == 1


def is_same(one: bytes | None, other: bytes | None) -> bool:
    """Say whether two signatures differ at most in that one was taken of a fresh file."""
    return one == other or (one is not None and other is not None and one[1:] == other[1:])


def changed_at(signature: bytes) -> int:
    """Return when the file last changed, in UTC milliseconds."""
    times: tuple[int, int] = _SIGNATURE.unpack(signature)[2:4]
    return max(times) // 1_000_000


def id_of(path: str) -> Id:
    """Name the file at *path*: by text, or by bytes where the name is no valid text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return encode_id(os.fsencode(path))
    return encode_id(path)


def path_of(document: Id) -> str | None:
    """Return the path that `id_of` named, or None if *document* names no file below the root."""
    value = decode_id(document)
    path = os.fsdecode(value) if isinstance(value, bytes) else value
    if not isinstance(path, str) or not path or "\0" in path:
        return None
    if Path(path).is_absolute() or any(part in {"", ".", ".."} for part in path.split("/")):
        return None
    return path


def split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def order_of(path: str) -> list[tuple[bool, str]]:
    """Return the sort key of the walk's order."""
    *folders, name = path.split("/")
    return [*((True, folder) for folder in folders), (False, name)]


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder of a walk: its documents' signatures, taken as it was listed.

    *files* is None if it could not be listed wholly, for the *reason* given.
    """

    path: str
    rules: Rules
    files: dict[str, bytes] | None
    reason: str = ""


class Tree:
    """A root and what belongs to it. Holds no state of the walk: every answer is of this moment."""

    def __init__(
        self, root: str, *, only: str | None, patterns: Sequence[str], ignore: Sequence[str]
    ) -> None:
        self.root = root
        self.only = only
        simple = [pattern for pattern in patterns if _SUFFIX.fullmatch(pattern)]
        self._suffixes = tuple(pattern[1:].lower() for pattern in simple)
        self._patterns = _any_of([pattern for pattern in patterns if pattern not in simple])
        self._settings = tuple(rule for line in ignore if (rule := parse_rule(line, ours=True)))

    def absolute(self, path: str) -> str:
        return os.path.join(self.root, path) if path else self.root  # noqa: PTH118 - hot, and bytes-safe

    def fits(self, path: str) -> bool:
        """Tell whether a file at *path* is of a wanted kind, by its name alone."""
        if self.only is not None:
            return path == self.only
        # One look for all the formats: a walk asks this of every file.
        return path.lower().endswith(self._suffixes) or self._patterns.fullmatch(path) is not None

    def rules_of(self, folder: str) -> Rules | None:
        """Return the rules that hold in *folder*, or None if it does not belong to the tree."""
        way = self._way(folder)
        return None if way is None else way[0]

    def _way(self, folder: str) -> tuple[Rules, str] | None:
        """Return the rules in *folder*, and where it really lies if that is outside the root."""
        rules = self._rules_in("", self._rules_above())
        if self.only is not None:
            return None if folder else (rules, "")
        at, outside = "", ""
        for name in folder.split("/") if folder else ():
            at = join(at, name)
            entered = None if self._excludes(rules, at, folder=True) else self._enter(at, outside)
            if entered is None:
                return None
            outside = entered
            rules = self._rules_in(at, rules)
        return rules, outside

    def _enter(self, path: str, outside: str) -> str | None:
        """Return where the folder *path* lies, as `_way` does; None if it is not walked.

        *outside* is the same of the folder it is in.
        """
        where = self.absolute(path)
        if os.path.islink(where):  # noqa: PTH114 - hot
            if outside:
                return None
            real = os.path.realpath(where)
        elif outside:
            real = os.path.join(outside, split(path)[1])  # noqa: PTH118 - hot, and bytes-safe
        else:
            return ""
        inside = real == self.root or real.startswith(self.root.rstrip(os.sep) + os.sep)
        return None if inside else real

    def holds(self, rules: Rules, path: str) -> bool:
        """Tell whether *path*, in a folder where *rules* hold, is a document if it is a file."""
        return self.fits(path) and (
            self.only is not None or not self._excludes(rules, path, folder=False)
        )

    def signature(self, path: str) -> bytes | None:
        """Look at one file; None if no regular file is there."""
        try:
            status = os.stat(self.absolute(path))  # noqa: PTH116 - hot
        except OSError as error:
            if error.errno in GONE:
                return None
            raise
        return signature_of(status, time.time_ns()) if stat.S_ISREG(status.st_mode) else None

    def device(self) -> int:
        """Return the root's device. Raises SourceError if the root is not there."""
        try:
            return Path(self.root).stat().st_dev
        except OSError as error:
            raise vanished(self.root, error) from error

    def walk(self, start: str = "") -> Iterator[Folder]:
        """Go through the folders from *start* on."""
        way = self._way(split(start)[0]) if start else (self._rules_above(), "")
        if way is None or (start and self._excludes(way[0], start, folder=True)):
            return
        stack = [(start, *way)]
        while stack:
            path, rules, above = stack.pop()
            outside = self._enter(path, above) if path else ""
            if outside is None:
                continue
            folder, inner = self._list(path, rules)
            yield folder
            stack.extend(
                (join(path, name), folder.rules, outside) for name in sorted(inner, reverse=True)
            )

    def _list(self, path: str, outer: Rules) -> tuple[Folder, list[str]]:
        try:
            with os.scandir(self.absolute(path)) as entries:
                listed = list(entries)
        except OSError as error:
            if not path:
                raise vanished(self.root, error) from error
            # A folder that is gone has no files; of one that cannot be listed nothing is known.
            files: dict[str, bytes] | None = {} if error.errno in GONE else None
            return Folder(path, outer, files, error.strerror or str(error)), []
        rules = outer if self.only is not None else self._with_files(path, outer, listed)
        found: dict[str, bytes] = {}
        inner: list[str] = []
        reason = ""
        for entry in listed:
            inside = join(path, entry.name)
            try:
                if self.fits(inside) and (signature := _regular(entry)):
                    if self.holds(rules, inside):
                        found[entry.name] = signature
                elif (
                    self.only is None
                    and entry.is_dir()
                    and not self._excludes(rules, inside, folder=True)
                ):
                    inner.append(entry.name)
            except OSError as error:
                # A link that leads nowhere or a file that just went is no file; anything else
                # is one that we cannot see, and must not be taken for deleted.
                if error.errno not in GONE:
                    reason = error.strerror or str(error)
        return Folder(path, rules, None if reason else dict(sorted(found.items())), reason), inner

    def _excludes(self, rules: Rules, path: str, *, folder: bool) -> bool:
        strongest = Rules(rules.rules + self._settings) if self._settings else rules
        return strongest.excludes(path, folder=folder)

    def _with_files(self, path: str, outer: Rules, listed: "list[os.DirEntry[str]]") -> Rules:
        names = {entry.name for entry in listed if entry.name in FILES}
        return self._rules_in(path, outer) if names else outer

    def _rules_in(self, folder: str, outer: Rules) -> Rules:
        rules = outer
        for name in FILES:
            text = _rules_text(self.absolute(join(folder, name)))
            rules = rules.inside(parse_rules(text, folder=folder, ours=name == OWN_FILE))
        return rules

    def _rules_above(self) -> Rules:
        """Return what the folders above, up to the git repository's, say of those in the root.

        Nothing, if they exclude the root itself: whoever named it wants it.
        """
        root = Path(self.root)
        ways = [root, *root.parents]
        depth = next((n for n, folder in enumerate(ways) if (folder / ".git").exists()), 0)
        if depth == 0:
            return Rules()
        top = ways[depth]
        rules = Rules()
        for folder in reversed(ways[1 : depth + 1]):
            inside = "" if folder == top else folder.relative_to(top).as_posix()
            rules = rules.inside(parse_rules(_rules_text(folder / GIT_FILE), folder=inside))
        return rules.seen_from(root.relative_to(top).as_posix())


def _rules_text(where: str | Path) -> str:
    """Return what an ignore file says; nothing if it cannot be read, which git sees so too."""
    try:
        with open(os.open(where, READING), "rb") as file:  # noqa: PTH123 - opened so as not to block
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read().decode("utf-8", "surrogateescape") if regular else ""
    except OSError:
        return ""


def _regular(entry: "os.DirEntry[str]") -> bytes | None:
    status = entry.stat()
    # The clock is read file by file: a walk takes longer than the steps that it is compared with.
    return signature_of(status, time.time_ns()) if stat.S_ISREG(status.st_mode) else None


def vanished(root: str, error: OSError) -> SourceError:
    return SourceError(
        f"the folder {root!r} cannot be read now: {error.strerror or error}",
        hint="mount it or put it back; nothing was deleted, and work goes on by itself when it is there",
    )


def _any_of(patterns: Sequence[str]) -> re.Pattern[str]:
    bodies = []
    for pattern in patterns:
        body = glob(pattern.removeprefix("/"))
        if not pattern or body is None:
            raise ConfigError(
                f"{pattern!r} is not a pattern for file names", hint="write for example '*.md'"
            )
        bodies.append(body if "/" in pattern else f"(?:.*/)?{body}")
    return re.compile("|".join(bodies) or r"(?!)", re.IGNORECASE | re.DOTALL)

"""Files, each read whole and unchanged, as a document or as the reason why not."""

import errno
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evervec.errors import EvervecError, Permanent, Transient
from evervec.model import Document, Id, Reading
from evervec.sources.files.tree import GONE, READING, Tree, path_of, split
from evervec.text.parse import Parser

if TYPE_CHECKING:
    from evervec.sources.files.ignore import Rules

TRIES = 5
PAUSE = 0.02
"""Seconds between two tries at a file that is being written."""
SETTLED = 100_000_000
"""An empty file younger than this (ns) was probably just truncated by who is about to write it."""


def read_documents(tree: Tree, ids: Sequence[Id], *, bytes_max: int, parse: Parser) -> Reading:
    """Read each of *ids* that belongs to *tree*; one that cannot be read does not touch its mates."""
    documents: dict[Id, Document] = {}
    broken: dict[Id, Exception] = {}
    rules_in: dict[str, Rules | None] = {}
    for document in ids:
        path = path_of(document)
        if path is None:
            continue
        folder = split(path)[0]
        if folder not in rules_in:
            rules_in[folder] = tree.rules_of(folder)
        rules = rules_in[folder]
        if rules is None or not tree.holds(rules, path):
            continue
        try:
            found = read_document(
                document, path, tree.absolute(path), bytes_max=bytes_max, parse=parse
            )
        except EvervecError as error:
            broken[document] = error
            continue
        if found is not None:
            documents[document] = found
    return Reading(0, documents, broken)


def read_document(
    document: Id, path: str, where: str, *, bytes_max: int, parse: Parser
) -> Document | None:
    """Read the file at *where* as the document *path*; None if no regular file is there.

    Raises Permanent or Transient if it is there and cannot be read.
    """
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        found = _read_settled(where, shown, bytes_max)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise _reason(error, shown) from error
    if found is None:
        return None
    data, status = found
    return _document(document, shown, data, status, parse)


def _document(
    document: Id, path: str, data: bytes, status: os.stat_result, parse: Parser
) -> Document:
    folder, name = split(path)
    named = Path(name)
    try:
        parsed = parse(name, data)
    except EvervecError as error:
        raise _named(error, path) from error
    except Exception as error:
        # A parser's own failure on one file must not take down the batch it is read in.
        raise Permanent(
            f"the file {path!r} cannot be parsed: {type(error).__name__}: {error}",
            hint="leave it out in .evervecignore, or mend it; it is tried again when it changes",
        ) from error
    known = {key: value for key, value in parsed.metadata.items() if _is_scalar(value)}
    title = known.get("title")
    own = {
        "path": path,
        "folder": folder,
        "suffix": named.suffix.lower(),
        "modified": status.st_mtime_ns // 1_000_000,
    }
    return Document(
        document,
        {
            "text": parsed.text,
            "path": path,
            "name": name,
            "title": title if isinstance(title, str) and title else named.stem,
            "kind": parsed.kind,
        },
        {**known, **own},
        parsed.pages,
    )


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _named(error: EvervecError, path: str) -> EvervecError:
    # The parser knows the name only; people look for the path.
    message = error.args[0] if error.args else type(error).__name__
    if repr(path)[1:-1] in message:
        return error
    hint = error.hint
    if isinstance(error, Transient):
        return Transient(f"{path!r}: {message}", after=error.after, hint=hint)
    return Permanent(f"{path!r}: {message}", hint=hint)


def _read_settled(where: str, path: str, bytes_max: int) -> tuple[bytes, os.stat_result] | None:
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE)
        handle = os.open(where, READING)
        try:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode):
                return None
            _refuse_large(before.st_size, path, bytes_max)
            data = _all_of(handle, path, bytes_max)
            after = os.fstat(handle)
        finally:
            os.close(handle)
        if _same(before, after, len(data)) and _settled(after):
            return data, after
    if _same(before, after, len(data)):
        return data, after
    raise Transient(
        f"the file {path!r} changed each time it was read",
        after=1.0,
        hint="it is being written; it is read again when that is done",
    )


def _all_of(handle: int, path: str, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := os.read(handle, 1 << 20):
        parts.append(part)
        size += len(part)
        # Devices and growing files do not keep to the size they state.
        _refuse_large(size, path, bytes_max)
    return b"".join(parts)


def _same(before: os.stat_result, after: os.stat_result, read: int) -> bool:
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    # The kernel's own files state no size and are whole all the same.
    return same and after.st_size in {read, 0}


def _settled(status: os.stat_result) -> bool:
    return status.st_size > 0 or abs(time.time_ns() - status.st_mtime_ns) > SETTLED


def _refuse_large(size: int, path: str, bytes_max: int) -> None:
    if size > bytes_max:
        raise Permanent(
            f"the file {path!r} has more than {bytes_max:,} bytes",
            hint="raise it (evervec.folder(…, file_bytes_max=…)), split the file, or leave it out in .evervecignore",
        )


def _reason(error: OSError, path: str) -> EvervecError:
    if error.errno in {errno.EACCES, errno.EPERM}:
        return Permanent(
            f"the file {path!r} may not be read by this user",
            hint="permit it (chmod +r), or leave it out in .evervecignore",
        )
    return Transient(
        f"the file {path!r} cannot be read now: {error.strerror or error}",
        hint="check the disk or the mount it lies on",
    )

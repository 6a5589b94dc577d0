"""What goes through the pipes: frames of two parts, each with its length before it.

A request is a file's name and its bytes. An answer is a head in JSON and a text in UTF-8. Who
reads an answer trusts nothing in it: the process that sent it may be in a stranger's hands.
"""

import json
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import IO, Any

from evervec.text.parse.parsed import KINDS, Parsed

_LENGTHS = struct.Struct(">QQ")
HEAD_BYTES_MAX = 4_000_000
NAMES_MAX = 100
"""Of what a file says about itself."""
VALUE_CHARS_MAX = 10_000


class Nonsense(Exception):
    """What came is no frame, or more than may come."""


def send(pipe: IO[bytes], first: bytes, second: bytes) -> None:
    pipe.write(_LENGTHS.pack(len(first), len(second)))
    pipe.write(first)
    pipe.write(second)
    pipe.flush()


def receive(pipe: IO[bytes], *, first_max: int, second_max: int) -> tuple[bytes, bytes] | None:
    """Read one frame; None at the end of the stream, or if it breaks off."""
    lengths = pipe.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    first, second = _LENGTHS.unpack(lengths)
    if first > first_max or second > second_max:
        raise Nonsense(f"a frame of {first:,} and {second:,} bytes")
    parts = pipe.read(first), pipe.read(second)
    return parts if (len(parts[0]), len(parts[1])) == (first, second) else None


def head_of(parsed: Parsed) -> dict[str, Any]:
    told = list(parsed.metadata.items())[:NAMES_MAX]
    metadata = {name[:VALUE_CHARS_MAX]: value[:VALUE_CHARS_MAX] for name, value in told}
    return {"kind": parsed.kind, "metadata": metadata, "pages": parsed.pages}


def told(head: bytes) -> Mapping[str, Any]:
    """Read a head; Nonsense if it is none."""
    try:
        value = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise Nonsense("a head that is no JSON") from error
    if not isinstance(value, dict):
        raise Nonsense("a head that is no object")
    return value


def parsed_of(head: Mapping[str, Any], text: bytes) -> Parsed:
    """Make what a parser found of an answer, or raise Nonsense."""
    shown = text.decode("utf-8", "replace")
    kind, metadata, pages = head.get("kind"), head.get("metadata"), head.get("pages")
    if kind not in KINDS:
        raise Nonsense(f"a text of kind {kind!r:.40}")
    if not isinstance(metadata, dict) or not _is_metadata(metadata):
        raise Nonsense("metadata that is none")
    if not isinstance(pages, list) or not all(type(page) is int for page in pages):
        raise Nonsense("pages that are none")
    if any(a > b for a, b in pairwise([0, *pages, len(shown)])):
        raise Nonsense("pages outside the text")
    return Parsed(shown, kind, metadata, tuple(pages))


def _is_metadata(told: Mapping[str, object]) -> bool:
    """Say whether these are few short texts with names; in JSON a name is a text."""
    return len(told) <= NAMES_MAX and all(
        isinstance(value, str) and max(len(name), len(value)) <= VALUE_CHARS_MAX
        for name, value in told.items()
    )

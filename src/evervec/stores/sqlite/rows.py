"""How a document's rows change: what is stored compared with what is published. No I/O."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evervec.model import Chunk, Piece, Publication, Stored, Verdict

COLLECTION_BITS = 40
"""A chunk's number is (collection << 40) | n."""


@dataclass(frozen=True, slots=True)
class StateRow:
    """What the guard needs to know of a document. A missing version: nothing but a bar."""

    document: int
    version: int | None
    fence: int
    bar: int
    digest: bytes
    space: int
    deleted: bool
    chunks: int

    @property
    def live(self) -> bool:
        return not self.deleted


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A stored chunk."""

    chunk: int
    position: int
    vector: int
    first: int
    last: int
    page: int | None
    digest: bytes
    heading: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What to do with a document's chunk rows."""

    add: tuple[tuple[int, Piece], ...]
    """Position and piece."""
    move: tuple[tuple[int, int, Chunk], ...]
    """Row, new position, and the chunk with its new offsets."""
    remove: tuple[ChunkRow, ...]


def judge(publication: Publication, row: StateRow | None, fence: int) -> Verdict:
    """Say whether *publication* may replace what is stored.

    A newer version wins; at the same version the newer lease does, so that where a source has no
    versions the fence decides alone. A repeated call under one fence changes nothing.
    """
    if row is None:
        return Verdict.PUBLISHED
    if fence <= row.bar:
        return Verdict.BARRED
    if row.version is None or publication.version > row.version:
        return Verdict.PUBLISHED
    if publication.version == row.version and fence > row.fence:
        return Verdict.PUBLISHED
    return Verdict.SUPERSEDED


def compare(stored: Iterable[ChunkRow], pieces: Sequence[Piece]) -> Difference:
    """Match pieces with rows of the same text, so that what did not change keeps its row.

    A text may occur several times: each row serves one piece, in order. A digest is of what was
    embedded, with the heading or without it; how long the text is tells which.
    """
    rows: dict[tuple[bytes, str, int], list[ChunkRow]] = defaultdict(list)
    for row in sorted(stored, key=lambda row: row.position, reverse=True):
        rows[row.digest, row.heading, row.last - row.first].append(row)
    add, move = [], []
    for position, piece in enumerate(pieces):
        chunk = piece.chunk
        mine = rows.get((piece.digest, storable(chunk.heading), chunk.end - chunk.start))
        if not mine:
            add.append((position, piece))
            continue
        row = mine.pop()
        if (row.position, row.first, row.last, row.page) != (
            position,
            chunk.start,
            chunk.end,
            chunk.page,
        ):
            move.append((row.chunk, position, chunk))
    left = tuple(row for same in rows.values() for row in same)
    return Difference(tuple(add), tuple(move), left)


def storable(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 can hold; lengths, so offsets, stay."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def stored(row: Sequence[Any]) -> Stored:
    """Make the port's value of a row (version, fence, digest, chunks, deleted, space)."""
    version, fence, digest, chunks, deleted, space = row
    return Stored(version, fence, digest, chunks, bool(deleted), space)


def pack(metadata: Mapping[str, Any]) -> str:
    """Write metadata as JSON that SQLite can search; bytes become {"b": hex}, as in ids."""
    return json.dumps({key: plain(value) for key, value in metadata.items()})


def plain(value: Any) -> Any:
    """Give *value* as JSON has it. What JSON has no word for becomes its text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    return str(value)


def unpack(metadata: str) -> dict[str, Any]:
    """Read what `pack` wrote."""
    return {key: _restored(value) for key, value in json.loads(metadata).items()}


def _restored(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"b"} and isinstance(value["b"], str):
        return bytes.fromhex(value["b"])
    return value

"""The values everything else is made of: keys, documents, jobs, chunks. No I/O.

A document's id keeps its type. Inside, an id travels as its canonical text (`Id`), in which
`1` and `"1"` differ and any character is harmless; `encode_id` and `decode_id` are the only doors.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Literal, NewType, TypeAlias

Id = NewType("Id", str)
"""A document's id in canonical text: JSON, bytes as {"b": hex}, composite ids as a list.

Text with half a surrogate pair is no Unicode, so no database keeps it: it is {"s": hex}.
"""

Scalar: TypeAlias = int | float | str | bytes | None
Plain: TypeAlias = Scalar | tuple[Scalar, ...]
"""What a user means by an id: a value, or a tuple of values for a composite key."""

_SURROGATE = re.compile("[\ud800-\udfff]")

LOCAL = ""
"""The tenant of those who never name one."""


def encode_id(value: Plain) -> Id:
    """Give the one text that stands for *value*; equal values of different types differ."""
    if type(value) is int:
        return Id(str(value))
    return Id(json.dumps(_packed(value), ensure_ascii=False, separators=(",", ":")))


def decode_id(document: Id) -> Plain:
    value: Plain = _unpacked(json.loads(document))
    return value


_UNSHOWN = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What ends a line, commands a terminal or is no character."""


def show_id(document: Id) -> str:
    """Return *document* as people write it, on one line, for messages and listings."""
    value = decode_id(document)
    if not isinstance(value, str):
        return document
    return _UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), value)


def _packed(value: Plain) -> Any:
    if isinstance(value, tuple):
        return [_packed(part) for part in value]
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, str) and _SURROGATE.search(value):
        return {"s": value.encode("utf-8", "surrogatepass").hex()}
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_unpacked(part) for part in value)
    if not isinstance(value, dict):
        return value
    if "s" in value:
        return bytes.fromhex(value["s"]).decode("utf-8", "surrogatepass")
    return bytes.fromhex(value["b"])


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """A collection of one tenant: the wall that nothing crosses."""

    tenant: str
    collection: str


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Names a document."""

    tenant: str
    collection: str
    id: Id

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, self.collection)


class Lane(IntEnum):
    """Which of a tenant's two lines a job stands in."""

    LIVE = 0
    BACKFILL = 1


class Tier(IntEnum):
    """A tenant's weight in the fair order."""

    FREE = 1
    PREMIUM = 2
    ENTERPRISE = 3


class State(IntEnum):
    """Where a job stands. In sync has no state: the job is gone."""

    READY = 0
    DELAYED = 1
    LEASED = 2
    FAILED = 3
    QUARANTINED = 4
    CANCELLED = 5
    SUSPECT = 6  # ready, but its last holder died: taken with few batch mates or none


class Mode(StrEnum):
    """What the queue lets workers do."""

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Change:
    """Asks that a document be brought in sync. What became of it is read after the claim."""

    key: Key
    priority: int = 0
    """0 goes first; each step is overtaken by what arrives within the next minute."""
    force: bool = False
    """Embed again even if the text is unchanged."""
    at: int | None = None
    """When it was committed, in UTC milliseconds, if the source knows."""


@dataclass(frozen=True, slots=True)
class Job:
    """A document that is not in sync, held under a lease."""

    job: int
    key: Key
    lane: Lane
    took: int
    attempts: int
    """Executions that ended in the job's own failure, so far."""
    force: bool
    since: int
    """When the oldest change merged into it was put, in UTC milliseconds."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's right to a batch of jobs. The fence is global, growing, never reused."""

    fence: int
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease, precisely enough to notice at once that it is dead."""

    name: str
    host: str
    pid: int
    started: int
    """The process's start time in the kernel's own ticks, so that a reused pid is not taken for it."""
    boot: str
    """The kernel's boot id and pid namespace: pids mean nothing elsewhere."""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing with fields, as the source has it now."""

    id: Id
    fields: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Scalars that search can filter on and hits carry."""
    pages: tuple[int, ...] = ()
    """Where in the field `text` each page, slide or sheet begins, if it has any."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source held at one moment. An id that was asked for and is not here does not exist."""

    version: int
    """Grows in commit order; 0 where the source has no such counter and the fence decides alone."""
    documents: Mapping[Id, Document]
    broken: Mapping[Id, Exception] = field(default_factory=dict)
    """What exists but cannot be read (an unreadable file, say), each with its own reason."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A batch of changed ids, and the mark to accept once they are durable in the queue."""

    ids: tuple[Id, ...]
    mark: Any
    lane: Lane = Lane.LIVE
    gap: bool = False
    """Changes were lost on the way (the file was replaced, a log overflowed): scan everything."""
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document's text. *start* and *end* are offsets into the rendered text."""

    text: str
    start: int
    end: int
    heading: str = ""
    """The path of headings above it, `Guide > Install`: for people, and found by its words."""
    page: int | None = None
    """The page, slide or sheet on which it begins; the first is 1."""
    heading_context: bool = True
    """Whether the heading is part of what is embedded."""

    @property
    def embedded(self) -> str:
        """Return the text that goes to the model."""
        carried = self.heading and self.heading_context
        return f"{self.heading}\n{self.text}" if carried else self.text


@dataclass(frozen=True, slots=True)
class Space:
    """What must be equal for two vectors to be comparable."""

    model: str
    revision: str
    dimension: int
    normalised: bool = True
    recipe: int = 1
    """The version of how this program hands text to a model (prefixes, limits)."""

    @property
    def name(self) -> str:
        return f"{self.model}@{self.revision[:12]}/{self.dimension}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk on its way into the store, with the digest that names its vector."""

    chunk: Chunk
    digest: bytes


TEXT_BYTES = 16
"""The beginning of a document's digest: of its text and how it is cut. The rest: of its metadata."""


def same_text(one: bytes, other: bytes) -> bool:
    """Say whether two digests are of the same chunks, whatever the metadata."""
    return one[:TEXT_BYTES] == other[:TEXT_BYTES]


@dataclass(frozen=True, slots=True)
class Publication:
    """A document's new searchable set of chunks, or its removal."""

    key: Key
    version: int
    digest: bytes
    """Of the rendered text, the metadata and the recipe: equal means nothing to do."""
    pieces: tuple[Piece, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False
    since: int | None = None
    """When its oldest change was put, for the lag that people see."""
    embedded: int = 0
    reused: int = 0
    force: bool = False
    """Write it all again, even if the digest is equal: something was lost."""
    touch: bool = False
    """Nothing changed but version and metadata: the pieces are those stored of this very text."""


class Verdict(StrEnum):
    """What became of a publication."""

    PUBLISHED = "published"
    SUPERSEDED = "superseded"  # the store holds something newer; hand the job back
    BARRED = "barred"  # cancelled while it was worked on
    INCOMPLETE = "incomplete"  # a vector it needs is gone; try again


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store knows of a document."""

    version: int
    fence: int
    digest: bytes
    chunks: int
    deleted: bool
    space: int


@dataclass(frozen=True, slots=True)
class Coming:
    """A large document on its way, and how many of its texts have a vector."""

    id: Id
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one ranking has a chunk; the first place is 1."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a hit is among the answers."""

    dense: Standing | None
    """None: not among the chunks that were read of the ranking by vectors, or it was not asked."""
    lexical: Standing | None
    words: tuple[str, ...]
    """Those of the query that the chunk or its heading has."""
    index: Literal["exact", "codes", "words"]
    """What answered for the vectors: the whole matrix, its codes, or nothing as only words count."""
    compared: int
    """How many of the collection's chunks were compared by vector."""


@dataclass(frozen=True, slots=True)
class Recall:
    """How many of the ten nearest chunks a search finds, told by searching for stored ones."""

    collection: str
    chunks: int
    sampled: int
    recall: float
    index: Literal["exact", "codes"]
    compared: int
    """Chunks a query, in the mean."""
    milliseconds: float
    """A query, in the mean, without its look into the database."""
    exact_milliseconds: float


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer of a search."""

    collection: str
    id: Plain
    score: float
    text: str
    start: int
    end: int
    heading: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    fresh: bool = True
    """False: a newer revision of this document is on its way."""
    page: int | None = None
    """The page, slide or sheet on which it begins; the first is 1."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Where in *text* the query's words are, each from and up to a character."""
    explained: Explained | None = None
    """Filled when it was asked for."""
    reranked: float | None = None
    """The score of the caller's reranker, which then decides the order."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How much is not in sync, and for how long. Counts only what is unfinished."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    failed: int = 0
    quarantined: int = 0
    cancelled: int = 0
    oldest: int | None = None
    """When the oldest unfinished job was put, in UTC milliseconds."""

    @property
    def backlog(self) -> int:
        return self.ready + self.delayed + self.leased

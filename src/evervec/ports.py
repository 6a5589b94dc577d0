"""The ports. Their meaning is the conformance suite of the same name in `evervec.testing`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evervec.model import (
    Captured,
    Change,
    Coming,
    Depth,
    Document,
    Hit,
    Holder,
    Id,
    Key,
    Lane,
    Lease,
    Mode,
    Publication,
    Reading,
    Scope,
    Space,
    State,
    Stored,
    Tier,
    Verdict,
)
from evervec.outcome import Outcome

Vectors: TypeAlias = NDArray[np.float32]
"""One row a text, in order."""
Vector: TypeAlias = NDArray[np.float32]
"""One text's row."""
Kind: TypeAlias = Literal["document", "query"]


class Notebook(Protocol):
    """A source's own durable notes (cursors, file signatures), kept in the state database."""

    async def load(self, prefix: str = "") -> dict[str, bytes]:
        """Return every note whose name starts with *prefix*."""

    async def save(self, notes: Mapping[str, bytes | None]) -> None:
        """Write all of *notes* in one commit; None removes a note."""


class Source(Protocol):
    """Where documents live. It captures changes and reads documents, and changes none of them."""

    async def open(self) -> None:
        """Make the source ready to capture: idempotent. Raises ConfigError or SourceError."""

    async def changes(self, limit: int) -> Captured | None:
        """Return the next changed ids without consuming them, or None if nothing changed.

        Until `accept`, the same changes come again: a crash in between costs nothing.
        """

    async def accept(self, captured: Captured) -> None:
        """Move past *captured*, whose ids are durable in the queue by now."""

    async def look_again(self) -> None:
        """Trust no hint: the next `changes` compares with all there is at that moment."""

    async def scan(self, after: Id | None, limit: int) -> Sequence[Id]:
        """Return up to *limit* existing ids in a stable order, those behind *after*.

        An empty answer is the end. Bounded memory, however large the source is.
        """

    async def read(self, ids: Sequence[Id]) -> Reading:
        """Read documents and their version in one snapshot."""

    async def wait(self, timeout: float) -> None:
        """Return early if something may have changed. A hint: call `changes` to find out."""

    async def unseen(self, limit: int) -> Sequence[Id] | None:
        """Name up to *limit* documents whose change nobody has accepted; None: only a scan tells.

        Nothing is consumed, noted or written, and the source need not be open.
        """

    async def close(self) -> None:
        """Let go of every resource; triggers and logs stay, capture goes on."""

    async def remove(self) -> None:
        """Leave no trace in the source."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The vector that a row is to hold, and the digest of the text it was made of."""

    digest: bytes
    vector: Vector | None
    """None: the text is empty."""


@runtime_checkable
class RowVectors(Protocol):
    """A source that can keep a document's vector in the document's own row."""

    async def write_back(
        self,
        wanted: Mapping[Id, Wanted],
        digest_of: Callable[[Document], bytes],
        *,
        dry: bool = False,
    ) -> Mapping[Id, str]:
        """Write each vector whose row has the text it was made of.

        Return the rows that differed, each with why it refused the vector, or "". Nothing else in
        a row changes, and the write is not captured. With *dry*, nothing is written. A row that
        is gone or whose text has another digest is left alone.
        """


@dataclass(frozen=True, slots=True)
class Put:
    """What a put did, truthfully: jobs that are new, and changes merged into existing ones."""

    created: int
    merged: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settlement did. Ids in neither set were no longer held: their lease was lost."""

    ended: frozenset[int]
    again: frozenset[int]
    """Changed meanwhile, so handed back to the queue instead of ended."""

    @property
    def held(self) -> frozenset[int]:
        return self.ended | self.again


@dataclass(frozen=True, slots=True)
class Renewed:
    """Leases that are still held, and held jobs that need not be finished any more."""

    held: frozenset[int]
    stopped: frozenset[int] = frozenset()
    """Job ids that were cancelled, reaped one by one, or removed."""


class Queue(Protocol):
    """Documents that are not yet in sync, each at most once. The worker's side."""

    async def put(self, changes: Sequence[Change], *, lane: Lane = Lane.LIVE) -> Put:
        """Ask for these documents to be brought in sync. Durable on return, idempotent.

        A change to a held job raises what is wanted, so finishing hands the job back. A change
        to a parked job (failed, quarantined, cancelled) revives it with its counters at zero.
        A live change moves a backfill job to the live lane.
        """

    async def claim(
        self, limit: int, *, holder: Holder, lease_for: float, lane: Lane | None = None
    ) -> Lease | None:
        """Take up to *limit* ready jobs in the fair order; None if there are none.

        Live before backfill, except that backfill gets at least one job in eight; among lanes
        by a rotating cursor with a quantum by tier; inside a lane by age and priority. With
        *lane*, only that kind. No job is held twice at one time. *lease_for* is in seconds.
        """

    async def renew(self, fences: Sequence[int], *, holder: Holder, lease_for: float) -> Renewed:
        """Extend the leases that *holder* still holds; the rest now belongs to others."""

    async def settle(self, fence: int, outcomes: Mapping[int, Outcome]) -> Settled:
        """Record how held jobs ended (finish, retry, fail, release), as one set in one commit.

        Nothing happens to a job whose lease is not *fence* any more.
        """

    async def reap(self) -> Sequence[Key]:
        """Hand back the jobs of leases that ran out or whose holder is dead; return their keys.

        Their attempts stay. They become suspects: taken with an eighth of the batch mates each
        time, at last alone. A job that then kills its holder `crashes_max` times is quarantined.
        """

    async def wait(self, timeout: float) -> None:
        """Return early if work may be ready. A hint: claim to find out."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as an operator sees it."""

    job: int
    key: Key
    state: State
    lane: Lane
    priority: int
    attempts: int
    crashes: int
    releases: int
    since: int
    due: int
    """When it is or was ready, in UTC milliseconds."""
    holder: str | None
    reason: str
    kind: str
    stack: str
    stale: bool
    """Leased and past its time: derived, never stored."""


class QueueControl(Protocol):
    """The operator's side of the same queue."""

    async def jobs(
        self,
        *,
        scope: Scope | None = None,
        states: Sequence[State] = (),
        after: int = 0,
        limit: int = 100,
    ) -> Sequence[JobView]:
        """List jobs by number, a page at a time."""

    async def find(self, keys: Sequence[Key]) -> Mapping[Key, JobView]:
        """Return the jobs of these documents; a document in sync has none."""

    async def replay(self, jobs: Sequence[int]) -> int:
        """Make parked jobs ready with all counters at zero; return how many were parked."""

    async def cancel(self, keys: Sequence[Key]) -> Mapping[Key, int]:
        """Park unfinished jobs as cancelled; a holder's result no longer counts.

        Return a fence for each job cancelled, above every lease that ever held it: the store
        is barred up to it, so that a result on its way is refused.
        """

    async def drop(self, jobs: Sequence[int]) -> int:
        """Forget parked jobs; return how many."""

    async def forget(self, scope: Scope) -> None:
        """Forget everything about a collection that is no longer served."""

    async def set_mode(self, mode: Mode) -> None:
        """Pause, resume or drain, durably; what is held goes on.

        After it returns, no claim hands out a job if the queue is paused or draining.
        """

    async def mode(self) -> tuple[Mode, int]:
        """Return the mode and how many jobs are held: drained is draining with none held."""

    async def set_tier(self, tenant: str, tier: Tier) -> None: ...

    async def depth(self, scope: Scope | None = None) -> Depth: ...

    async def prune(self, *, finished_before: int, parked_before: int | None, limit: int) -> int:
        """Delete up to *limit* finished (and, if asked, parked) rows that ended before then."""


K_MAX = 1000
"""How many hits one search gives at most."""


@dataclass(frozen=True, slots=True)
class Query:
    """A search. *vector* is needed unless *mode* is lexical, *text* unless it is dense."""

    text: str
    vector: Vector | None
    scopes: tuple[Scope, ...]
    k: int = 10
    mode: Literal["hybrid", "dense", "lexical"] = "hybrid"
    where: Mapping[str, Any] = field(default_factory=dict)
    """Conditions on metadata, all of which hold. A plain value: equal; a list: equal to any of.

    A mapping compares, `{"<": 10, ">=": 5}`, also by `=`, `!=`, `<=` and `>`: numbers with numbers
    and texts with texts. A document without the field meets none of them.
    """
    explain: bool = False
    """Let each hit say why it is among the answers."""


@dataclass(frozen=True, slots=True)
class Published:
    """A live document's digest, and its chunks' vectors in their order."""

    digest: bytes
    vectors: tuple[Vector, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """What the store holds of a collection."""

    documents: int
    chunks: int
    lags: tuple[int, ...] = ()
    """Milliseconds from change to searchable, of the newest publications."""
    coming: tuple[Coming, ...] = ()
    """Large documents that are embedded now, or wait half done."""


class Store(Protocol):
    """Documents, chunks and vectors as truth; search over them. The side of work and questions."""

    async def look(self, keys: Sequence[Key]) -> Mapping[Key, Stored]:
        """Return what is stored of these documents, tombstones included."""

    async def published(self, keys: Sequence[Key]) -> Mapping[Key, Published]:
        """Return the live documents among *keys*, with their vectors; not those that lost one."""

    async def known(self, tenant: str, space: int, digests: Sequence[bytes]) -> frozenset[bytes]:
        """Return which of these texts already have a vector in (tenant, space)."""

    async def keep(self, tenant: str, space: int, vectors: Mapping[bytes, Vector]) -> None:
        """Keep vectors by digest, durably, before any document uses them; newer ones replace.

        This is the ledger: after a crash a text that is here is not paid for again.
        """

    async def advance(self, key: Key, done: int, total: int) -> None:
        """Tell how far a large document is, until it is published: *done* of *total* texts."""

    async def publish(
        self, publications: Sequence[Publication], *, fence: int, space: int
    ) -> Sequence[Verdict]:
        """Replace each document's searchable chunks in one step, old set out and new set in.

        Accepted if (version, fence) is above what is stored and the fence is not barred. One
        transaction; one document's refusal does not touch its mates. Unchanged chunks keep
        their rows. A deletion leaves a tombstone that keeps a late writer from resurrecting it.

        What would keep others waiting is written before, in parts and unseen.
        """

    async def search(self, query: Query) -> Sequence[Hit]:
        """Answer from what is published at this moment, in this process or any other."""

    async def documents(
        self, scope: Scope, after: Id | None, limit: int
    ) -> Sequence[tuple[Id, Stored]]:
        """List a collection's live documents in id order, a page at a time."""

    async def damaged(self, scope: Scope, among: Sequence[Id] | None = None) -> Sequence[Id]:
        """Return the live documents, of all or *among* some, whose chunks or vectors are lost."""

    async def close(self) -> None: ...


class StoreControl(Protocol):
    """The operator's side of the same store: whole collections, and what is not wanted any more."""

    async def bar(self, keys: Mapping[Key, int]) -> None:
        """Refuse publications of each key with a fence up to the one given."""

    async def scopes(self) -> Sequence[Scope]:
        """Return every collection of which something is stored."""

    async def highest_fence(self) -> int:
        """Return the highest fence under which anything was published: a new queue starts above."""

    async def counts(self, scope: Scope) -> Counts: ...

    async def forget(self, scope: Scope) -> None:
        """Remove a collection and everything stored of it."""

    async def prune(self, *, unused_before: int, limit: int) -> int:
        """Delete up to *limit* vectors that no chunk has used since then."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request to the model may hold, and how many may be under way."""

    batch_tokens_max: int = 8192
    batch_texts_max: int = 256
    text_tokens_max: int = 512
    concurrency: int = 1


class Embedder(Protocol):
    """Turns texts into vectors."""

    @property
    def model(self) -> str: ...

    @property
    def revision(self) -> str:
        """What pins the model's bytes: a hash, a version. Never `latest`."""

    @property
    def dimension(self) -> int: ...

    @property
    def limits(self) -> Limits: ...

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """Return how many tokens of the model's each text takes, its special ones included."""

    def token_ends(self, text: str) -> Sequence[int]:
        """Return where each of *text*'s tokens ends, as growing character offsets."""

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """Return one unit-length row a text, in order.

        Raises Transient, Permanent, Unavailable or Critical, never a driver's error. One
        request: the caller keeps to `limits`.
        """

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Registered:
    """A collection as the state database remembers it."""

    number: int
    scope: Scope
    source: Mapping[str, Any]
    recipe: Mapping[str, Any]
    space: int
    halted: str = ""
    """Why this collection stopped, if it did; `resume` clears it."""


class Registry(Protocol):
    """The collections, the spaces and the notes: what is registered in the state."""

    async def collections(self) -> Sequence[Registered]: ...

    async def register(
        self,
        scope: Scope,
        *,
        source: Mapping[str, Any],
        recipe: Mapping[str, Any],
        space: Space,
        change: bool = False,
    ) -> Registered:
        """Add a collection, or confirm that it is as registered. Idempotent.

        Raises RecipeChanged if it exists otherwise, unless *change* says that this is wanted.
        """

    async def unregister(self, scope: Scope) -> None: ...

    async def space(self, number: int) -> Space: ...

    def notebook(self, number: int) -> Notebook:
        """Return the notes of collection *number*; they go when it is unregistered."""

    async def halt(self, scope: Scope, reason: str) -> None: ...

    async def resume(self, scope: Scope) -> None: ...

    async def setting(self, name: str) -> str | None:
        """Return a durable word of the whole state: its identity, its model."""

    async def set(self, name: str, value: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Event:
    """A fact: something that happened, numbered within its tenant."""

    number: int
    tenant: str
    type: str
    collection: str
    document: Id | None
    at: int
    data: Mapping[str, Any]


class EventLog(Protocol):
    """Facts, appended in the transaction of the state they report."""

    async def events(self, *, tenant: str, after: int, limit: int) -> Sequence[Event]:
        """Return facts behind number *after*, oldest first."""

    async def last(self, tenant: str) -> int:
        """Return the number of the newest fact, 0 if there is none."""

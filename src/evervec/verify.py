"""Compare source, state and store: the proof that what is searchable is what is there."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from evervec.attempt import Serving
from evervec.model import Id, Key, Scope, State, Stored
from evervec.ports import JobView, QueueControl, Store
from evervec.writeback import write_back

PAGE = 500


class Drift(StrEnum):
    """How a document can differ between source and store."""

    MISSING = "missing"
    STALE = "stale"
    ORPHANED = "orphaned"
    WRONG_SPACE = "wrong_space"


@dataclass(frozen=True, slots=True)
class Difference:
    """One document that is not in sync, and what the queue says about it."""

    key: Key
    drift: Drift
    job: JobView | None
    """None: nothing is going to mend it by itself."""
    damaged: bool = False
    """The document is stored but some of its vectors are lost."""


@dataclass(slots=True)
class Report:
    """What `verify` found. In sync: every count but `checked` is zero."""

    checked: int = 0
    counts: dict[Drift, int] = field(default_factory=lambda: dict.fromkeys(Drift, 0))
    examples: list[Difference] = field(default_factory=list)

    @property
    def drift(self) -> int:
        return sum(self.counts.values())

    @property
    def missing(self) -> int:
        return self.counts[Drift.MISSING]

    @property
    def stale(self) -> int:
        return self.counts[Drift.STALE]

    @property
    def orphaned(self) -> int:
        return self.counts[Drift.ORPHANED]

    @property
    def wrong_space(self) -> int:
        return self.counts[Drift.WRONG_SPACE]

    def add(self, difference: Difference, *, examples_max: int = 100) -> None:
        self.counts[difference.drift] += 1
        if len(self.examples) < examples_max:
            self.examples.append(difference)

    def __add__(self, other: "Report") -> "Report":
        return Report(
            self.checked + other.checked,
            {drift: self.counts[drift] + other.counts[drift] for drift in Drift},
            self.examples + other.examples,
        )

    def to_json(self) -> dict[str, int]:
        return {"checked": self.checked, **{drift.value: n for drift, n in self.counts.items()}}

    def __str__(self) -> str:
        counts = " · ".join(
            f"{drift.value.replace('_', ' ')} {n}" for drift, n in self.counts.items()
        )
        return f"checked {self.checked} · {counts}"

    def _repr_html_(self) -> str:
        return f"<pre>{self}</pre>"


async def verify(serving: Serving, store: Store, control: QueueControl) -> Report:
    """Compare every document of a collection, a page at a time, in bounded memory."""
    report = Report()
    async for checked, differences in differing(serving, store, control):
        report.checked += checked
        for difference in differences:
            report.add(difference)
    return report


async def differing(
    serving: Serving, store: Store, control: QueueControl
) -> AsyncIterator[tuple[int, list[Difference]]]:
    """Yield, a page at a time, how many documents were checked and which of them differ."""
    damaged = frozenset(await store.damaged(serving.scope))
    after: Id | None = None
    while page := await serving.source.scan(after, PAGE):
        after = page[-1]
        found = await _source_page(serving, store, page, damaged)
        yield len(page), await _with_jobs(serving.scope, found, control, damaged)
    after = None
    while stored := await store.documents(serving.scope, after, PAGE):
        after = stored[-1][0]
        reading = await serving.source.read([id_ for id_, _ in stored])
        found = {
            id_: Drift.ORPHANED
            for id_, _ in stored
            if id_ not in reading.documents and id_ not in reading.broken
        }
        yield len(found), await _with_jobs(serving.scope, found, control)


async def _source_page(
    serving: Serving, store: Store, page: Sequence[Id], damaged: frozenset[Id]
) -> dict[Id, Drift]:
    scope = serving.scope
    reading = await serving.source.read(page)
    stored = await store.look([Key(scope.tenant, scope.collection, id_) for id_ in page])
    found: dict[Id, Drift] = {}
    for id_ in page:
        if id_ in reading.broken:
            found[id_] = Drift.MISSING
            continue
        if (document := reading.documents.get(id_)) is None:
            continue  # it went between the listing and the reading
        _, digest, _ = serving.recipe.rendered(document)
        have = stored.get(Key(scope.tenant, scope.collection, id_))
        drift = _drift(digest, have, serving.embedding.space)
        if drift is None and id_ in damaged:
            drift = Drift.MISSING
        if drift:
            found[id_] = drift
    if serving.rows is not None:
        same = [id_ for id_ in page if id_ not in found]
        other = await write_back(serving.rows, store, scope, serving.recipe, same, dry=True)
        found |= dict.fromkeys(other, Drift.STALE)
    return found


def _drift(digest: bytes, have: Stored | None, space: int) -> Drift | None:
    if have is None or have.deleted:
        return Drift.MISSING
    if have.space != space:
        return Drift.WRONG_SPACE
    return None if have.digest == digest else Drift.STALE


async def _with_jobs(
    scope: Scope,
    found: Mapping[Id, Drift],
    control: QueueControl,
    damaged: frozenset[Id] = frozenset(),
) -> list[Difference]:
    if not found:
        return []
    keys = {id_: Key(scope.tenant, scope.collection, id_) for id_ in found}
    jobs = await control.find(list(keys.values()))
    return [
        Difference(keys[id_], drift, jobs.get(keys[id_]), id_ in damaged)
        for id_, drift in found.items()
    ]


def can_be_mended(difference: Difference) -> bool:
    """Say whether putting it in the queue again may help: not if it waits there or has failed."""
    return difference.job is None or difference.job.state is State.CANCELLED

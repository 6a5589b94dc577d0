"""One attempt at a lease: read, render, compare, chunk, embed the rest, publish.

An attempt never touches the queue. It yields how jobs ended, portion by portion; the worker that
claimed them records it. No transaction is open while the model works.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from evervec.backoff import Policy, outcome_of
from evervec.embedding import Embedding, Ensured
from evervec.ensuring import PORTION_PIECES, ensure, pieces_of
from evervec.errors import (
    ConfigError,
    Critical,
    EvervecError,
    Permanent,
    SourceError,
    Transient,
    Unavailable,
)
from evervec.faults import reach
from evervec.model import (
    Id,
    Job,
    Key,
    Lease,
    Publication,
    Reading,
    Scope,
    Stored,
    Verdict,
)
from evervec.outcome import Done, Outcome, Release
from evervec.plan import Work, is_stored, portions
from evervec.ports import RowVectors, Source, Store
from evervec.recipe import Prepared, Recipe
from evervec.writeback import write_back

AHEAD_PIECES = 2 * PORTION_PIECES
"""How much of a lease may be on its way to the model while more of it is read: enough that the
model never waits for a read or a publication (a backfill with a sequential model of 50 ms a request
took 1.6 times as long as its requests before), and bounded in memory."""
PUBLISH_PIECES = 256
"""Chunks a publication at most, unless one document has more: the writer's thread is free again
after some 20 ms, for a live edit or for the model's next answer."""
FIRST_SLICE, SLICE_GROWTH = 64, 4
"""A model that waits for work gets the first of it soon, and the rest in few slices."""
SLICE_CHARS = 32_000_000
LARGE_CHARS = 1_000_000
"""A larger text waits until the rest of its lease is done, and is then read alone."""

NOT_SERVED_SECONDS = 2.0
SOURCE_DOWN_SECONDS = 5.0
HALTED_SECONDS = 60.0


@dataclass(frozen=True)
class Serving:
    """A collection, wired: all that an attempt needs to know of it."""

    scope: Scope
    source: Source
    recipe: Recipe
    embedding: Embedding
    halted: str = ""
    rows: RowVectors | None = None
    """Where each document's vector is also to be kept, if anywhere."""


@dataclass(frozen=True)
class Attempts:
    """What every attempt of one worker shares."""

    store: Store
    servings: Mapping[Scope, Serving]
    policy: Policy
    rng: Random = field(default_factory=Random)
    halt: Callable[[Scope, str], None] = lambda _scope, _reason: None

    async def attempt(
        self, lease: Lease, held: Callable[[], frozenset[int]]
    ) -> AsyncGenerator[Mapping[int, Outcome], None]:
        """Yield how the lease's jobs ended, in portions; every job exactly once.

        *held* raises LeaseLost when the lease may have ended, and returns the jobs that were
        taken back from it.
        """
        begun: deque[_Begun] = deque()
        try:
            async for outcomes, works in self._portions(lease):
                if outcomes:
                    yield outcomes
                for embedding, portion in works:
                    begun.append(self._begin(embedding, portion, held))
                # While these wait for the model, more is read and what is done is published.
                while sum(each.pieces for each in begun) > AHEAD_PIECES:
                    yield await self._end(begun.popleft(), lease.fence, held)
            while begun:
                yield await self._end(begun.popleft(), lease.fence, held)
        finally:
            for each in begun:
                each.ensuring.cancel()
            await asyncio.gather(*(each.ensuring for each in begun), return_exceptions=True)

    async def _portions(
        self, lease: Lease
    ) -> AsyncIterator[tuple[Mapping[int, Outcome], list[tuple[Embedding, list[Work]]]]]:
        """Read everything, slice by slice, and hand it on in portions worth the model's while."""
        by_scope: dict[Scope, list[Job]] = {}
        for job in lease.jobs:
            by_scope.setdefault(job.key.scope, []).append(job)
        # Small documents of many slices and collections share requests.
        pending: dict[Embedding, list[Work]] = {}
        aside: list[tuple[Scope, Job]] = []
        for scope, jobs in by_scope.items():
            serving = self.servings.get(scope)
            if serving is None:
                yield _all(jobs, Release(NOT_SERVED_SECONDS, "not served by this worker")), []
                continue
            if serving.halted:
                yield _all(jobs, Release(HALTED_SECONDS, serving.halted)), []
                continue
            async for outcomes, read in self._read(serving, jobs, aside):
                mine = [*pending.pop(serving.embedding, ()), *read]
                *full, last = portions(mine, PORTION_PIECES) or [[]]
                if last and serving.embedding.hungry:
                    # A smaller portion fits worse into requests; a model that waits costs more.
                    full.append(last)
                    last = []
                pending[serving.embedding] = last
                yield outcomes, [(serving.embedding, portion) for portion in full]
        yield {}, [(embedding, works) for embedding, works in pending.items() if works]
        for scope, job in aside:
            serving = self.servings.get(scope)
            if serving is None:
                yield _all([job], Release(NOT_SERVED_SECONDS, "not served by this worker")), []
                continue
            async for outcomes, read in self._read(serving, [job]):
                yield outcomes, [(serving.embedding, read)] if read else []

    async def _read(
        self,
        serving: Serving,
        jobs: Sequence[Job],
        aside: list[tuple[Scope, Job]] | None = None,
    ) -> AsyncIterator[tuple[dict[int, Outcome], list[Work]]]:
        """Read and prepare a collection's documents in slices that fit in memory.

        Large ones among them are only put *aside*, if that is given.
        """
        size, start = FIRST_SLICE, 0
        while start < len(jobs):
            part = jobs[start : start + size]
            start += size
            try:
                reading = await serving.source.read([job.key.id for job in part])
            except EvervecError as error:
                yield {job.job: self._outcome(_down(error), job) for job in part}, []
                continue
            reach("attempt.read")
            stored = await self.store.look([job.key for job in part])
            outcomes, works = await asyncio.get_running_loop().run_in_executor(
                None, self._prepare, serving, part, reading, stored, aside
            )
            reach("attempt.planned")
            size = min(SLICE_GROWTH * size, _next_slice(reading))
            # Nothing holds a large text any longer than it is needed.
            del reading
            yield outcomes, works

    def _prepare(
        self,
        serving: Serving,
        jobs: Sequence[Job],
        reading: Reading,
        stored: Mapping[Key, Stored],
        aside: list[tuple[Scope, Job]] | None,
    ) -> tuple[dict[int, Outcome], list[Work]]:
        outcomes: dict[int, Outcome] = {}
        works: list[Work] = []
        for job in jobs:
            if broken := reading.broken.get(job.key.id):
                outcomes[job.job] = self._outcome(broken, job)
                continue
            try:
                work = _work(serving, job, reading, stored.get(job.key), large=aside is None)
                if work is not None:
                    works.append(work)
                elif aside is not None:
                    aside.append((serving.scope, job))
            except Exception as error:  # noqa: BLE001 - one document's trouble is its own
                outcomes[job.job] = self._outcome(error, job)
        return outcomes, works

    def _begin(
        self, embedding: Embedding, portion: Sequence[Work], held: Callable[[], frozenset[int]]
    ) -> "_Begun":
        taken = held()
        works = [work for work in portion if work.job.job not in taken]
        ensuring = asyncio.create_task(ensure(embedding, self.store, works, self.policy, held))
        return _Begun(embedding, works, ensuring, sum(len(pieces_of(work)) for work in works))

    async def _end(
        self, begun: "_Begun", fence: int, held: Callable[[], frozenset[int]]
    ) -> dict[int, Outcome]:
        ensured = await begun.ensuring
        taken = held()
        works = [work for work in begun.works if work.job.job not in taken]
        outcomes = await self._publish(begun.embedding, works, ensured, fence)
        reach("attempt.published")
        return outcomes | await self._written_back(works, outcomes)

    async def _written_back(
        self, works: Sequence[Work], outcomes: Mapping[int, Outcome]
    ) -> dict[int, Outcome]:
        """Write the vectors of what is published into its rows; return whose job is not done yet."""
        done = [
            work.job
            for work in works
            if work.prepared is not None and isinstance(outcomes.get(work.job.job), Done)
        ]
        keeping = {scope: each for scope, each in self.servings.items() if each.rows is not None}
        ended: dict[Scope, dict[Id, Job]] = {}
        for job in done if keeping else ():
            ended.setdefault(job.key.scope, {})[job.key.id] = job
        undone: dict[int, Outcome] = {}
        for scope, jobs in ended.items():
            serving = keeping.get(scope)
            if serving is None or serving.rows is None:
                continue
            try:
                answers = await write_back(serving.rows, self.store, scope, serving.recipe, jobs)
            except EvervecError as error:
                undone |= {job.job: self._outcome(_down(error), job) for job in jobs.values()}
                continue
            for id_, refusal in answers.items():
                if refusal:
                    refused = Permanent(f"the row refuses its vector: {refusal}")
                    undone[jobs[id_].job] = self._outcome(refused, jobs[id_])
        if done:
            reach("attempt.written_back")
        return undone

    async def _publish(
        self, embedding: Embedding, works: Sequence[Work], ensured: Ensured, fence: int
    ) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        ready: list[Work] = []
        for work in works:
            if error := _refused(work, ensured):
                outcomes[work.job.job] = self._outcome(error, work.job)
            else:
                ready.append(work)
        for part in portions(ready, PUBLISH_PIECES):
            publications = [_publication(work, ensured) for work in part]
            try:
                verdicts = await self.store.publish(
                    publications, fence=fence, space=embedding.space
                )
            except ConfigError as error:
                # Two spaces were about to meet. Going on would mix them, so the collections halt.
                critical = Critical(str(error))
                outcomes |= {work.job.job: self._outcome(critical, work.job) for work in part}
                continue
            for work, verdict in zip(part, verdicts, strict=True):
                outcomes[work.job.job] = self._judged(verdict, work.job)
        return outcomes

    def _judged(self, verdict: Verdict, job: Job) -> Outcome:
        match verdict:
            case Verdict.PUBLISHED:
                return Done()
            case Verdict.SUPERSEDED:
                # Someone newer was there. Then the lease is lost and this changes nothing; if
                # it is not, the source went backwards, and trying for ever would hide that.
                error = Transient(
                    f"the store holds a newer revision of {job.key.id} than the source",
                    hint="if the source was restored from a backup, run `evervec repair`",
                )
                return self._outcome(error, job)
            case _:
                return Release(0.0, verdict.value)

    def _outcome(self, error: Exception, job: Job) -> Outcome:
        if isinstance(error, Critical):
            self.halt(job.key.scope, str(error))
            return Release(HALTED_SECONDS, str(error))
        return outcome_of(error, job.attempts, self.policy, self.rng)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A portion whose texts are on their way to the model."""

    embedding: Embedding
    works: Sequence[Work]
    ensuring: asyncio.Task[Ensured]
    pieces: int


def _work(
    serving: Serving, job: Job, reading: Reading, stored: Stored | None, *, large: bool
) -> Work | None:
    """Plan one document; None if its text is large and that is not wanted now."""
    document = reading.documents.get(job.key.id)
    if document is None:
        return Work(job, None, reading.version)
    rendered = serving.recipe.rendered(document)
    text, digest, metadata = rendered
    published = is_stored(digest, stored, serving.embedding.space)
    if published and not job.force:
        return Work(job, Prepared(digest, (), metadata), reading.version, touch=True)
    if len(text) > LARGE_CHARS and not large:
        return None
    prepared = serving.recipe.cut(document, rendered, serving.embedding.embedder)
    return Work(job, prepared, reading.version, published=published)


def _publication(work: Work, ensured: Ensured) -> Publication:
    key, prepared = work.job.key, work.prepared
    if prepared is None:
        return Publication(key, work.version, b"", deleted=True, since=work.job.since)
    digests = {piece.digest for piece in prepared.pieces}
    embedded = sum((key.tenant, digest) in ensured.embedded for digest in digests)
    return Publication(
        key,
        work.version,
        prepared.digest,
        prepared.pieces,
        prepared.metadata,
        since=work.job.since,
        embedded=embedded,
        reused=len(digests) - embedded,
        force=work.job.force,
        touch=work.touch,
    )


def _refused(work: Work, ensured: Ensured) -> EvervecError | None:
    tenant = work.job.key.tenant
    for piece in pieces_of(work):
        if error := ensured.refused.get((tenant, piece.digest)):
            return error
    return None


def _next_slice(reading: Reading) -> int:
    chars = sum(
        len(value)
        for document in reading.documents.values()
        for value in document.fields.values()
        if isinstance(value, (str, bytes))
    )
    mean = max(1, chars // max(1, len(reading.documents)))
    return max(1, min(1000, SLICE_CHARS // mean))


def _down(error: EvervecError) -> EvervecError:
    if isinstance(error, SourceError):
        # A source that cannot be read now is trouble, not the document's failure.
        return Unavailable(str(error), after=SOURCE_DOWN_SECONDS)
    return error


def _all(jobs: Iterable[Job], outcome: Outcome) -> dict[int, Outcome]:
    return {job.job: outcome for job in jobs}

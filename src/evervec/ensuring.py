"""See to it that documents have their vectors: in which company texts travel, and in which order.

A large document is embedded in slices, behind every live edit: what a slice brought is durable and
told before the next is asked for, so that a crash costs no more than any other, people see how far
it is, and it stops between two slices when the lease is lost or the job is not wanted any more.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from evervec.backoff import Policy
from evervec.embedding import Embedding, Ensured, Want
from evervec.model import Id, Job, Lane, Piece, Scope
from evervec.plan import Work
from evervec.ports import Store

PORTION_PIECES = 1536
RETRY_TOGETHER = 32
"""Texts in one request after the first failure; an eighth of it after the next, and so on."""


async def ensure(
    embedding: Embedding,
    store: Store,
    works: Sequence[Work],
    policy: Policy,
    held: Callable[[], frozenset[int]],
) -> Ensured:
    """Return when the texts of *works* have vectors in the store, or why some have none."""
    lane = min((work.job.lane for work in works), default=Lane.BACKFILL)
    ensured = Ensured()
    alike: dict[tuple[bool, int | None], list[Work]] = {}
    damaged = await _damaged(store, works)
    for work in works:
        force = work.job.force and work.job.job not in damaged
        alike.setdefault((force, _together(work.job, policy)), []).append(work)
    for (force, together), mine in alike.items():
        wanted = _wanted(mine)
        if len(mine) == 1 and len(wanted) > PORTION_PIECES:
            asks = partial(embedding.ensure, lane=Lane.BACKFILL, force=force, together=together)
            await _ensure_large(ensured, asks, store, mine[0].job, wanted, held)
        else:
            asks = partial(embedding.ensure, lane=lane, force=force, together=together)
            _merge(ensured, await asks(wanted))
    return ensured


async def _ensure_large(
    ensured: Ensured,
    asks: Callable[[Mapping[Want, str]], Awaitable[Ensured]],
    store: Store,
    job: Job,
    wanted: Mapping[Want, str],
    held: Callable[[], frozenset[int]],
) -> None:
    """Ask for one document's texts slice by slice, and end early where going on is in vain."""
    done = 0
    for part in _batched(wanted.items(), PORTION_PIECES):
        _merge(ensured, await asks(dict(part)))
        if ensured.refused:
            return
        done += len(part)
        await store.advance(job.key, done, len(wanted))
        if job.job in held():
            return


def _batched(texts: Iterable[tuple[Want, str]], size: int) -> Iterator[list[tuple[Want, str]]]:
    """Cut *texts* into lists of *size*; `itertools` has this from Python 3.12 on."""
    left = iter(texts)
    while part := list(islice(left, size)):
        yield part


def _merge(ensured: Ensured, part: Ensured) -> None:
    ensured.embedded |= part.embedded
    ensured.reused |= part.reused
    ensured.refused |= part.refused


async def _damaged(store: Store, works: Sequence[Work]) -> set[int]:
    """Return the forced jobs of published documents that have lost vectors.

    Whoever forces such a document wants it whole again: only what is lost costs anything. Its
    own rows tell, not whether its texts' vectors are known: a twin may have brought them back.
    """
    forced: dict[Scope, dict[Id, int]] = {}
    for work in works:
        if work.job.force and work.published:
            forced.setdefault(work.job.key.scope, {})[work.job.key.id] = work.job.job
    return {
        jobs[id_]
        for scope, jobs in forced.items()
        for id_ in await store.damaged(scope, list(jobs))
    }


def _together(job: Job, policy: Policy) -> int | None:
    """Return with how many texts those of *job* may share a request; None: as many as fit.

    A request may break for one of its texts without telling which. After each failure they
    travel in smaller company, and at last alone, so that the guilty one takes no mate along.
    """
    if not job.attempts:
        return None
    if policy.exhausted(job.attempts + 1):
        return 1
    return max(1, RETRY_TOGETHER >> (3 * (job.attempts - 1)))


def _wanted(works: Iterable[Work]) -> dict[Want, str]:
    return {
        (work.job.key.tenant, piece.digest): piece.chunk.embedded
        for work in works
        for piece in pieces_of(work)
    }


def pieces_of(work: Work) -> tuple[Piece, ...]:
    return work.prepared.pieces if work.prepared else ()

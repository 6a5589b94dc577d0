"""How fresh a collection is, from what is stored and what is not in sync yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evervec.capture import SCAN
from evervec.errors import EvervecError
from evervec.model import Coming, Id, Key, Scope, show_id
from evervec.ports import Registered
from evervec.serve import Engine
from evervec.state import State


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """The numbers people look at first. Times are seconds."""

    tenant: str
    name: str
    documents: int
    chunks: int
    fresh: float
    """Share of the documents whose newest text is searchable, from 0 to 1."""
    lag_p50: float | None
    lag_p99: float | None
    backlog: int
    oldest: float | None
    """Age of the oldest change that is not searchable yet."""
    failed: int
    model: str
    scanning: bool
    """The source's existing documents are still to be listed, so there are more to come."""
    unseen: int
    """How many changes no process has taken into the queue. They count as backlog."""
    trouble: str
    coming: tuple[Coming, ...] = ()
    """Large documents on their way, and how many of their chunks are embedded."""

    @property
    def health(self) -> str:
        if self.trouble:
            return "CRITICAL"
        return "DEGRADED" if self.failed else "HEALTHY"

    def on_the_way(self) -> list[str]:
        """Say of each large document how far it is."""
        return [
            f"{show_id(each.id)} has {each.done:,} of {each.total:,} chunks embedded"
            for each in self.coming
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "documents": self.documents,
            "fresh": self.fresh,
            "lag_p50": self.lag_p50,
            "lag_p99": self.lag_p99,
            "backlog": self.backlog,
            "oldest": self.oldest,
            "failed": self.failed,
            "model": self.model,
            "tenant": self.tenant,
            "chunks": self.chunks,
            "scanning": self.scanning,
            "unseen": self.unseen,
            "trouble": self.trouble,
            "coming": [
                {"id": show_id(each.id), "done": each.done, "total": each.total}
                for each in self.coming
            ],
            "health": self.health,
        }


SAMPLE = 500
UNSEEN_MAX = 20_000


async def status_of(engine: Engine, registered: Registered) -> CollectionStatus:
    state, scope = engine.state, registered.scope
    trouble = engine.troubles.get(scope, "")
    waiting: Sequence[Id] | None = None
    try:
        waiting = await engine.unseen(registered, UNSEEN_MAX)
    except EvervecError as error:
        trouble = trouble or str(error)
    counts = await state.store.counts(scope)
    depth = await state.queue.depth(scope)
    space = await state.registry.space(registered.space)
    notes = await state.registry.notebook(registered.number).load(SCAN)
    unseen = await _not_queued(state, scope, waiting or ())
    backlog = depth.backlog + len(unseen)
    failed = depth.failed + depth.quarantined
    unsynced = backlog + failed
    lags = sorted(counts.lags)
    return CollectionStatus(
        scope.tenant,
        scope.collection,
        counts.documents,
        counts.chunks,
        freshness(counts.documents, unsynced, await _stored_share(state, scope, unseen)),
        _percentile(lags, 0.50),
        _percentile(lags, 0.99),
        backlog,
        None if depth.oldest is None else max(0, state.clock.now() - depth.oldest) / 1000,
        failed,
        space.model,
        bool(notes) or waiting is None or len(waiting) == UNSEEN_MAX,
        len(unseen),
        registered.halted or trouble,
        counts.coming,
    )


async def _not_queued(state: State, scope: Scope, waiting: Sequence[Id]) -> list[Key]:
    keys = [Key(scope.tenant, scope.collection, id_) for id_ in waiting]
    queued = await state.queue.find(keys) if keys else {}
    return [key for key in keys if key not in queued]


async def _stored_share(state: State, scope: Scope, unseen: Sequence[Key]) -> float:
    """Return which share of the documents that are not in sync have an older text in the store.

    Exact up to the sample's size; of more, the oldest jobs and changes speak for the rest.
    """
    jobs = await state.queue.jobs(scope=scope, limit=SAMPLE)
    keys = [*(job.key for job in jobs), *unseen[:SAMPLE]]
    if not keys:
        return 0.0
    stored = await state.store.look(keys)
    return sum(1 for each in stored.values() if not each.deleted) / len(keys)


def freshness(documents: int, unsynced: int, stored_share: float) -> float:
    """Return the share of documents whose newest text is searchable.

    A document with a job is either stored with an older text, or new and not counted yet.
    """
    stored = min(documents, round(unsynced * stored_share))
    total = documents + unsynced - stored
    return (documents - stored) / total if total else 1.0


def _percentile(ordered: list[int], share: float) -> float | None:
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1000

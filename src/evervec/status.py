"""How fresh a collection is, from what is stored and what is not in sync yet."""

from dataclasses import dataclass
from typing import Any

from evervec.capture import SCAN
from evervec.ports import Registered
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
    """The source's existing documents are still being listed, so there are more to come."""
    trouble: str

    @property
    def health(self) -> str:
        if self.trouble:
            return "CRITICAL"
        return "DEGRADED" if self.failed else "HEALTHY"

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
            "trouble": self.trouble,
            "health": self.health,
        }


async def status_of(state: State, registered: Registered, trouble: str) -> CollectionStatus:
    scope = registered.scope
    counts = await state.store.counts(scope)
    depth = await state.queue.depth(scope)
    space = await state.registry.space(registered.space)
    notes = await state.registry.notebook(registered.number).load(SCAN)
    failed = depth.failed + depth.quarantined
    lags = sorted(counts.lags)
    return CollectionStatus(
        scope.tenant,
        scope.collection,
        counts.documents,
        counts.chunks,
        freshness(counts.documents, depth.backlog, failed, scanning=bool(notes)),
        _percentile(lags, 0.50),
        _percentile(lags, 0.99),
        depth.backlog,
        None if depth.oldest is None else max(0, state.clock.now() - depth.oldest) / 1000,
        failed,
        space.model,
        bool(notes),
        registered.halted or trouble,
    )


def freshness(documents: int, backlog: int, failed: int, *, scanning: bool) -> float:
    """Return the share of documents in sync, never more than is certain.

    A job may be for a stored document or for a new one. While a scan goes on most are new.
    Otherwise each may hide a stored document's newer text, and counts against what is stored.
    """
    unsynced = backlog + failed
    if not unsynced:
        return 1.0
    if scanning:
        return documents / (documents + unsynced)
    return max(0, documents - unsynced) / max(documents, unsynced)


def _percentile(ordered: list[int], share: float) -> float | None:
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1000

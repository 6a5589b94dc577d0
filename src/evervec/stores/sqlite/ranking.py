"""Places in a ranking, and the order of places."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from evervec.model import Id, Scope
from evervec.stores.sqlite.chunks import Chunks, Hidden
from evervec.stores.sqlite.index import CollectionRow


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A chunk in the order of ties."""

    collection: str
    id: Id
    position: int
    chunk: int
    tenant: str = ""

    @property
    def document(self) -> tuple[str, str, Id]:
        return self.tenant, self.collection, self.id


@dataclass(frozen=True, slots=True)
class Target:
    """A collection to look in, with what a filter leaves of it."""

    scope: Scope
    row: CollectionRow
    allowed: Chunks | None
    hidden: Hidden


Ranking: TypeAlias = list[tuple[Place, float]]
"""Best first."""


def ordered(ranking: Iterable[tuple[Place, float]]) -> Ranking:
    """Sort by score; what is equal goes by collection, id and position."""
    return sorted(ranking, key=lambda entry: (-entry[1], entry[0]))


def best_of_each(ranking: Ranking) -> Ranking:
    """Keep each document's first chunk."""
    best: dict[tuple[str, str, Id], tuple[Place, float]] = {}
    for place, score in ranking:
        best.setdefault(place.document, (place, score))
    return list(best.values())

"""Chunks by their numbers: which of them no search sees, and where they are among others."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Chunks: TypeAlias = NDArray[np.int64]

NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A collection's chunks that no search sees, as the snapshot has them; each sorted."""

    coming: Chunks = field(default_factory=NONE.copy)
    going: Chunks = field(default_factory=NONE.copy)

    @property
    def all(self) -> Chunks:
        return np.concatenate([self.coming, self.going])


def places_of(numbers: Chunks, wanted: Chunks) -> Chunks:
    """Return where the *wanted* chunks are among *numbers*; some may not be there."""
    places = np.searchsorted(numbers, wanted).astype(np.int64)
    there = places < len(numbers)
    places, wanted = places[there], wanted[there]
    return np.compress(numbers[places] == wanted, places)

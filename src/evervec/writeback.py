"""A document's one vector, written into its own row: which vector, and for which text.

The store is asked what is published, and the source writes it only where the row still has the very
text that it is the vector of. So a late worker may write back what it likes: a vector of an older
text never lands on a newer one, and what is newer has its own job.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from evervec.model import Id, Key, Scope
from evervec.ports import RowVectors, Store, Vector, Wanted
from evervec.recipe import Recipe


async def write_back(
    rows: RowVectors,
    store: Store,
    scope: Scope,
    recipe: Recipe,
    ids: Iterable[Id],
    *,
    dry: bool = False,
) -> Mapping[Id, str]:
    """Give each row the vector of what is published of it.

    Return the rows that had another, each with why it refused this one, or "". With *dry*, only
    look. Rows that are gone or have another text by now are left alone.
    """
    published = await store.published([Key(scope.tenant, scope.collection, id_) for id_ in ids])
    wanted = {
        key.id: Wanted(held.digest, one_vector(held.vectors)) for key, held in published.items()
    }
    if not wanted:
        return {}
    return await rows.write_back(wanted, lambda document: recipe.rendered(document)[1], dry=dry)


def one_vector(vectors: Sequence[Vector]) -> Vector | None:
    """Return the mean direction of a document's chunks; None if it has none, being empty."""
    if not vectors:
        return None
    if len(vectors) == 1:
        return vectors[0]
    mean: Vector = np.mean(vectors, axis=0, dtype=np.float64)
    length = float(np.linalg.norm(mean))
    # Vectors that cancel out have no direction; then the first chunk speaks for the document.
    return (mean / length).astype(np.float32) if length > 1e-6 else vectors[0]

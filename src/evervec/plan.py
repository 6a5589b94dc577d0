"""What has to be done to bring documents in sync: pure decisions over what was read and stored."""

from collections.abc import Sequence
from dataclasses import dataclass

from evervec.model import Job, Stored, same_text
from evervec.recipe import Prepared


@dataclass(frozen=True, slots=True)
class Work:
    """One document on its way: its job, and what it is to become. None: it is gone."""

    job: Job
    prepared: Prepared | None
    version: int
    touch: bool = False
    """The store holds this very text: only its version and metadata move on."""
    published: bool = False
    """The store says that it holds this very text, and it is to be embedded all the same."""


def is_stored(digest: bytes, stored: Stored | None, space: int) -> bool:
    """Say whether the store already holds this very text, so that nothing has to be cut."""
    if stored is None or stored.deleted:
        return False
    return stored.space == space and same_text(stored.digest, digest)


def portions(works: Sequence[Work], pieces_max: int) -> list[list[Work]]:
    """Cut a batch of documents into portions of about *pieces_max* chunks.

    Each portion is published and settled as soon as it is embedded: what is done is searchable
    soon, a Ctrl-C loses little, and memory stays bounded. A larger document is its own portion.
    """
    found: list[list[Work]] = []
    size = 0
    for work in works:
        pieces = len(work.prepared.pieces) if work.prepared else 0
        if not found or (size and size + pieces > pieces_max):
            found.append([])
            size = 0
        found[-1].append(work)
        size += pieces
    return found

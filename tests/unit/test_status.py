"""How much is fresh, from what is counted."""

import pytest

from evervec.status import freshness


@pytest.mark.parametrize(
    ("documents", "unsynced", "stored_share", "fresh"),
    [
        (0, 0, 0.0, 1.0),
        (100, 0, 0.0, 1.0),
        (0, 3000, 0.0, 0.0),
        (500, 2500, 0.0, 500 / 3000),
        (100, 1, 1.0, 0.99),
        (100, 100, 1.0, 0.0),
        (100, 10, 0.5, 95 / 105),
    ],
)
def test_fresh_counts_new_documents_and_stale_ones(documents, unsynced, stored_share, fresh):
    """A new document with a job adds to the whole; a stored one with a job is taken from the fresh."""
    assert freshness(documents, unsynced, stored_share) == pytest.approx(fresh)


def test_one_stale_document_of_many_is_never_shown_as_all_fresh():
    assert freshness(1_000_000, 1, 1.0) < 1

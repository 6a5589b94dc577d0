"""Between two slices of a large document it is decided whether the next one is worth its price."""

import pytest

from evervec import ensuring
from evervec.backoff import Policy
from evervec.embedding import Embedding
from evervec.ensuring import ensure
from evervec.errors import LeaseLost, Permanent
from evervec.model import Chunk, Job, Key, Lane, Piece, encode_id
from evervec.plan import Work
from evervec.recipe import Prepared
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.testing.embedder import HashEmbedder, Trouble
from evervec.text.digest import text_digest

pytestmark = pytest.mark.anyio

SLICE, CHUNKS = 10, 45
JOB = Job(7, Key("", "articles", encode_id(1)), Lane.LIVE, 1, 0, force=False, since=0)


def work() -> Work:
    texts = [f"word{number}" for number in range(CHUNKS)]
    pieces = tuple(Piece(Chunk(text, 0, len(text)), text_digest(text)) for text in texts)
    return Work(JOB, Prepared(b"digest", pieces, {}), 1)


@pytest.fixture
async def store(monkeypatch):
    monkeypatch.setattr(ensuring, "PORTION_PIECES", SLICE)
    database = Database("file:/ensuring?vfs=memdb")
    store = SqliteStore(database)
    await store.open()
    yield store
    await store.close()
    await database.close()


def asked(model: HashEmbedder) -> int:
    return len(model.asked)


async def test_a_job_that_is_not_wanted_any_more_costs_no_further_slice(store):
    model = HashEmbedder()

    def held() -> frozenset[int]:
        return frozenset([JOB.job]) if asked(model) >= 2 * SLICE else frozenset()

    ensured = await ensure(Embedding(model, store, space=1), store, [work()], Policy(), held)

    assert asked(model) == len(ensured.embedded) == 2 * SLICE


async def test_a_lost_lease_ends_it_and_what_was_embedded_is_kept(store):
    model = HashEmbedder()

    def held() -> frozenset[int]:
        if asked(model) >= 3 * SLICE:
            raise LeaseLost("lease 1 was not renewed in time")
        return frozenset()

    embedding = Embedding(model, store, space=1)
    with pytest.raises(LeaseLost, match="not renewed"):
        await ensure(embedding, store, [work()], Policy(), held)
    again = await ensure(embedding, store, [work()], Policy(), frozenset)

    assert len(again.reused) == 3 * SLICE
    assert set(model.asked.values()) == {1}


async def test_after_a_refusal_nothing_more_is_asked_for(store):
    model = HashEmbedder(trouble=Trouble(fail_on="word14"))

    ensured = await ensure(Embedding(model, store, space=1), store, [work()], Policy(), frozenset)

    (refusal,) = ensured.refused.values()
    assert isinstance(refusal, Permanent)
    assert asked(model) == 2 * SLICE

"""What a model answered is kept at once, and little is sent that is not kept."""

import asyncio
import uuid

import numpy as np
import pytest

from evervec.embedding import Embedding
from evervec.errors import StateError
from evervec.ledger import Ledger
from evervec.model import Lane
from evervec.ports import Limits
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio


class SlowStore(SqliteStore):
    """Keeps vectors when it is told to."""

    def __init__(self, database):
        super().__init__(database)
        self.begun = 0
        self.free = asyncio.Semaphore(0)
        self.trouble = None
        self.commits = []

    async def keep(self, tenant, space, vectors):
        self.begun += 1
        await self.free.acquire()
        if self.trouble:
            trouble, self.trouble = self.trouble, None
            raise trouble
        await super().keep(tenant, space, vectors)
        self.commits.append((tenant, sorted(vectors)))


@pytest.fixture
async def store():
    database = Database(f"file:/{uuid.uuid4().hex}?vfs=memdb")
    store = SlowStore(database)
    await store.open()
    yield store
    await store.close()
    await database.close()


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - it is another task's doing
            await asyncio.sleep(0)


def vector(name, tenant="t"):
    return {(tenant, name): np.ones(2, np.float32)}


async def test_one_more_is_sent_than_the_model_has_places_and_then_answers_are_kept(store):
    model = HashEmbedder(limits=Limits(batch_texts_max=1, concurrency=3))
    embedding = Embedding(model, store, space=1)
    wanted = {("t", b"%02d" % number): f"text {number}" for number in range(20)}
    ensuring = asyncio.create_task(embedding.ensure(wanted, lane=Lane.BACKFILL))
    await until(lambda: store.begun)
    for _ in range(100):
        await asyncio.sleep(0)
    assert model.requests == 4
    for _ in wanted:
        store.free.release()
    assert (await ensuring).embedded == wanted.keys()
    assert model.requests == 20


async def test_answers_that_come_while_others_are_kept_share_a_commit(store):
    ledger = Ledger(store, 1)
    first = asyncio.create_task(ledger.keep(vector(b"a")))
    await until(lambda: store.begun)
    more = [vector(b"b"), vector(b"c"), vector(b"d", "u")]
    others = [asyncio.create_task(ledger.keep(each)) for each in more]
    await asyncio.sleep(0)
    for _ in range(3):
        store.free.release()
    await asyncio.gather(first, *others)
    assert store.commits == [("t", [b"a"]), ("t", [b"b", b"c"]), ("u", [b"d"])]


@pytest.mark.parametrize("how", ["trouble", "cancelled"])
async def test_who_shared_a_commit_that_failed_tries_alone(store, how):
    ledger = Ledger(store, 1)
    before = asyncio.create_task(ledger.keep(vector(b"a")))
    await until(lambda: store.begun)
    keeping = [asyncio.create_task(ledger.keep(vector(name))) for name in (b"b", b"c")]
    await asyncio.sleep(0)
    store.free.release()
    await until(lambda: store.begun == 2)
    if how == "trouble":
        store.trouble = StateError("the disk is full")
    else:
        keeping[0].cancel()
    for _ in range(2):
        store.free.release()
    told = await asyncio.gather(*keeping, return_exceptions=True)
    await before
    refused = StateError if how == "trouble" else asyncio.CancelledError
    assert [type(each) for each in told] == [refused, type(None)]
    assert store.commits == [("t", [b"a"]), ("t", [b"c"])]

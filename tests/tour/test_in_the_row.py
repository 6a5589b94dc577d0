"""Each row's vector in the row itself: it follows the text as the searchable one does."""

import sqlite3

import numpy as np
import pytest
from tests.tour.shop import HeldEmbedder, searchable, until

import evervec
from evervec.model import State
from evervec.text.chunk import ChunkRecipe

pytestmark = pytest.mark.anyio


@pytest.fixture
def shop(shop):
    shop.run("alter table articles add column meaning blob")
    return shop


def declared(app, shop, **more):
    spec = evervec.table(shop.path, "articles", into="meaning")
    return app.collection("articles", source=spec, text="{body}", **more)


def held(shop, id_):
    with sqlite3.connect(shop.path) as reader:
        ((value,),) = reader.execute("select meaning from articles where id = ?", (id_,)).fetchall()
    reader.close()
    return value


def of(model, text):
    return model.vector(text).astype("<f4").tobytes()


@pytest.mark.accepts("000-45", "000-46", "002-24")
async def test_a_rows_vector_is_kept_in_its_column_and_follows_its_text(shop, state, model):
    """It is there when the job is done, and writing it makes no new job."""
    shop.put((1, "one"), (2, "two"))
    async with evervec.App(state, model=model) as app:
        collection = declared(app, shop)
        await collection.synced()
        assert held(shop, 1) == of(model, "one")
        shop.put((1, "one anew"), (2, ""))
        await collection.synced()
        assert held(shop, 1) == of(model, "one anew")
        assert held(shop, 2) is None
        assert (await collection.verify()).drift == 0
        last = await app.state.events.last("")
        shop.run("update articles set seen = 5")
        await collection.synced()
        assert await app.state.events.last("") == last
    assert all(count == 1 for count in model.asked.values())


async def test_a_document_of_many_chunks_has_their_mean_direction(shop, state, model):
    text = " ".join(f"Sentence number {n} has words." for n in range(100))
    shop.put((1, text))
    async with evervec.App(state, model=model) as app:
        collection = declared(app, shop, chunk=ChunkRecipe(tokens_max=64))
        await collection.synced()
        assert (await collection.verify()).drift == 0
    chunks = [model.vector(asked) for asked in model.asked]
    assert len(chunks) > 3
    mean = np.mean(chunks, axis=0)
    value = np.frombuffer(held(shop, 1), "<f4")
    np.testing.assert_allclose(value, mean / np.linalg.norm(mean), atol=1e-6)


async def test_an_edit_during_a_slow_embedding_is_what_the_row_ends_with(shop, state):
    """The older text's vector is published, but never lands on the newer text."""
    model = HeldEmbedder("older")
    async with evervec.App(state, model=model) as app:
        collection = declared(app, shop)
        shop.put((1, "older words"))
        await model.reached.wait()
        shop.put((1, "newer words"))
        seen = [held(shop, 1)]
        model.go.set()

        async def newest():
            seen.append(held(shop, 1))
            return seen[-1] == of(model, "newer words")

        await until(newest, "the newer text's vector in the row")
        assert of(model, "older words") not in seen
        await collection.synced()
        assert (await collection.verify()).drift == 0


async def test_a_vector_that_somebody_else_wrote_is_drift_and_is_mended_for_nothing(
    shop, state, model
):
    shop.put((1, "one"), (2, "two"))
    async with evervec.App(state, model=model) as app:
        collection = declared(app, shop)
        await collection.synced()
        shop.run("update articles set meaning = x'00' where id = 2")
        assert (await collection.verify()).stale == 1
        assert (await collection.repair()).queued == 1
        await collection.synced()
        assert (await collection.verify()).drift == 0
    assert held(shop, 2) == of(model, "two")
    assert model.asked["two"] == 1


async def test_a_row_that_refuses_its_vector_fails_alone_and_can_be_replayed(shop, state, model):
    shop.put((1, "one"), (2, "two"))
    shop.run(
        "create trigger guard before update of meaning on articles when new.id = 1"
        " begin select raise(abort, 'under review'); end"
    )
    async with evervec.App(state, model=model) as app:
        collection = declared(app, shop)
        await collection.synced()
        (job,) = await app.state.queue.jobs(states=[State.FAILED])
        assert (job.key.id, job.kind) == ("1", "permanent")
        assert "the row refuses its vector: under review" in job.reason
        assert held(shop, 2) == of(model, "two")
        shop.run("drop trigger guard")
        await app.state.queue.replay([job.job])
        await collection.synced()
        assert (await collection.verify()).drift == 0
    assert held(shop, 1) == of(model, "one")
    assert model.asked["one"] == 1


async def test_a_locked_table_lets_the_vectors_wait_and_charges_nothing(shop, state, model):
    """Search has the document meanwhile."""
    async with evervec.App(state, model=model) as app:
        collection = declared(app, shop)
        shop.put((1, "older"))
        await searchable(collection, "older", 1)
        await collection.synced()
        shop.run("update articles set body = 'one'")
        shop.run("begin immediate")
        await searchable(collection, "one", 1)
        assert held(shop, 1) == of(model, "older")
        shop.run("commit")
        await collection.synced()
        assert held(shop, 1) == of(model, "one")


async def test_what_was_registered_without_a_column_is_told_the_choices(shop, state, model):
    """And takes the column when told to, without embedding anything again."""
    shop.put((1, "one"))
    async with evervec.App(state, model=model) as app:
        plain = app.collection(
            "articles", source=evervec.table(shop.path, "articles"), text="{body}"
        )
        await plain.synced()
        assert held(shop, 1) is None
    async with evervec.App(state, model=model) as app:
        collection = declared(app, shop, change=True)
        await collection.synced()
        assert held(shop, 1) == of(model, "one")
    assert model.asked["one"] == 1

"""Success is proved, and what drifted is mended: promise G8."""

import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest
from tests.tour.shop import HeldEmbedder, articles, found, searchable, until

import evervec
from evervec import verify
from evervec.errors import ConfigError
from evervec.model import LOCAL, Change, Key, Mode, State, encode_id
from evervec.sources.sqlite import TableSource
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio


def by_hand(path, *statements):
    """Damage the state as no program of ours would."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.accepts("001-48", "002-05")
async def test_verify_finds_each_kind_of_drift_and_sync_mends_it(shop, state, model):
    """Missing, stale and orphaned documents, each counted as what it is."""
    shop.put((1, "one"), (2, "two"), (3, "three"))
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await collection.synced()
        assert (await collection.verify()).to_json() == {
            "checked": 3,
            "missing": 0,
            "stale": 0,
            "orphaned": 0,
            "wrong_space": 0,
        }
        await app.state.queue.set_mode(Mode.PAUSED)
        shop.put((2, "two anew"), (4, "four"))
        shop.run("delete from articles where id = 3")
        report = await collection.verify()
        assert report.to_json() == {
            "checked": 4,
            "missing": 1,
            "stale": 1,
            "orphaned": 1,
            "wrong_space": 0,
        }
        assert (report.drift, len(report.examples)) == (3, 3)
        await app.state.queue.set_mode(Mode.RUNNING)
        await collection.synced()
        assert (await collection.verify()).drift == 0
        assert await found(collection, "three") == []


@pytest.mark.accepts("001-53", "001-55", "R-19")
async def test_a_lost_vector_is_noticed_and_repaired(shop, state, model):
    """The text is unchanged, so nothing else would ever embed it again."""
    shop.put((1, "kept"), (2, "lost"))
    async with evervec.App(state, model=model) as app:
        await articles(app, shop).synced()
    by_hand(
        state,
        "delete from store_vector where number in (select vector from store_chunk where text like '%lost%')",
    )
    async with evervec.App(state, model=model) as app:
        (registered,) = await app.collections()
        collection = evervec.Collection(app, registered.scope)
        report = await collection.verify()
        assert (report.missing, report.drift) == (1, 1)
        done = await collection.repair()
        assert (done.discovered, done.queued) == (1, 1)
        await collection.synced()
        assert (await collection.verify()).drift == 0
    assert model.asked["note\n\nlost"] == 2
    assert model.asked["note\n\nkept"] == 1


async def test_twins_that_lost_their_vector_are_repaired_at_the_price_of_one(shop, state, model):
    """The second finds the vector that the first brought back, and nothing of it is forced."""
    shop.put((1, "shared"), (2, "shared"))
    async with evervec.App(state, model=model) as app:
        await articles(app, shop).synced()
    by_hand(state, "delete from store_vector")
    async with evervec.App(state, model=model) as app:
        (registered,) = await app.collections()
        collection = evervec.Collection(app, registered.scope)
        for _ in range(2):
            assert (await collection.repair(limit=1)).queued == 1
            await collection.synced()
        assert (await collection.verify()).drift == 0
    assert model.asked["note\n\nshared"] == 2


@pytest.mark.accepts("R-18")
@pytest.mark.parametrize("stopped", [True])
async def test_a_lost_queue_loses_no_document(shop, state, model, tmp_path, stopped):
    """The queue in a file of its own: without it, repair finds what is missing."""
    queue = tmp_path / "queue.db"
    async with evervec.App(state, model=model, queue=queue) as app:
        collection = articles(app, shop)
        shop.put((1, "before"))
        await searchable(collection, "before", 1)
        await app.state.queue.set_mode(Mode.PAUSED)
        shop.put((2, "lost with the queue"))

        async def waits():
            return (await app.state.queue.depth()).backlog == 1

        await until(waits, "the job to be in the queue")
    assert stopped
    for part in tmp_path.glob("queue.db*"):
        part.unlink()
    async with evervec.App(state, model=model, queue=queue) as app:
        (registered,) = await app.collections()
        collection = evervec.Collection(app, registered.scope)
        await collection.synced()
        if (await collection.verify()).drift:
            await collection.repair(100)
            await collection.synced()
        assert await found(collection, "queue") == [2]
        assert (await collection.verify()).drift == 0
        shop.put((1, "after"))
        await searchable(collection, "after", 1)


@pytest.mark.accepts("001-49", "001-50", "001-51", "001-56", "001-58")
async def test_a_repair_is_bounded(shop, state, model, monkeypatch):
    """Ten documents unless told otherwise; never more than the limit, none twice, few looked at."""
    monkeypatch.setattr(verify, "PAGE", 20)
    looked_at = []
    scan = TableSource.scan

    async def scanned(self, after, limit):
        page = await scan(self, after, limit)
        looked_at.append(len(page))
        return page

    monkeypatch.setattr(TableSource, "scan", scanned)
    shop.put(*((n, f"row {n}") for n in range(1, 1001)))
    app = evervec.App(state, model=model)
    await app.open()
    try:
        collection = articles(app, shop)
        await app.collections()
        first = await collection.repair()
        assert (first.discovered, first.queued) == (10, 10)
        assert looked_at == [20]
        second = await collection.repair(50)
        assert (second.discovered, second.queued) == (50, 50)
        assert (await app.state.queue.depth()).backlog == 60
        assert str(second) == "discovered 50 · queued 50"
        with pytest.raises(ConfigError, match="does nothing"):
            await collection.repair(0)
    finally:
        await app.close()


@pytest.mark.accepts("R-20")
async def test_what_cannot_be_embedded_does_not_fill_every_repair(shop, state, model):
    """Ten failed documents come first; the repair reaches the healthy ones behind them."""
    model.trouble.fail_on = "poison"
    shop.put(*((n, f"poison {n}") for n in range(1, 11)), (11, "healthy"), (12, "healthy"))
    async with evervec.App(state, model=model) as app:
        await articles(app, shop).synced()
    by_hand(state, "delete from store_document where id in ('11', '12')", "delete from store_chunk")
    async with evervec.App(state, model=model) as app:
        (registered,) = await app.collections()
        collection = evervec.Collection(app, registered.scope)
        assert (await collection.verify()).missing == 12
        done = await collection.repair(limit=10)
        assert done.queued == 2
        await collection.synced()
        assert await found(collection, "healthy") == [11, 12]
        assert len(await app.state.queue.jobs(states=(State.FAILED,))) == 10


@pytest.mark.accepts("001-52")
async def test_a_repair_leaves_deleted_documents_alone(shop, state, model):
    """What was deleted is in sync: there is nothing to embed."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "gone"))
        await searchable(collection, "gone", 1)
        shop.run("delete from articles")
        await searchable(collection, "gone")
        done = await collection.repair()
    assert (done.discovered, done.queued) == (0, 0)


@pytest.mark.accepts("R-19", "001-54", "001-57")
async def test_force_embeds_an_unchanged_document_again_and_says_what_it_did(shop, state, model):
    """True: a new job. False: it waited already. No such document: an error."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "unchanged"), (2, "other"))
        await collection.synced()
        await app.state.queue.set_mode(Mode.PAUSED)
        assert await collection.force(1) is True
        assert await collection.force(1) is False
        with pytest.raises(ConfigError, match="no document '1'"):
            await collection.force("1")
        await app.state.queue.set_mode(Mode.RUNNING)
        await collection.synced()
        (status,) = await app.status()
    assert model.asked["note\n\nunchanged"] == 2
    assert model.asked["note\n\nother"] == 1
    assert status.chunks == 2


async def test_forcing_a_document_that_is_worked_on_embeds_it_once_more(shop, state):
    """A force that arrives late is not swallowed by the attempt under way."""
    model = HeldEmbedder("slow")
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "slow"))
        await model.reached.wait()
        assert await collection.force(1) is False
        model.go.set()
        await collection.synced()
    assert model.asked["note\n\nslow"] == 2


@pytest.mark.accepts("001-43", "001-70")
async def test_status_is_truthful_about_what_is_not_searchable_yet(shop, state):
    """Backlog, age and freshness while it works; all fresh afterwards."""
    model = HeldEmbedder("slow")
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "quick"))
        await searchable(collection, "quick", 1)
        shop.put((1, "slow"))
        await model.reached.wait()
        (status,) = await app.status()
        assert (status.documents, status.backlog, status.fresh) == (1, 1, 0.0)
        assert status.oldest is not None
        model.go.set()
        await collection.synced()
        (status,) = await app.status()
    assert (status.backlog, status.fresh, status.oldest, status.health) == (0, 1.0, None, "HEALTHY")
    assert status.lag_p50 is not None
    assert status.lag_p99 is not None
    assert status.lag_p99 >= status.lag_p50
    assert status.model == "hash-not-semantic"


@asynccontextmanager
async def only_looked_at(state, model):
    app = evervec.App(state, model=model)
    await app.open()
    try:
        yield app
    finally:
        await app.close()


@pytest.mark.accepts("001-43")
async def test_changes_that_nobody_follows_are_not_taken_for_fresh(shop, notes, state, model):
    """Status said 100 % and HEALTHY while the changes lay in the source's log, or the file was gone."""
    (notes / "one.md").write_text("one")
    async with evervec.App(state, model=model) as app:
        both = [articles(app, shop), app.collection("notes", source=evervec.folder(notes))]
        shop.put((1, "one"), (2, "two"))
        for collection in both:
            await collection.synced()
    async with only_looked_at(state, model) as app:
        assert [(each.unseen, each.fresh) for each in await app.status()] == [(0, 1.0)] * 2

    shop.put((2, "two, edited"), (3, "three"))
    (notes / "two.md").write_text("two")
    (notes / "one.md").unlink()
    async with only_looked_at(state, model) as app:
        for _ in range(2):
            table, folder = await app.status()
            assert (table.unseen, table.backlog, table.fresh) == (2, 2, 1 / 3)
            assert (folder.unseen, folder.backlog, folder.fresh) == (2, 2, 0.0)
        # What waits in the queue already is not counted twice.
        await app.state.queue.put([Change(Key(LOCAL, "articles", encode_id(3)))])
        table, _ = await app.status()
        assert (table.unseen, table.backlog) == (1, 2)

    hidden = shop.path.rename(shop.path.with_suffix(".away"))
    async with only_looked_at(state, model) as app:
        table, folder = await app.status()
        assert "is gone" in table.trouble
        assert (table.health, folder.health) == ("CRITICAL", "HEALTHY")
    hidden.rename(shop.path)
    async with evervec.App(state, model=model) as app:
        await app.synced()
        assert [(each.backlog, each.fresh) for each in await app.status()] == [(0, 1.0)] * 2


async def test_a_copy_of_the_state_verifies_as_the_state_does(shop, state, model, tmp_path):
    """What is derived is rebuilt: the database file alone is the state."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "copied"))
        await searchable(collection, "copied", 1)
    copied = Path(shutil.copy(state, tmp_path / "copy.db"))
    app = evervec.App(copied, model=HashEmbedder())
    await app.open()
    try:
        (registered,) = await app.collections()
        collection = evervec.Collection(app, registered.scope)
        (hit,) = await collection.search("copied", mode="dense")
        assert hit.id == 1
        assert (await collection.verify()).drift == 0
    finally:
        await app.close()

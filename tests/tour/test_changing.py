"""Collections come, change and go while everything runs."""

import asyncio
import subprocess
import sys

import pytest
from tests.tour.shop import QUICK, articles, found, searchable, until

import evervec
from evervec.errors import ConfigError, RecipeChanged
from evervec.model import Mode
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio


@pytest.mark.accepts("R-16", "000-18", "000-21", "000-65")
async def test_a_collection_that_is_added_while_it_runs_is_followed_and_backfilled(
    shop, notes, state, model
):
    """Existing documents and new changes, of a table and of a folder."""
    shop.put((1, "there before"))
    (notes / "a.md").write_text("file before")
    async with evervec.App(state, model=model) as app:
        table = articles(app, shop, tenant="new tenant")
        folder = app.collection("notes", source=evervec.folder(notes))
        await searchable(table, "before", 1)
        await searchable(folder, "before", "a.md")
        shop.put((2, "written after"))
        (notes / "b.md").write_text("file after")
        await searchable(table, "after", 2)
        await searchable(folder, "after", "b.md")


@pytest.mark.accepts("R-16", "000-19")
async def test_what_another_app_registers_changes_and_removes_is_picked_up(shop, state, model):
    """One state, two programs: one serves what the other says."""
    shop.put((1, "there before"))
    async with evervec.App(state, model=model) as serving:
        registering = evervec.App(state, model=HashEmbedder())
        await registering.open()
        try:
            collection = articles(registering, shop)
            await registering.collections()
            await searchable(collection, "before", 1)
            shop.put((2, "written after"))
            await searchable(collection, "after", 2)

            collection = articles(registering, shop, text="changed: {body}", change=True)
            await registering.collections()
            await searchable(collection, "changed", 1, 2)

            await registering.remove(collection)

            async def gone():
                return not await serving.collections() and not serving.engine.captures

            await until(gone, "the removal to arrive")
            assert await serving.search("before", mode="lexical") == []
        finally:
            await registering.close()


@pytest.mark.accepts("R-17", "000-21")
async def test_a_collection_can_be_reconfigured_ten_times(shop, state, model):
    """No call hangs; at the end everything is embedded by the last recipe, and only by it."""
    shop.put((1, "body"))
    async with evervec.App(state, model=model) as app:
        async with asyncio.timeout(30):
            for turn in range(10):
                collection = articles(app, shop, text=f"turn{turn} {{body}}", change=True)
                await app.collections()
            await searchable(collection, "turn9", 1)
            await collection.synced()
        assert await found(collection, "turn8") == []
        assert (await collection.verify()).drift == 0


@pytest.mark.accepts("000-19")
async def test_declaring_a_collection_again_changes_nothing(shop, state, model):
    """The same words, the same collection; the triggers are installed once."""
    async with evervec.App(state, model=model) as app:
        shop.put((1, "once"))
        await searchable(articles(app, shop), "once", 1)
        schema = shop.schema()
        again = articles(app, shop)
        await again.synced()
        assert shop.schema() == schema
        assert len(await app.collections()) == 1
    assert model.asked.total() == 1


async def test_another_recipe_is_refused_unless_it_is_wanted_and_another_model_always(
    shop, state, model
):
    """Nothing is embedded anew silently: it may cost money."""
    async with evervec.App(state, model=model) as app:
        articles(app, shop)
        await app.collections()
    app = evervec.App(state, model=model)
    articles(app, shop, text="{title}")
    with pytest.raises(RecipeChanged, match="registered with another recipe") as refused:
        await app.open()
    assert "change=True" in str(refused.value)
    await app.close()
    app = evervec.App(state, model=HashEmbedder(revision="2"))
    articles(app, shop)
    with pytest.raises(RecipeChanged, match="and this program has hash-not-semantic@2/32"):
        await app.open()
    await app.close()


@pytest.mark.accepts("R-27", "003-48")
async def test_a_collection_keeps_its_model(shop, state):
    """A new model needs a new name: the old vectors stay searchable until the new ones are there."""
    shop.put(*((n, f"row {n}") for n in range(1, 6)))
    async with evervec.App(state, model=HashEmbedder(dimension=32)) as app:
        old = articles(app, shop)
        await old.synced()
    app = evervec.App(state, model=HashEmbedder(dimension=48))
    articles(app, shop, change=True)
    with pytest.raises(RecipeChanged, match="vectors of two models cannot be compared") as refused:
        await app.open()
    await app.close()
    assert "evervec unwatch articles" in str(refused.value)

    async with evervec.App(state, model=HashEmbedder(dimension=48)) as app:
        new = articles(app, shop, name="articles 2")
        await new.synced()
        assert len(await new.search("row 3", mode="dense", k=10)) == 5
        (registered,) = [c for c in await app.collections() if c.scope.collection == "articles"]
        await app.remove(evervec.Collection(app, registered.scope))
        assert len(await app.search("row 3", mode="dense", k=10)) == 5


async def test_a_model_that_is_not_the_collections_serves_nothing_and_says_so(shop, state, model):
    """Two models never meet in one space; the other collections go on."""
    async with evervec.App(state, model=model) as app:
        await articles(app, shop).synced()
    async with evervec.App(state, model=HashEmbedder(revision="2")) as app:
        (status,) = await app.status()
        assert "is embedded with hash-not-semantic@1/32" in status.trouble
        assert status.health == "CRITICAL"
        with pytest.raises(ConfigError, match="this process has hash-not-semantic@2/32"):
            await app.search("anything")
        new = articles(app, shop, name="mine")
        shop.put((1, "goes on"))
        await searchable(new, "goes", 1)


@pytest.mark.accepts("R-18", "000-54", "001-01", "001-05")
async def test_the_queue_may_live_in_a_file_of_its_own(shop, state, model, tmp_path):
    """No job is written into the state then."""
    queue = tmp_path / "queue.db"
    async with evervec.App(state, model=model, queue=queue) as app:
        collection = articles(app, shop)
        await app.collections()
        await app.state.queue.set_mode(Mode.PAUSED)
        shop.put((1, "elsewhere"))

        async def waits():
            return (await app.state.queue.depth()).backlog == 1

        await until(waits, "the job to wait")
        assert app.state.queue_database.path != app.state.database.path
        await app.state.queue.set_mode(Mode.RUNNING)
        await searchable(collection, "elsewhere", 1)
    assert queue.exists()


async def test_facts_of_a_queue_in_its_own_file_are_in_the_one_log_exactly_once(
    shop, state, model, tmp_path
):
    """Otherwise nobody who reads the events would ever hear of a failed job."""
    async with evervec.App(state, model=model, queue=tmp_path / "queue.db") as app:
        articles(app, shop)
        await app.state.queue.set_mode(Mode.PAUSED)
        await app.state.queue.set_mode(Mode.RUNNING)
        await asyncio.gather(app.state.gather_facts(), app.state.gather_facts())
        await app.state.gather_facts()
        facts = await app.state.events.events(tenant="", after=0, limit=100)
        told = [fact.type for fact in facts if fact.type.startswith("queue.")]
        assert told == ["queue.paused", "queue.resumed"]


TIMES = """
import asyncio, json, sys, evervec
from evervec.model import Change, Key, encode_id
from evervec.holder import this_process
from evervec.outcome import Retry
from evervec.testing.embedder import HashEmbedder

async def main():
    app = evervec.App(sys.argv[1], model=HashEmbedder())
    await app.open()
    queue = app.state.queue
    if sys.argv[2] == "delay":
        await queue.put([Change(Key("", "c", encode_id(1)))])
        lease = await queue.claim(1, holder=this_process("t"), lease_for=60)
        await queue.settle(lease.fence, {lease.jobs[0].job: Retry(3600, "later", "transient")})
    (job,) = await queue.jobs()
    print(json.dumps([job.due, job.due - app.state.clock.now() > 3500 * 1000]))
    await app.close()

asyncio.run(main())
"""


@pytest.mark.accepts("R-26")
def test_a_host_in_another_time_zone_sees_the_same_due_times(state):
    """Times are UTC, whatever TZ says."""

    def at(zone, what):
        done = subprocess.run(
            [sys.executable, "-c", TIMES, str(state), what],
            env={"TZ": zone, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    delayed = at("Pacific/Kiritimati", "delay")
    assert "true" in delayed
    assert at("Pacific/Pago_Pago", "look") == delayed
    assert at("Asia/Kathmandu", "look") == delayed


@pytest.mark.accepts("R-26", "002-09", "001-73")
async def test_two_apps_on_one_state_share_the_work_and_lose_none(shop, state):
    """Two reapers, two captures, two workers: each text is embedded once all the same."""
    one, two = HashEmbedder(), HashEmbedder()
    one.trouble.failing = two.trouble.failing = 1
    async with (
        evervec.App(state, model=one, settings=QUICK) as first,
        evervec.App(state, model=two, settings=QUICK) as second,
    ):
        collection = articles(first, shop)
        shop.put(*((n, f"row {n}") for n in range(1, 301)))
        await searchable(collection, "row", *range(1, 301))
        await second.synced()
        await collection.synced()
        assert (await collection.verify()).drift == 0
        assert await second.state.queue.jobs() == []
        facts = await first.state.events.events(tenant="", after=0, limit=10_000)
    indexed = [fact for fact in facts if fact.type == "document.indexed"]
    assert len({fact.document for fact in indexed}) == 300
    # Both captures may put one change; who comes second finds the text known, and pays nothing.
    assert sum(fact.data["embedded"] for fact in indexed) == 300

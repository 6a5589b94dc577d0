"""What a program sees: values, errors in words, the same with and without `await`."""

import asyncio
import inspect

import pytest
from tests.tour.shop import HeldEmbedder, articles, found, searchable, until

import evervec
import evervec.sync
from evervec.errors import ConfigError
from evervec.model import Key, encode_id
from evervec.settings import Settings, Work
from evervec.testing.embedder import HashEmbedder


def public(kind):
    return {
        name: member
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and callable(member)
    }


ASYNC_ONLY = {
    "opened",  # lends a source to code that awaits
}


@pytest.mark.parametrize(
    ("awaited", "plain"),
    [
        (evervec.App, evervec.sync.App),
        (evervec.Collection, evervec.sync.Collection),
    ],
)
def test_the_surface_without_await_has_the_same_names_and_parameters(awaited, plain):
    """A method that only one of them has would be missed by half of the users."""
    wanted = {name: inspect.signature(member) for name, member in public(awaited).items()}
    for name in ASYNC_ONLY & wanted.keys():
        del wanted[name]
    have = {name: inspect.signature(member) for name, member in public(plain).items()}
    assert have.keys() == wanted.keys()
    for name, signature in wanted.items():
        assert list(have[name].parameters) == list(signature.parameters), name
        for one, other in zip(
            have[name].parameters.values(), signature.parameters.values(), strict=True
        ):
            assert (one.kind, one.default) == (other.kind, other.default), (name, one)


def test_the_app_without_await_takes_the_same_arguments():
    """All but the clock, which only tests set."""
    awaited = dict(inspect.signature(evervec.App).parameters)
    del awaited["clock"]
    assert list(inspect.signature(evervec.sync.App).parameters) == list(awaited)


def test_a_script_needs_no_await(shop, state):
    """The whole way in plain calls."""
    shop.put((1, "no await here"))
    with evervec.sync.App(state, model=HashEmbedder()) as app:
        collection = app.collection(
            "articles", source=evervec.table(shop.path, "articles"), text="{body}"
        )
        collection.synced()
        (hit,) = collection.search("await", k=1)
        assert (hit.id, hit.fresh) == (1, True)
        assert collection.verify().drift == 0
        assert collection.repair().queued == 0
        assert collection.force(1) is True
        app.synced()
        assert collection.cancel(1) is False
        (status,) = app.status()
        assert status.documents == 1
        app.remove(collection)
        assert app.collections() == []


@pytest.mark.anyio
async def test_it_works_where_a_loop_is_running_already_as_in_a_notebook(shop, state):
    """Its own loop runs in a thread of its own."""
    assert asyncio.get_running_loop().is_running()
    with evervec.sync.App(state, model=HashEmbedder()) as app:
        collection = app.collection(
            "articles", source=evervec.table(shop.path, "articles"), text="{body}"
        )
        shop.put((1, "from a cell"))
        collection.synced()
        assert [hit.id for hit in collection.search("cell")] == [1]
        assert "checked 1" in collection.verify()._repr_html_()


@pytest.mark.anyio
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_function_is_a_model_from_the_first_day(shop, state, asynchronous):
    """Texts in, rows of numbers out; its dimension is found out by asking it once."""
    seen = []

    def plain(texts):
        seen.extend(texts)
        return [[float(len(text)), 1.0, float("tides" in text)] for text in texts]

    async def awaited(texts):
        return plain(texts)

    async with evervec.App(state, model=awaited if asynchronous else plain) as app:
        collection = articles(app, shop)
        shop.put((1, "tides"), (2, "mountains"))
        await collection.synced()
        assert {hit.id for hit in await collection.search("tides", mode="dense")} == {1, 2}
        assert app.space.dimension == 3
    assert "note\n\ntides" in seen


@pytest.mark.anyio
async def test_what_is_no_model_is_refused_in_words(state):
    """Before anything runs."""
    with pytest.raises(ConfigError) as refused:
        async with evervec.App(state, model=42):
            pass
    assert "42" in str(refused.value)


@pytest.mark.anyio
async def test_an_app_that_does_not_run_says_so(state, model):
    """Nothing is None, nothing waits for ever."""
    app = evervec.App(state, model=model)
    with pytest.raises(ConfigError, match="the app is not running") as refused:
        await app.search("anything")
    assert "async with app" in str(refused.value)
    await app.open()
    try:
        with pytest.raises(ConfigError, match="does not run"):
            await app.synced()
    finally:
        await app.close()


@pytest.mark.anyio
async def test_opening_to_look_serves_nothing(shop, state, model):
    """Neither is a source followed nor a model asked, whatever is looked at."""
    shop.put((1, "not yet"))
    app = evervec.App(state, model=model)
    await app.open()
    try:
        one, two = articles(app, shop), articles(app, shop, name="two")
        assert (await one.verify()).missing == 1
        assert (await two.verify()).missing == 1
        assert app.engine.captures == []
        assert await app.state.queue.jobs() == []
    finally:
        await app.close()
    assert model.requests == 0


@pytest.mark.anyio
async def test_metadata_filters_a_search(shop, state, model):
    """Equality, or any of a list; hits carry it."""
    shop.put((1, "tea"), (2, "tea"), (3, "tea"))
    shop.run("update articles set seen = id")
    async with evervec.App(state, model=model) as app:
        collection = app.collection(
            "articles",
            source=evervec.table(shop.path, "articles"),
            text="{body}",
            metadata=["seen"],
        )
        await collection.synced()
        assert [hit.id for hit in await collection.search("tea", where={"seen": 2})] == [2]
        hits = await collection.search("tea", where={"seen": [1, 3]})
        assert {(hit.id, hit.metadata["seen"]) for hit in hits} == {(1, 1), (3, 3)}
        shop.run("update articles set seen = 7 where id = 2")
        await collection.synced()
        assert [hit.id for hit in await collection.search("tea", where={"seen": 7})] == [2]
    assert sum(n for text, n in model.asked.items()) <= 1 + 3  # the text once, three queries


@pytest.mark.anyio
async def test_a_worker_may_be_switched_off(shop, state, model):
    """Then this process captures, and another one works."""
    off = Settings(worker=Work(enabled=False))
    async with evervec.App(state, model=model, settings=off) as app:
        collection = articles(app, shop)
        shop.put((1, "for another"))

        async def waits():
            return bool(await app.state.queue.find([Key("", "articles", encode_id(1))]))

        await until(waits, "the job to wait")
        assert model.requests == 0
        async with evervec.App(state, model=HashEmbedder()):
            await searchable(collection, "another", 1)
    assert model.requests == 0


@pytest.mark.anyio
@pytest.mark.accepts("003-34")
async def test_leaving_the_block_finishes_what_is_in_hand(shop, state):
    """Nothing is done twice because somebody said stop."""
    model = HeldEmbedder("in hand")
    async with evervec.App(state, model=model) as app:
        articles(app, shop)
        shop.put((1, "in hand"))
        await model.reached.wait()
        app.engine.stopping.set()
        model.go.set()
    app = evervec.App(state, model=model)
    await app.open()
    try:
        (registered,) = await app.collections()
        collection = evervec.Collection(app, registered.scope)
        assert await found(collection, "hand") == [1]
        assert await app.state.queue.jobs() == []
    finally:
        await app.close()
    assert model.asked.total() == 1


@pytest.mark.anyio
@pytest.mark.accepts("001-71")
async def test_each_transition_is_a_fact_with_a_number(shop, state, model):
    """Numbered without gaps, oldest first; a reader that was away goes on from its last number."""
    model.trouble.fail_on = "poison"
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "first"))
        await searchable(collection, "first", 1)
        last = await app.state.events.last("")
        shop.put((1, "poison"))
        await collection.synced()
        (job,) = await app.state.queue.jobs()
        await app.state.queue.replay([job.job])
        await collection.synced()
        await collection.cancel(1)
        shop.run("delete from articles")
        await searchable(collection, "first")
        everything = await app.state.events.events(tenant="", after=0, limit=1000)
        rest = await app.state.events.events(tenant="", after=last, limit=1000)
    assert [fact.number for fact in everything] == list(range(1, len(everything) + 1))
    assert list(everything[last:]) == list(rest)
    types = [fact.type for fact in everything]
    assert types[0] == "document.indexed"
    assert {"job.failed", "job.replayed"} <= set(types)
    assert types[-1] == "document.deleted"
    assert {fact.document for fact in everything} == {"1"}
    assert everything[0].data["embedded"] == 1
    assert everything[0].data["lag_ms"] >= 0
    (failed, *_) = [fact for fact in everything if fact.type == "job.failed"]
    assert (failed.data["attempts"], failed.data["kind"]) == (1, "permanent")
    assert all("first" not in str(fact.data) for fact in everything), "a text is in no fact"


@pytest.mark.anyio
async def test_what_is_refused_while_it_runs_is_raised_by_the_next_call(shop, state, model):
    """Once, to whoever awaits next; what was declared beside it is served."""
    async with evervec.App(state, model=model) as app:
        app.collection("bad", source=evervec.table(shop.path, "artikel"), text="{body}")
        good = articles(app, shop)
        with pytest.raises(ConfigError, match="artikel") as refused:
            await app.synced()
        assert "articles" in str(refused.value)
        shop.put((1, "goes on"))
        await searchable(good, "goes", 1)
        assert [each.scope.collection for each in await app.collections()] == ["articles"]


def test_a_collection_declared_just_before_the_end_is_registered(shop, state):
    """Closing does not forget it."""
    with evervec.sync.App(state, model=HashEmbedder()) as app:
        app.collection("late", source=evervec.table(shop.path, "articles"), text="{body}")
    with evervec.sync.App(state, model=HashEmbedder()) as app:
        assert [each.scope.collection for each in app.collections()] == ["late"]

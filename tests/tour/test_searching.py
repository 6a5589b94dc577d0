"""Searching as a program does it: several collections, conditions, reasons, a judge, recall."""

import logging

import pytest
from tests.tour.shop import articles

import evervec
import evervec.sync
from evervec.errors import ConfigError


def judge(query, texts):
    """Those first that have the fewest letters."""
    return [-len(text) for text in texts]


async def test_conditions_reasons_and_a_judge_in_one_search(shop, state, model):
    shop.put(*[(number, "moon " * number) for number in range(1, 9)])
    async with evervec.App(state, model=model) as app:
        moons = app.collection(
            "moons",
            source=evervec.table(shop.path, "articles"),
            text="{body}",
            metadata=["id"],
        )
        await moons.synced()

        hits = await moons.search(
            "moon", 3, where={"id": {">=": 3, "!=": 4}}, explain=True, rerank=judge
        )
        assert [hit.id for hit in hits] == [3, 5, 6]
        assert [hit.reranked for hit in hits] == [-len(hit.text) for hit in hits]
        for hit in hits:
            assert hit.explained is not None
            assert hit.explained.words == ("moon",)
            assert hit.text[slice(*hit.highlights[0])] == "moon"
        unjudged = await moons.search("moon", 3, where={"id": {"<": 5}})
        assert all(hit.reranked is None and hit.explained is None for hit in unjudged)


async def test_a_judge_sees_more_hits_than_are_asked_for_and_no_more_than_it_wants(
    shop, state, model
):
    shop.put(*[(number, f"moon {'x' * number}") for number in range(1, 30)])
    seen = []

    def counting(query, texts):
        seen.append(len(texts))
        return judge(query, texts)

    async with evervec.App(state, model=model) as app:
        moons = articles(app, shop)
        await moons.synced()
        assert [hit.id for hit in await moons.search("moon", 1, rerank=counting)] == [1]
        await moons.search("moon", 1, rerank=evervec.Rerank(counting, depth=7))
        await moons.search("moon", 9, rerank=evervec.Rerank(counting, depth=7))
        assert seen == [29, 7, 9]


async def test_several_collections_at_once_and_one_named_twice(shop, state, model):
    shop.put((1, "tides"))
    async with evervec.App(state, model=model) as app:
        for name in ("one", "two", "three"):
            await articles(app, shop, name=name).synced()
        hits = await app.search("tides", collections=["two", "one", "two"])
        assert [hit.collection for hit in hits] == ["one", "two"]
        assert len(await app.search("tides")) == 3


async def test_recall_is_measured_with_what_is_stored(shop, state, model):
    shop.put(*[(number, f"number {number}") for number in range(1, 40)])
    async with evervec.App(state, model=model) as app:
        await articles(app, shop).synced()
        empty = articles(app, shop, name="empty", tenant="other")
        (told,) = await app.check_recall(5)
        assert (told.collection, told.chunks, told.sampled) == ("articles", 39, 5)
        assert (told.recall, told.index, told.compared) == (1.0, "exact", 39)
        (all_,) = await app.check_recall(1000)
        assert all_.sampled == 39
        await empty.synced()
        with pytest.raises(ConfigError, match="0 samples"):
            await app.check_recall(0)
        with pytest.raises(ConfigError, match="no collection 'unknown'"):
            await app.check_recall(collections=["unknown"])


def test_all_of_it_without_await(shop, state, model, caplog):
    shop.put((1, "moon moon"), (2, "moon"))
    with evervec.sync.App(state, model=model) as app:
        moons = app.collection("moons", source=evervec.table(shop.path, "articles"), text="{body}")
        moons.synced()
        with caplog.at_level(logging.WARNING):
            assert [hit.id for hit in moons.search("moon", rerank=judge)] == [2, 1]
            assert app.search("moon", explain=True)[0].explained is not None
            assert app.check_recall()[0].recall == 1
        assert caplog.text == ""

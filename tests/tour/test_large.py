"""A large document comes by and by: seen by everybody, in nobody's way, and paid for once."""

import pytest
from tests.tour.shop import HeldEmbedder, articles, found, searchable

import evervec
from evervec import attempt, ensuring
from evervec.cli.live import View
from evervec.cli.words import parser
from evervec.ports import Limits
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio

CHUNKS, SLICE = 100, 16


class SlowReader(HeldEmbedder):
    """Two requests at a time, of four texts each; one of them is held."""

    @property
    def limits(self) -> Limits:
        return Limits(batch_texts_max=4, concurrency=2)


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch):
    monkeypatch.setattr(ensuring, "PORTION_PIECES", SLICE)
    monkeypatch.setattr(attempt, "LARGE_CHARS", 10_000)


def long_text(word: str, *, first: int = 0) -> str:
    return "\n\n".join(" ".join([f"{word}{n}"] * 190) for n in range(first, CHUNKS))


@pytest.mark.accepts("003-78")
async def test_what_shares_a_lease_with_a_large_document_or_comes_later_overtakes_it(shop, state):
    """And while it is on its way, people see how far it is."""
    model = SlowReader("ebb50")
    shop.put((1, long_text("ebb")), (2, "beside it"), (3, "behind it"))
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await model.reached.wait()
        await searchable(collection, "beside", 2)
        await searchable(collection, "behind", 3)
        shop.put((4, "an edit that comes later"))
        await searchable(collection, "later", 4)

        (status,) = await app.status()
        (coming,) = status.coming
        assert (coming.id, coming.done, coming.total) == ("1", 3 * SLICE, CHUNKS)
        assert status.to_json()["coming"] == [{"id": "1", "done": 48, "total": CHUNKS}]
        view = View(parser().parse_args(["sync"]), app, progress=True)
        await view.look()
        assert "1 has 48 of 100 chunks embedded" in view.sentence([status])
        assert await found(collection, "ebb1") == []

        model.go.set()
        await searchable(collection, "ebb1", 1)
        await collection.synced()
        (status,) = await app.status()
        assert status.coming == ()
        facts = await app.state.events.events(tenant="", after=0, limit=100)
        told = [dict(fact.data) for fact in facts if fact.type == "document.staged"]
        assert [each["done"] for each in told] == [16, 32, 48, 64, 80, 96, 100]
        assert {each["total"] for each in told} == {CHUNKS}
    assert max(model.asked.values()) == 1


async def test_what_a_stopped_program_had_embedded_is_not_paid_for_again(shop, state):
    """Also if the document was edited meanwhile: what the edit left is known."""
    first = SlowReader("ebb50")
    shop.put((1, long_text("ebb")))
    app = evervec.App(state, model=first)
    async with app:
        articles(app, shop)
        await first.reached.wait()
        shop.put((1, long_text("flow", first=90) + "\n\n" + long_text("ebb", first=10)))
        first.trouble.failing = 1000
        first.go.set()
    known = first.asked
    second = HashEmbedder()
    async with evervec.App(state, model=second) as app:
        collection = articles(app, shop)
        await collection.synced()
        assert (await collection.verify()).drift == 0
        assert await found(collection, "flow95") == [1]
    assert 30 < len(second.asked) < 90
    twice = [text for text in known & second.asked if "ebb" in text]
    assert len(twice) <= 2 * 4 * 2, "at most what was under way"

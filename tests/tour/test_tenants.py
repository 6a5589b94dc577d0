"""Tenants are walls: promise G10."""

import pytest
from tests.tour.shop import Shop, articles, found, searchable

import evervec
from evervec.errors import ConfigError

pytestmark = pytest.mark.anyio


@pytest.fixture
def other(tmp_path):
    shop = Shop(tmp_path / "other.db")
    yield shop
    shop.close()


async def both(app, shop, other):
    mine = articles(app, shop, tenant="a")
    theirs = articles(app, other, tenant="b")
    shop.put((1, "shared words"), (2, "only of a"))
    other.put((1, "shared words"))
    await mine.synced()
    await theirs.synced()
    return mine, theirs


@pytest.mark.accepts("000-40", "003-51")
async def test_search_stays_with_its_tenant(shop, other, state, model):
    """The same collection name, the same id, the same text: and two documents."""
    async with evervec.App(state, model=model) as app:
        mine, theirs = await both(app, shop, other)
        assert await found(mine, "shared") == [1]
        assert await found(theirs, "only") == []
        assert len(await app.search("words", tenant="a", mode="lexical")) == 1
        assert await app.search("words", mode="lexical") == []
        with pytest.raises(ConfigError, match="no collection 'articles' is registered"):
            await app.find("articles", tenant="c")
    # A vector is never shared between tenants, not even for the same text.
    assert model.asked["note\n\nshared words"] == 2


async def test_an_error_of_one_tenant_names_nothing_of_another(shop, other, state, model):
    """Not even which collections it has."""
    async with evervec.App(state, model=model) as app:
        articles(app, shop, tenant="a", name="secret plans")
        with pytest.raises(ConfigError) as refused:
            await app.find("articles", tenant="b")
    assert "secret" not in str(refused.value)


async def test_verify_status_and_events_stay_with_their_tenant(shop, other, state, model):
    """Drift, counts and facts of one are not those of the other."""
    model.trouble.fail_on = "poison"
    async with evervec.App(state, model=model) as app:
        mine, theirs = await both(app, shop, other)
        shop.put((3, "poison"))
        await mine.synced()
        assert (await mine.verify()).missing == 1
        assert (await theirs.verify()).to_json()["checked"] == 1
        assert (await theirs.verify()).drift == 0
        (a,) = await app.status(tenant="a")
        (b,) = await app.status(tenant="b")
        assert (a.failed, b.failed, a.documents, b.documents) == (1, 0, 2, 1)
        facts = await app.state.events.events(tenant="b", after=0, limit=100)
        assert {(fact.tenant, fact.document) for fact in facts} == {("b", "1")}
        assert (await app.state.events.events(tenant="a", after=0, limit=1))[0].number == 1
        assert facts[0].number == 1


async def test_what_one_tenant_forgets_the_other_keeps(shop, other, state, model):
    """Removing a collection touches one tenant's rows alone."""
    async with evervec.App(state, model=model) as app:
        mine, theirs = await both(app, shop, other)
        await mine.remove()
        assert await found(theirs, "shared") == [1]
        other.put((5, "still followed"))
        await searchable(theirs, "followed", 5)


@pytest.mark.accepts("R-15")
async def test_a_large_tenant_does_not_keep_a_small_one_waiting(shop, other, state, model):
    """One document of b is searchable while thousands of a wait."""
    shop.put(*((n, f"backlog {n}") for n in range(1, 5001)))
    model.trouble.latency = 0.02
    async with evervec.App(state, model=model) as app:
        articles(app, shop, tenant="a")
        theirs = articles(app, other, tenant="b")
        other.put((1, "just one"))
        await searchable(theirs, "just", 1)
        (status,) = await app.status(tenant="a")
        assert status.backlog > 0 or status.scanning

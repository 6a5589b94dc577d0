"""Trouble is not failure, and nobody starves: promises G6 and G7."""

from dataclasses import replace
from itertools import pairwise

import pytest
from tests.tour.shop import (
    QUICK,
    HeldEmbedder,
    articles,
    found,
    searchable,
    until,
)

import evervec
from evervec.errors import LeaseLost, Transient, Unavailable
from evervec.holder import this_process
from evervec.keeper import Keeper
from evervec.model import Change, Key, Lane, Mode, Publication, State, Verdict, encode_id
from evervec.outcome import Done
from evervec.settings import Settings, Work
from evervec.testing.clock import VirtualClock
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio


async def failed_jobs(app):
    return await app.state.queue.jobs(states=(State.FAILED,))


@pytest.mark.accepts(
    "R-12", "001-16", "001-17", "001-34", "002-19", "002-25", "002-27", "003-37", "000-58"
)
async def test_a_poison_document_fails_alone_with_its_reason(shop, state, model):
    """The other 49 of its batch are searchable; what failed says why, and how it failed."""
    model.trouble.poison = "poison"
    shop.put(*((n, f"healthy {n}") for n in range(1, 50)), (50, "this is poison"))
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await collection.synced()
        assert len(await found(collection, "healthy")) == 49
        (job,) = await failed_jobs(app)
        (status,) = await app.status()
    assert (job.key.id, job.kind, job.attempts) == ("50", "permanent", 1)
    assert "refuses this request" in job.reason
    assert "Permanent" in job.stack
    assert (status.failed, status.health) == (1, "DEGRADED")


@pytest.mark.accepts("000-58", "003-41")
@pytest.mark.parametrize("trouble", ["wide_on", "nan_on"])
async def test_an_answer_that_is_no_vector_is_never_stored(shop, state, model, trouble):
    """A wrong dimension or a number that is none fails the document it is for, and no other."""
    setattr(model.trouble, trouble, "odd")
    shop.put((1, "odd text"), (2, "healthy text"))
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await collection.synced()
        assert await found(collection, "text") == [2]
        (job,) = await failed_jobs(app)
    assert (job.key.id, job.kind) == ("1", "permanent")


@pytest.mark.accepts("001-65", "001-72", "002-26", "003-37")
async def test_what_failed_can_be_replayed_with_its_counters_at_zero(shop, state, model):
    """The failed job waits until a person says so; then it is a job like any other."""
    model.trouble.fail_on = "poison"
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "poison, they said"))
        await collection.synced()
        (job,) = await failed_jobs(app)
        model.trouble.fail_on = ""
        assert await app.state.queue.replay([job.job]) == 1
        await searchable(collection, "poison", 1)
        await collection.synced()
        assert await app.state.queue.find([job.key]) == {}


async def test_what_failed_is_tried_again_when_it_changes(shop, state, model):
    """A new text is a new chance."""
    model.trouble.fail_on = "poison"
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "poison"))
        await collection.synced()
        shop.put((1, "remedy"))
        await searchable(collection, "remedy", 1)
        assert await failed_jobs(app) == []


@pytest.mark.accepts("R-09", "001-31", "001-32", "001-33", "003-34", "003-36")
async def test_a_transient_failure_is_retried_after_its_backoff(shop, state, model):
    """Not before its time, not for ever, and it is charged."""
    model.trouble.failing = 2
    model.trouble.error = Transient("the line is noisy")
    async with evervec.App(state, model=model, settings=QUICK) as app:
        collection = articles(app, shop)
        shop.put((1, "worth another try"))
        await searchable(collection, "worth", 1)
        facts = await app.state.events.events(tenant="", after=0, limit=100)
    retries = [fact for fact in facts if fact.type == "job.retry_scheduled"]
    (indexed,) = [fact for fact in facts if fact.type == "document.indexed"]
    assert [fact.data["attempts"] for fact in retries] == [1, 2]
    assert {fact.data["after"] for fact in retries} == {0.2}
    times = [fact.at for fact in retries] + [indexed.at]
    # Rounded to milliseconds, three times.
    assert all(later - earlier >= 195 for earlier, later in pairwise(times))
    assert model.requests == 3


@pytest.mark.accepts("003-36")
async def test_a_worker_does_not_sleep_through_a_backoff(shop, state, model):
    """What waits for its time waits in the queue; the only slot goes on with others."""
    model.trouble.failing, model.trouble.error = 1, Transient("not now", after=3600.0)
    settings = Settings(worker=Work(slots=1))
    async with evervec.App(state, model=model, settings=settings) as app:
        collection = articles(app, shop)
        shop.put((1, "comes much later"))

        async def delayed():
            return [job.state for job in await app.state.queue.jobs()] == [State.DELAYED]

        await until(delayed, "the job to be put off")
        shop.put((2, "comes at once"))
        await searchable(collection, "comes", 2)
        (job,) = await app.state.queue.jobs(states=(State.DELAYED,))
    assert (job.key.id, job.attempts) == ("1", 1)


@pytest.mark.accepts("001-18", "002-07", "002-22", "003-35")
async def test_the_last_attempt_that_fails_is_final(shop, state, model):
    """With three attempts the model is asked three times, and then a person is."""
    model.trouble.failing = 1000
    async with evervec.App(state, model=model, settings=QUICK) as app:
        collection = articles(app, shop)
        shop.put((1, "never"))
        await until(lambda: _has(failed_jobs(app)), "the job to fail")
        (job,) = await failed_jobs(app)
        await collection.synced()
    assert (job.attempts, job.kind, model.requests) == (3, "transient", 3)


async def _has(jobs):
    return bool(await jobs)


async def test_a_text_that_always_fails_in_passing_takes_no_mate_along(shop, state):
    """A request that breaks for one text, without naming it, is tried again in ever smaller ones."""

    class Dazed(HashEmbedder):
        async def embed(self, texts, *, kind):
            vectors = await super().embed(texts, kind=kind)
            if any("dazes" in text for text in texts):
                raise Transient("no answer in time")
            return vectors

    settings = replace(QUICK, worker=replace(QUICK.worker, attempts=6))
    shop.put(*((n, f"healthy {n}") for n in range(1, 100)), (100, "this one dazes"))
    async with evervec.App(state, model=Dazed(), settings=settings) as app:
        collection = articles(app, shop)
        await collection.synced()
        assert len(await found(collection, "healthy")) == 99
        (job,) = await failed_jobs(app)
    assert (job.key.id, job.kind) == ("100", "transient")


@pytest.mark.accepts("002-04", "R-08")
async def test_an_outage_costs_no_attempt(shop, state, model):
    """Fifty refusals later the document has all its attempts, and work resumes by itself."""
    model.trouble.failing = 50
    model.trouble.error = Unavailable("the provider is down", after=0.01)
    settings = replace(QUICK, worker=replace(QUICK.worker, attempts=1, poll=0.02))
    async with evervec.App(state, model=model, settings=settings) as app:
        collection = articles(app, shop)
        shop.put((1, "patience"))
        await searchable(collection, "patience", 1)
        assert await failed_jobs(app) == []
        facts = await app.state.events.events(tenant="", after=0, limit=1000)
    assert not [fact for fact in facts if fact.type == "job.retry_scheduled"]
    assert model.requests == 51


@pytest.mark.accepts("R-11", "001-18")
async def test_sixty_failing_documents_do_not_keep_the_next_one_waiting(shop, state, model):
    """Those at the head are tried and step aside."""
    model.trouble.fail_on = "poison"
    shop.put(*((n, f"poison {n}") for n in range(1, 61)), (61, "healthy"))
    settings = Settings(worker=Work(claim=10, slots=1))
    async with evervec.App(state, model=model, settings=settings) as app:
        collection = articles(app, shop)
        await searchable(collection, "healthy", 61)
        await collection.synced()
        assert len(await failed_jobs(app)) == 60
    # Each of them once alone, and no more than the halving that finds them.
    assert model.asked["note\n\npoison 1"] <= 8


@pytest.mark.accepts("R-14")
async def test_a_document_under_constant_edits_is_embedded_behind_no_backlog(shop, state, model):
    """An edit every moment and ten thousand rows to go: live edits go first."""
    shop.put(*((n, f"backlog {n}") for n in range(1, 3001)))
    model.trouble.latency = 0.02
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((5000, "hot edit0"))
        edits = 0

        async def some_edit_is_searchable():
            nonlocal edits
            edits += 1
            shop.put((5000, f"hot edit{edits}"))
            return await found(collection, "hot") == [5000]

        await until(some_edit_is_searchable, "an edit while edits go on")
        (status,) = await app.status()
        assert status.backlog > 0 or status.scanning


@pytest.mark.accepts("R-05", "R-07", "000-27", "000-28", "000-31", "001-37", "001-38", "001-64")
async def test_a_worker_that_comes_too_late_changes_nothing(shop, state, model):
    """It can neither publish nor finish nor fail, and losing its lease costs the job nothing."""
    clock = VirtualClock()
    app = evervec.App(state, model=model, clock=clock)
    await app.open()
    try:
        articles(app, shop)
        await app.collections()
        key = Key("", "articles", encode_id(1))
        queue, store, holder = app.state.queue, app.state.store, this_process("late")
        await queue.put([Change(key)])
        keeper = Keeper(clock, lease_for=60)
        sent = keeper.sent()
        late = await queue.claim(1, holder=holder, lease_for=60)
        assert late is not None
        keeper.add(late.fence, sent)

        clock.advance(61)
        with pytest.raises(LeaseLost):
            keeper.held(late.fence)
        (view,) = await queue.jobs()
        assert view.stale
        assert await queue.reap() == [key]
        prompt = await queue.claim(1, holder=holder, lease_for=60)
        assert prompt is not None
        assert (prompt.jobs[0].key, prompt.jobs[0].attempts) == (key, 0)
        space = (await app.collections())[0].space
        new = Publication(key, 2, b"new", deleted=False)
        assert await store.publish([new], fence=prompt.fence, space=space) == [Verdict.PUBLISHED]

        old = Publication(key, 2, b"old", deleted=False)
        assert await store.publish([old], fence=late.fence, space=space) == [Verdict.SUPERSEDED]
        settled = await queue.settle(late.fence, {late.jobs[0].job: Done()})
        assert settled.held == frozenset()
        (view,) = await queue.jobs()
        assert (view.state, view.attempts) == (State.LEASED, 0)
        assert (await store.look([key]))[key].digest == b"new"
    finally:
        await app.close()


@pytest.mark.accepts("R-22")
async def test_cancelled_work_is_not_published(shop, state):
    """Waiting, it never runs; under way, its result does not count. Its next change revives it."""
    model = HeldEmbedder("cancelled")
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "cancelled under way"))
        await model.reached.wait()
        assert await collection.cancel(1) is True
        model.go.set()
        await collection.synced()

        await app.state.queue.set_mode(Mode.PAUSED)
        shop.put((2, "cancelled in line"))
        await until(lambda: _waits(app, 2), "the job to wait")
        assert await collection.cancel(2) is True
        await app.state.queue.set_mode(Mode.RUNNING)
        await collection.synced()
        assert await found(collection, "cancelled") == []
        assert model.asked["note\n\ncancelled in line"] == 0
        assert await collection.cancel(3) is False

        shop.put((1, "wanted again"))
        await searchable(collection, "wanted", 1)


async def _waits(app, id_):
    return bool(await app.state.queue.find([Key("", "articles", encode_id(id_))]))


@pytest.mark.accepts("R-25")
async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(shop, state, model):
    """What is written meanwhile waits, durably."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await collection.synced()
        await app.state.queue.set_mode(Mode.PAUSED)
        shop.put((1, "later"))
        await until(lambda: _waits(app, 1), "the job to wait")
        assert await app.state.queue.claim(1, holder=this_process("t"), lease_for=60) is None
        assert await found(collection, "later") == []
        await app.state.queue.set_mode(Mode.RUNNING)
        await searchable(collection, "later", 1)


async def test_live_edits_go_ahead_of_a_backfill(shop, state, model):
    """A claim that could take either takes live edits first."""
    app = evervec.App(state, model=model)
    await app.open()
    try:
        articles(app, shop)
        await app.collections()
        queue = app.state.queue
        rows = [Change(Key("", "articles", encode_id(n))) for n in range(100)]
        await queue.put(rows, lane=Lane.BACKFILL)
        edit = Change(Key("", "articles", encode_id(1000)))
        await queue.put([edit])
        lease = await queue.claim(2, holder=this_process("t"), lease_for=60)
        assert lease is not None
        assert edit.key in {job.key for job in lease.jobs}
    finally:
        await app.close()


@pytest.mark.accepts("001-35", "R-38")
async def test_critical_trouble_halts_the_collection_also_after_a_restart(shop, state, model):
    """Nothing is tried again until a person has looked."""
    model.trouble.failing = 1
    model.trouble.error = evervec.Critical("the model's file is damaged")

    async def halted(app):
        return bool((await app.collections())[0].halted)

    async with evervec.App(state, model=model) as app:
        articles(app, shop)
        shop.put((1, "wait for me"))
        await until(lambda: halted(app), "the collection to halt")
    requests = model.requests
    async with evervec.App(state, model=model) as app:
        (registered,) = await app.collections()
        (status,) = await app.status()
        assert (status.health, status.trouble) == ("CRITICAL", "the model's file is damaged")
        assert model.requests == requests
        await app.state.registry.resume(registered.scope)
        await app.state.queue.put([Change(Key("", "articles", encode_id(1)))])
        collection = evervec.Collection(app, registered.scope)
        await collection.force(1)
        await until(lambda: _not(halted(app)), "the halt to end")


async def _not(condition):
    return not await condition


async def test_a_refused_request_is_not_taken_for_a_defect(shop, state):
    """Whatever a user's function raises, the reason is in the job, in words."""

    def model(texts):
        if any("bad" in text for text in texts):
            raise ValueError("I do not like this text")
        return [[1.0, float(len(text))] for text in texts]

    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "bad"), (2, "good"))
        await collection.synced()
        assert await found(collection, "good") == [2]
        (job,) = await failed_jobs(app)
    assert "I do not like this text" in job.reason

"""A job's life, from the change to its end, as an operator with plain SQL sees it."""

import asyncio
import sqlite3
import threading
import time
from contextlib import closing

import pytest
from tests.tour.shop import PATIENCE, HeldEmbedder, articles, rows, searchable

import evervec
from evervec.holder import this_process
from evervec.model import Change, Key, State, encode_id
from evervec.outcome import Done, Fail
from evervec.testing.clock import VirtualClock
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio


@pytest.fixture
async def looked_at(state, model):
    """An app that was opened and serves nothing, with a clock of our own."""
    app = evervec.App(state, model=model, clock=VirtualClock())
    await app.open()
    yield app
    await app.close()


def key(id_):
    return Key("", "articles", encode_id(id_))


@pytest.mark.accepts(
    "000-22", "000-24", "000-25", "000-26", "002-06", "002-08", "002-11", "002-12", "002-13"
)
@pytest.mark.accepts("002-14", "002-17", "002-18", "002-20")
async def test_a_job_is_a_row_that_plain_sql_shows(looked_at, state):
    """Number, whose, which document, state, attempts, since when, why: all in one table."""
    clock, queue = looked_at.state.clock, looked_at.state.queue
    began = clock.now()
    await queue.put([Change(Key("acme", "articles", encode_id("a:1")))])
    sql = (
        "select job, tenant, collection, document, state, attempts, since, ended_at, reason"
        " from job join queue_scope on queue_scope.number = job.scope"
    )
    ((number, *row),) = rows(state, sql)
    assert isinstance(number, int)
    assert row == ["acme", "articles", '"a:1"', int(State.READY), 0, began, None, ""]
    lease = await queue.claim(1, holder=this_process("t"), lease_for=60)
    assert lease is not None
    assert rows(state, sql)[0][4] == State.LEASED
    clock.advance(5)
    await queue.settle(lease.fence, {number: Fail("it is broken", "permanent")})
    ((_, *row),) = rows(state, sql)
    assert row[3:] == [int(State.FAILED), 1, began, began + 5000, "it is broken"]


@pytest.mark.accepts("000-23")
async def test_a_job_is_found_by_its_document_through_an_index(looked_at, state):
    """Deduplication costs the same however long the queue is."""
    plan = rows(state, "explain query plan select 1 from job where scope = 1 and document = '1'")
    assert "USING COVERING INDEX job_document" in plan[0][3]
    index = rows(state, "select sql from sqlite_master where name = 'job_document'")
    assert "unique" in index[0][0].lower()


@pytest.mark.accepts("000-30", "000-33", "000-34", "000-36", "000-37", "000-38")
async def test_a_job_goes_from_ready_to_held_to_gone_and_may_come_again(looked_at):
    """Put, claim, settle; what is finished is in no one's way."""
    queue, me = looked_at.state.queue, this_process("t")
    assert await queue.claim(1, holder=me, lease_for=60) is None
    for expected in (1, 1):
        assert (await queue.put([Change(key(1))])).created == expected
        assert (await queue.put([Change(key(1))])).merged == 1
        assert (await queue.depth()).ready == 1
        lease = await queue.claim(10, holder=me, lease_for=60)
        assert lease is not None
        assert (await queue.depth()).leased == 1
        settled = await queue.settle(lease.fence, {lease.jobs[0].job: Done()})
        assert settled.ended == {lease.jobs[0].job}
        assert await queue.jobs() == []
        assert (await queue.depth()).oldest is None


@pytest.mark.accepts("000-35", "002-22")
async def test_jobs_are_taken_oldest_first_up_to_the_limit(looked_at):
    """By when they came, not by their names."""
    queue, clock = looked_at.state.queue, looked_at.state.clock
    for id_ in (9, 3, 7, 1, 5):
        await queue.put([Change(key(id_))])
        clock.advance(1)
    lease = await queue.claim(3, holder=this_process("t"), lease_for=60)
    assert lease is not None
    assert {job.key.id for job in lease.jobs} == {"9", "3", "7"}


@pytest.mark.accepts("002-23", "002-24", "000-46")
async def test_while_the_model_works_the_job_is_held_and_the_source_is_never_written(shop, state):
    """Afterwards the job is gone, the vector is searchable, and the row is as it was."""
    model = HeldEmbedder("held")
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "held"))
        before = shop.rows()
        await model.reached.wait()
        (job,) = await app.state.queue.jobs()
        assert (job.state, job.key) == (State.LEASED, key(1))
        assert job.holder is not None
        model.go.set()
        await searchable(collection, "held", 1)
        await collection.synced()
        assert await app.state.queue.jobs() == []
        assert shop.rows() == before


@pytest.mark.accepts("001-21", "001-27", "001-28")
async def test_sixty_programs_write_while_the_model_works_and_none_times_out(shop, state):
    """No lock of ours is held while the model is asked."""
    model = HeldEmbedder("held")
    refused = []

    def write(number):
        try:
            with closing(sqlite3.connect(shop.path, timeout=30)) as connection, connection:
                connection.execute("insert into articles (id, body) values (?, 'many')", (number,))
        except sqlite3.Error as error:
            refused.append(error)

    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "held"))
        await model.reached.wait()
        writers = [threading.Thread(target=write, args=(n,)) for n in range(100, 160)]
        for writer in writers:
            writer.start()
        for writer in writers:
            await asyncio.to_thread(writer.join)
        assert not model.go.is_set()
        assert refused == []
        model.go.set()
        await searchable(collection, "many", *range(100, 160))


class Prompt(HashEmbedder):
    """Cuts no more than the first texts until it is asked for vectors."""

    def __init__(self):
        super().__init__()
        self.cut = 0
        self.asked_for = threading.Event()
        self.asked_in_time = True

    def token_ends(self, text):
        self.cut += 1
        if self.cut == 100:
            self.asked_in_time = self.asked_for.wait(PATIENCE)
        return super().token_ends(text)

    async def embed(self, texts, *, kind):
        self.asked_for.set()
        return await super().embed(texts, kind=kind)


async def test_a_model_without_work_gets_some_before_all_of_a_lease_is_read(shop, state):
    model = Prompt()
    shop.put(*((n, f"row {n}") for n in range(1, 501)))
    async with evervec.App(state, model=model) as app:
        await articles(app, shop).synced()
    assert model.asked_in_time


@pytest.mark.accepts("002-10", "002-29", "000-57")
async def test_ten_documents_are_searchable_well_within_a_minute(shop, state, model):
    """The log says how long each took, from its change on."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        began = time.monotonic()
        shop.put(*((n, f"row {n}") for n in range(1, 11)))
        await searchable(collection, "row", *range(1, 11))
        took = time.monotonic() - began
        facts = await app.state.events.events(tenant="", after=0, limit=100)
    assert took < 60
    assert all(fact.data["lag_ms"] < 60_000 for fact in facts)


@pytest.mark.accepts("000-20", "000-55", "000-56")
async def test_nothing_runs_any_more_after_the_end_of_the_block(shop, state, model):
    """No task and no thread of ours is left; what is registered is still known."""
    before = asyncio.all_tasks()
    async with evervec.App(state, model=model) as app:
        articles(app, shop)
        articles(app, shop, tenant="other")
        assert len(await app.collections()) == 2
        assert len(app.engine.captures) == 2
    assert asyncio.all_tasks() == before
    ours = ("evervec-heartbeat", "evervec-write", "evervec-read", "evervec-source")
    assert [thread for thread in threading.enumerate() if thread.name.startswith(ours)] == []

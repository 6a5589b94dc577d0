"""What is written beside the vectors, how long it is kept, and how long it keeps others waiting."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import apsw
import pytest
from tests.tour.shop import QUICK, HeldEmbedder, articles, found, rows, searchable, until

import evervec
from evervec import capture
from evervec.embedders import as_embedder
from evervec.errors import Transient
from evervec.holder import this_process
from evervec.model import Change, Key, Mode, State, encode_id
from evervec.outcome import Done, Fail
from evervec.serve import space_of
from evervec.settings import DAY, Retention, Settings, Work
from evervec.testing.clock import VirtualClock
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio


CHUNKS = """
    select id, position, store_document.chunks, heading, model, revision, dimension,
        space.recipe, length(value) / 4, text
    from store_chunk
    join store_document using (document)
    join store_vector on store_vector.number = store_chunk.vector
    join space on space.number = store_vector.space
    order by id, position
"""


@pytest.mark.accepts("003-46", "003-47", "002-16")
async def test_each_chunk_says_whose_it_is_and_which_model_made_its_vector(notes, state):
    """File, place, number of chunks, heading, model, its revision, dimension, version: in plain SQL."""
    (notes / "tides.md").write_text("# Tides\n\n" + "The moon pulls the sea. " * 60)
    model = HashEmbedder(dimension=24, revision="7")
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await collection.synced()
        (hit,) = await collection.search("moon", k=1)
        (status,) = await app.status()
    found = rows(state, CHUNKS)
    assert len(found) > 1
    for position, (id_, place, chunks, heading, *made) in enumerate(found):
        assert (id_, place, chunks, heading) == ('"tides.md"', position, len(found), "Tides")
        assert made[:5] == ["hash-not-semantic", "7", 24, 1, 24]
    assert (hit.id, hit.heading, status.model) == ("tides.md", "Tides", "hash-not-semantic")


@pytest.mark.accepts("002-16")
def test_the_model_that_nobody_chose_is_named_with_the_bytes_it_is_made_of():
    """Never `latest`: what it means could change, and two models would meet in one space."""
    space = space_of(as_embedder(None))
    assert "MiniLM-L6-v2" in space.model
    assert space.dimension == 384
    assert "latest" not in space.name
    assert any(letter.isdigit() for letter in space.revision)


@pytest.mark.accepts("002-15")
async def test_the_text_that_a_vector_was_made_of_lies_beside_it_and_never_in_the_queue(
    shop, state
):
    """What waits is read when its turn comes, so no old snapshot can overwrite a newer text."""
    model = HeldEmbedder("second")
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop, text="{body}")
        shop.put((1, "the first text"))
        await searchable(collection, "first", 1)
        shop.put((1, "the second text"))
        await model.reached.wait()
        kept = "select text from store_chunk"
        assert rows(state, kept) == [("the first text",)]
        assert "second" not in str(rows(state, "select * from job"))
        never_null = "select \"notnull\" from pragma_table_info('store_chunk') where name = 'text'"
        assert rows(state, never_null) == [(1,)]
        model.go.set()
        await searchable(collection, "second", 1)
        await collection.synced()
        assert rows(state, kept) == [("the second text",)]


@pytest.mark.accepts("003-39")
async def test_what_is_asked_for_twice_is_one_job_and_nothing_is_swallowed_later(
    shop, state, model
):
    """Equal requests merge while one waits: no window of time drops a retry or a later change."""
    model.trouble.failing, model.trouble.error = 1, Transient("once more, please")
    async with evervec.App(state, model=model, settings=QUICK) as app:
        collection = articles(app, shop)
        await app.collections()
        await app.state.queue.set_mode(Mode.PAUSED)
        change = Change(Key("", "articles", encode_id(1)))
        shop.put((1, "the first time"))
        await until(lambda: _waits(app), "the job to wait")
        put = await app.state.queue.put([change, change])
        assert (put.created, put.merged) == (0, 2)
        await app.state.queue.set_mode(Mode.RUNNING)
        # The retry of a moment ago is the same document: it runs all the same.
        await searchable(collection, "first", 1)
        await collection.synced()
        shop.put((1, "the second time"))
        await searchable(collection, "second", 1)
    assert model.requests == 3


async def _waits(app):
    return (await app.state.queue.depth()).backlog == 1


@pytest.mark.accepts("000-67", "003-40")
async def test_what_is_finished_is_kept_for_its_time_and_what_failed_for_a_person(state, model):
    """A day by default, to the millisecond; the upkeep of whoever serves deletes it then."""
    clock = VirtualClock()
    settings = Settings(worker=Work(enabled=False))
    app = evervec.App(state, model=model, clock=clock, settings=settings)
    await app.open()
    try:
        queue, began = app.state.queue, clock.now()
        await queue.put([Change(Key("", "c", encode_id(n))) for n in (1, 2, 3)])
        lease = await queue.claim(3, holder=this_process("t"), lease_for=60)
        assert lease is not None
        one, two, three = sorted(job.job for job in lease.jobs)
        await queue.settle(lease.fence, {one: Done(), three: Fail("broken", "permanent")})
        clock.advance(0.001)
        await queue.settle(lease.fence, {two: Done()})
    finally:
        await app.close()
    assert settings.retention.finished == DAY
    kept = "select job, attempts, since, ended_at from finished"
    first, second = rows(state, kept)
    assert (first, second) == ((one, 0, began, began), (two, 0, began, began + 1))
    clock.advance(DAY / 1000)
    async with evervec.App(state, model=model, clock=clock, settings=settings):

        async def only_the_second():
            return rows(state, kept) == [second]

        # Serving begins with the upkeep.
        await until(only_the_second, "the older one to go")
    assert rows(state, "select state, attempts, reason from job") == [(State.FAILED, 1, "broken")]


async def test_what_failed_is_deleted_after_a_time_if_that_is_wanted(state, model):
    """Zero, the default, keeps it until a person has decided."""
    clock = VirtualClock()
    settings = Settings(worker=Work(enabled=False), retention=Retention(parked=DAY))
    for gone in (False, True):
        async with evervec.App(state, model=model, clock=clock, settings=settings) as app:
            queue = app.state.queue
            if not gone:
                await queue.put([Change(Key("", "c", encode_id(1)))])
                lease = await queue.claim(1, holder=this_process("t"), lease_for=60)
                assert lease is not None
                await queue.settle(lease.fence, {lease.jobs[0].job: Fail("broken", "permanent")})

            async def as_due(queue=queue, gone=gone):
                return bool(await queue.jobs()) is not gone

            await until(as_due, "the failed job to be kept or deleted")
        clock.advance(DAY / 1000 + 1)


@pytest.mark.accepts("000-66")
async def test_one_table_may_have_several_collections_each_searched_by_its_name(shop, state, model):
    """Each has a recipe and vectors of its own; a write is embedded in all of them."""
    async with evervec.App(state, model=model) as app:
        bodies = articles(app, shop, name="bodies", text="{body}")
        titles = articles(app, shop, name="titles", text="about: {title}")
        shop.put((1, "written once"))
        await searchable(bodies, "once", 1)
        await searchable(titles, "about", 1)
        assert await found(bodies, "about") == await found(titles, "once") == []
        shop.run("update articles set title = 'seldom'")
        await searchable(titles, "seldom", 1)
        await bodies.remove()
        shop.run("update articles set title = 'again'")
        await searchable(titles, "again", 1)
    assert model.asked["written once"] == 1


class Watched:
    """Counts, of every connection to a state, what its largest transaction did."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.rows = 0
        self.statements = 0

    def __call__(self, connection: apsw.Connection) -> None:
        begun = [0, 0]

        def statement(cursor, sql, bindings):
            word = sql.split(None, 1)[0].lower() if sql.strip() else ""
            begun[1] += 1
            if word == "begin":
                begun[:] = connection.total_changes(), 0
                self.open.add(id(connection))
            elif word in ("commit", "rollback"):
                self.rows = max(self.rows, connection.total_changes() - begun[0])
                self.statements = max(self.statements, begun[1])
                self.open.discard(id(connection))
            return True

        connection.exec_trace = statement


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(apsw, "connection_hooks", [])

    def begin():
        apsw.connection_hooks[:] = [watch := Watched()]
        return watch

    return begin


@pytest.mark.accepts("001-26")
async def test_no_transaction_grows_with_what_waits(shop, state, model, watched, monkeypatch):
    """Eight hundred rows at once, twenty writers at once: more transactions, none of them longer."""
    monkeypatch.setattr(capture, "CHANGES", 50)
    monkeypatch.setattr(capture, "PAGE", 50)
    watch = watched()
    count, claim = 800, 40
    shop.put(*((n, f"before {n}") for n in range(count)))
    settings = Settings(worker=Work(claim=claim))
    async with evervec.App(state, model=model, settings=settings) as app:
        collection = articles(app, shop)
        await collection.synced()
        shop.put(*((n, f"between {n}") for n in range(count)))
        await collection.synced()
        parts = [range(count)[part::20] for part in range(20)]
        writers = [threading.Thread(target=write, args=(shop.path, part)) for part in parts]
        for writer in writers:
            writer.start()
        for writer in writers:
            await asyncio.to_thread(writer.join)
        await collection.synced()
        report = await collection.verify()
    assert (report.checked, report.drift) == (count, 0)
    # A document is published with some nine rows: its own, its chunk, full text, fact and counts.
    assert claim < watch.rows <= 12 * claim
    assert watch.statements <= 12 * claim


def write(path, ids):
    with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
        connection.executemany(
            "insert or replace into articles (id, body) values (?, ?)",
            [(id_, f"during {id_}") for id_ in ids],
        )


@pytest.mark.accepts("001-22", "001-23", "001-26")
async def test_no_transaction_is_open_while_the_model_works(shop, state, watched):
    """However long it takes: nobody waits for a lock of ours meanwhile."""
    watch, model = watched(), HeldEmbedder("held")
    settings = replace(QUICK, worker=replace(QUICK.worker, poll=60.0))
    async with evervec.App(state, model=model, settings=settings) as app:
        collection = articles(app, shop)
        shop.put((1, "held"))
        await model.reached.wait()

        async def closed():
            return not watch.open

        await until(closed, "every transaction to end")
        assert not model.go.is_set()
        model.go.set()
        await searchable(collection, "held", 1)
    assert watch.rows

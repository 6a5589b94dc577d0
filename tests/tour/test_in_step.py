"""Change a row or a file, and its vectors follow: promises G1 to G5."""

import shutil
import sqlite3

import pytest
from tests.tour.shop import HeldEmbedder, articles, found, searchable

import evervec

pytestmark = pytest.mark.anyio


@pytest.mark.accepts(
    "000-01", "000-07", "000-54", "000-55", "000-57", "001-24", "001-25", "002-01", "002-02"
)
async def test_a_row_that_another_program_writes_is_searchable_soon(shop, state, model):
    """Nobody tells us of it: the write is captured, queued, embedded and published by itself."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "Leases expire after a minute."))
        await searchable(collection, "leases", 1)
        # Searchable comes a moment before the job is settled, and only then is it fresh.
        await collection.synced()
        (hit,) = await collection.search("when do leases expire?", k=1)
    assert (hit.id, hit.collection, hit.fresh) == (1, "articles", True)
    assert hit.text in "note\n\nLeases expire after a minute."


async def test_rows_from_before_are_searchable_too(shop, state, model):
    """A collection begins with everything its source holds already."""
    shop.put(*((n, f"entry number{n}") for n in range(1, 51)))
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await collection.synced()
        assert await found(collection, "number37") == [37]
        assert len(await found(collection, "entry")) == 50


@pytest.mark.accepts("R-01", "000-08", "R-28")
async def test_what_is_embedded_once_is_not_embedded_again(shop, state, model):
    """Our own writing is no change, and neither are columns outside the text."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "written once"))
        await searchable(collection, "written", 1)
        for seen in range(5):
            shop.run("update articles set seen = ?", seen)
            shop.run("update articles set body = body")
            await collection.synced()
        (status,) = await app.status()
    assert (model.asked.total(), model.requests) == (1, 1)
    assert status.chunks == 1


@pytest.mark.accepts("000-10", "000-32", "001-29", "001-30")
async def test_a_hundred_edits_are_one_job_for_the_last_text(shop, state, model):
    """While nobody works, edits of one document merge into one job."""
    async with evervec.App(state, model=model) as app:
        articles(app, shop)
        await app.collections()
    for edit in range(100):
        shop.put((1, f"edit number{edit}"))
    async with evervec.App(state, model=model) as app:
        (registered,) = await app.collections()
        collection = evervec.Collection(app, registered.scope)
        await searchable(collection, "number99", 1)
    assert list(model.asked) == ["note\n\nedit number99"]


async def test_an_edit_of_one_paragraph_embeds_few_chunks(shop, state, model):
    """The other paragraphs keep their vectors, though one before them grew."""
    paragraphs = [f"Paragraph{n}. " + f"This is sentence {n} of many. " * 20 for n in range(60)]
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "\n\n".join(paragraphs)))
        await collection.synced()
        before = model.asked.total()
        paragraphs[30] = paragraphs[30].replace("many", "several", 1)
        shop.put((1, "\n\n".join(paragraphs)))
        await collection.synced()
        assert await found(collection, "several") == [1]
    assert before > 30
    assert 1 <= model.asked.total() - before <= 3


async def test_a_file_that_is_moved_or_copied_costs_no_embedding(notes, state, model):
    """The text decides, not the name."""
    (notes / "a.md").write_text("# Tides\n\nThe moon pulls the sea.")
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await searchable(collection, "moon", "a.md")
        (notes / "a.md").rename(notes / "b.md")
        shutil.copy(notes / "b.md", notes / "c.md")
        await searchable(collection, "moon", "b.md", "c.md")
    assert model.asked.total() == 1


@pytest.mark.accepts("R-29", "000-43", "000-60")
async def test_a_deleted_row_is_not_found_any_more(shop, state, model):
    """Also when it goes before anybody came to work on it."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "stays"), (2, "goes"))
        await searchable(collection, "goes", 2)
        shop.run("delete from articles where id = 2")
        await searchable(collection, "goes")
        shop.put((3, "never seen"))
        shop.run("delete from articles where id = 3")
        await collection.synced()
        report = await collection.verify()
        assert await found(collection, "never") == []
        assert await app.state.queue.jobs() == []
    assert (report.checked, report.drift) == (1, 0)


@pytest.mark.accepts("R-29")
async def test_a_deleted_file_is_not_found_any_more(notes, state, model):
    """A folder's deletions arrive as well."""
    (notes / "a.md").write_text("soon gone")
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await searchable(collection, "gone", "a.md")
        (notes / "a.md").unlink()
        await searchable(collection, "gone")
        assert (await collection.verify()).drift == 0


@pytest.mark.accepts("000-41", "001-19", "001-20", "001-22", "001-23", "001-27", "002-05")
async def test_the_old_text_is_searchable_until_the_new_one_is_published(shop, state):
    """While the model works nothing is locked: others write the source and search the state."""
    model = HeldEmbedder("second")
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "the first text"))
        await searchable(collection, "first", 1)
        shop.put((1, "the second text"))
        await model.reached.wait()

        shop.put((2, "written meanwhile"))
        (hit,) = await collection.search("text", mode="lexical")
        assert hit.text.endswith("the first text")
        assert hit.fresh is False

        model.go.set()
        await searchable(collection, "second", 1)
        assert await found(collection, "first") == []
        await searchable(collection, "meanwhile", 2)


@pytest.mark.accepts("R-04", "000-01", "000-32")
async def test_an_edit_during_a_slow_embedding_wins(shop, state):
    """Whoever ends last: what is searchable at the end is the newest text."""
    model = HeldEmbedder("slow")
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "slow words"))
        await model.reached.wait()
        shop.put((1, "newer words"))
        model.go.set()
        await searchable(collection, "newer", 1)
        await collection.synced()
        assert await found(collection, "slow") == []
        assert (await collection.verify()).drift == 0


@pytest.mark.accepts("000-09", "000-62", "002-03")
async def test_what_is_written_while_nothing_runs_is_embedded_at_the_next_start(shop, state, model):
    """The triggers work for us while we are away."""
    async with evervec.App(state, model=model) as app:
        await articles(app, shop).synced()
    shop.put((7, "written at night"))
    async with evervec.App(state, model=model) as app:
        (registered,) = await app.collections()
        await searchable(evervec.Collection(app, registered.scope), "night", 7)


@pytest.mark.accepts("000-44")
async def test_an_empty_text_is_in_sync_and_has_no_chunk(shop, state, model):
    """Nothing is sent to the model, and nothing waits."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop, text="{body}")
        shop.put((1, ""), (2, "  \n "))
        await collection.synced()
        (status,) = await app.status()
        assert (await collection.verify()).drift == 0
    assert (status.documents, status.chunks, status.fresh, status.backlog) == (2, 0, 1.0, 0)
    assert model.asked.total() == 0


@pytest.mark.accepts("R-36")
async def test_ids_keep_their_type_and_their_colons(tmp_path, state, model):
    """1, "1" and "1:1" are three documents."""
    path = tmp_path / "typed.db"
    with sqlite3.connect(path) as writer:
        writer.execute("create table note (id primary key, body) without rowid")
        writer.executemany("insert into note values (?, 'body')", [(1,), ("1",), ("1:1",)])
    writer.close()
    async with evervec.App(state, model=model) as app:
        collection = app.collection("a:b", source=evervec.table(path, "note"), text="{body}")
        await collection.synced()
        assert await found(collection, "body") == ["1", "1:1", 1]
        assert await collection.force("1")
        assert await collection.force(1)


@pytest.mark.accepts("R-39")
async def test_prefix_suffix_separator_and_nested_paths_are_in_the_text(tmp_path, state, model):
    """What the template says is what the model gets."""
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as writer:
        writer.execute("create table note (id integer primary key, title, meta)")
        writer.execute("""insert into note values (1, 'Tides', '{"author": {"name": "Ada"}}')""")
    writer.close()
    template = evervec.Template.of_fields(
        [
            {"path": "title", "prefix": "<", "suffix": ">"},
            {"path": "meta.author.name", "prefix": "by "},
        ],
        separator=" | ",
    )
    async with evervec.App(state, model=model) as app:
        collection = app.collection("n", source=evervec.table(path, "note"), text=template)
        await collection.synced()
    assert list(model.asked) == ["<Tides> | by Ada"]


@pytest.mark.accepts("000-14", "000-03", "000-42", "000-61")
async def test_a_table_that_is_not_watched_any_more_is_as_it_was(shop, state, model):
    """No trace stays in the source file, and nothing of it is found or embedded."""
    before = shop.schema()
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        shop.put((1, "watched"))
        await searchable(collection, "watched", 1)
        assert shop.schema() != before
        await collection.remove()
        assert shop.schema() == before
        asked = model.asked.total()
        shop.put((2, "watched no more"))
        assert await app.collections() == []
        assert await app.search("watched", mode="lexical") == []
        assert await app.state.queue.jobs() == []
    assert model.asked.total() == asked


async def test_synced_knows_of_a_file_that_the_watcher_has_not_told_of_yet(notes, state, model):
    """A watcher is a moment late; whoever asks whether all is in sync must not hear a lie."""
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await collection.synced()
        for n in range(10):
            (notes / f"late{n}.md").write_text(f"word{n}x")
            await collection.synced()
            assert await found(collection, f"word{n}x") == [f"late{n}.md"]

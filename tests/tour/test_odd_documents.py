"""Documents that nobody plans for: a defined behaviour each, and nothing else is stopped."""

import sqlite3

import pytest
from tests.tour.shop import articles, found, searchable, until

import evervec
from evervec.model import State
from evervec.ports import JobView, Limits
from evervec.testing.embedder import HashEmbedder

pytestmark = pytest.mark.anyio


@pytest.mark.timeout(120)
async def test_a_text_of_twenty_megabytes_is_searchable_to_its_end(shop, state, model):
    """It is cut like any other; what it repeats is embedded once. Others are served beside it."""
    lines = "\n\n".join(f"Paragraph {n % 500} of a long report." for n in range(600_000))
    assert len(lines) > 18_000_000
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop, text="{body}")
        shop.put((1, lines + "\n\nThe closing word is zebra."), (2, "a small one"))
        await searchable(collection, "small", 2)
        await collection.synced()
        assert await found(collection, "zebra") == [1]
        assert (await collection.verify()).drift == 0


async def test_invalid_utf_8_and_nuls_are_read_as_well_as_they_can_be(tmp_path, state, model):
    """A wrong byte is a replacement character, a NUL is a space: the document is searchable."""
    path = tmp_path / "odd.db"
    with sqlite3.connect(path) as writer:
        writer.execute("create table note (id integer primary key, body)")
        writer.execute("insert into note values (1, cast(x'6f776c7320fffe206e69676874' as text))")
        writer.execute("insert into note values (2, 'before' || char(0) || 'after')")
        writer.execute("insert into note values (3, x'00ff00ff')")
        writer.execute("insert into note values (4, null)")
        writer.execute("insert into note values (5, 'plain')")
    writer.close()
    async with evervec.App(state, model=model) as app:
        collection = app.collection("odd", source=evervec.table(path, "note"), text="{body}")
        await collection.synced()
        assert await found(collection, "owls") == [1]
        assert await found(collection, "after") == [2]
        assert await found(collection, "plain") == [5]
        assert await app.state.queue.jobs(states=(State.FAILED,)) == []
        assert (await collection.verify()).drift == 0
    assert all("\0" not in text for text in model.asked)


async def test_files_in_odd_encodings_fail_alone_or_are_read(notes, state, model):
    """UTF-16 with its mark is text; binary data is a failed document with its reason."""
    (notes / "utf16.txt").write_text("owls at night", encoding="utf-16")
    (notes / "latin.txt").write_bytes("café society".encode("latin-1"))
    (notes / "binary.txt").write_bytes(bytes(range(256)) * 10)
    (notes / "empty.md").write_text("")
    (notes / "plain.md").write_text("plain")
    async with evervec.App(state, model=model) as app:
        collection = app.collection("notes", source=evervec.folder(notes))
        await collection.synced()
        assert await found(collection, "owls") == ["utf16.txt"]
        assert await found(collection, "society") == ["latin.txt"]
        assert await found(collection, "plain") == ["plain.md"]
        jobs: list[JobView] = []

        async def failed() -> bool:
            # A file that was just written is looked at once more; meanwhile it has not failed.
            jobs[:] = await app.state.queue.jobs(states=(State.FAILED,))
            return bool(jobs)

        await until(failed, "the binary file's reason")
        (job,) = jobs
        assert job.key.id == '"binary.txt"'
        assert "binary" in job.reason


@pytest.mark.timeout(120)
async def test_twenty_thousand_tiny_documents_are_all_searchable(shop, state, model):
    """Equal texts are embedded once; each document is found."""
    shop.put(*((n, f"tiny {n % 100}") for n in range(1, 20_001)))
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await collection.synced()
        (status,) = await app.status()
        assert (status.documents, status.fresh, status.failed) == (20_000, 1.0, 0)
        assert (await collection.verify()).to_json()["checked"] == 20_000
    assert model.asked.total() == 100


async def test_a_document_that_is_edited_all_the_time_is_fresh_when_it_ends(shop, state, model):
    """Hundreds of edits cost a few embeddings, and the last text is the one that stays."""
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop)
        await collection.synced()
        for edit in range(500):
            shop.put((1, f"edit number{edit}"))
            if edit % 100 == 0:
                await found(collection, "edit")
        await searchable(collection, "number499", 1)
        await collection.synced()
        assert (await collection.verify()).drift == 0
    assert model.asked.total() < 250


async def test_a_row_too_large_to_be_read_fails_alone_before_it_takes_memory(shop, state, model):
    """As a file of that size does: it says how large it may be, and takes no other row along."""
    shop.run("insert into articles (id, body) values (1, cast(zeroblob(200000001) as text))")
    shop.put((2, "beside it"))
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop, text="{body}")
        await collection.synced()
        assert await found(collection, "beside") == [2]
        (job,) = await app.state.queue.jobs(states=(State.FAILED,))
        assert "row 1 of 'articles' holds a value of more than 200,000,000 bytes" in job.reason
        assert "spread it over several rows" in job.reason
        report = await collection.verify()
        assert (report.missing, report.drift) == (1, 1)
        shop.put((1, "shorter now"))
        await searchable(collection, "shorter", 1)


SCRIPTS = {
    "hebrew": ("\u05e9\u05dc\u05d5\u05dd", "\u05e2\u05d5\u05dc\u05dd"),
    "arabic": ("\u0645\u0631\u062d\u0628\u0627", "\u0628\u0627\u0644\u0639\u0627\u0644\u0645"),
    "chinese": ("\u4f60\u597d", "\u4e16\u754c"),
    "japanese": ("\u3053\u3093\u306b\u3061\u306f", "\u4e16\u754c"),
    "thai": ("\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01"),
}
SPACED = {"hebrew": " ", "arabic": " "}


async def test_texts_from_right_to_left_and_without_spaces_are_cut_and_found(shop, state, model):
    """Marks that steer the direction, and letters beyond 16 bits, keep every offset true."""
    texts = {
        number: "\u200f\U0001f600 " + f"{SPACED.get(name, '')}".join(SCRIPTS[name] * 300)
        for number, name in enumerate(SCRIPTS, 1)
    }
    shop.put(*texts.items())
    async with evervec.App(state, model=model) as app:
        collection = articles(app, shop, text="{body}")
        await collection.synced()
        for number, name in enumerate(SCRIPTS, 1):
            hits = await collection.search(SCRIPTS[name][0], k=10, mode="lexical")
            assert hits[0].id == number, name
            for hit in hits:
                assert isinstance(hit.id, int)
                assert hit.text == texts[hit.id][hit.start : hit.end]
                assert all(hit.text[first:last].strip() for first, last in hit.highlights)
        assert (await collection.verify()).drift == 0


@pytest.mark.accepts("003-79")
async def test_texts_of_many_jobs_and_collections_share_requests(shop, state):
    """A request holds as many texts as it may, whichever documents they come from."""
    model = HashEmbedder(limits=Limits(batch_texts_max=50))
    shop.put(*((number, f"tiny {number}") for number in range(1, 201)))
    async with evervec.App(state, model=model) as app:
        ones = articles(app, shop, name="ones", text="one {body}")
        twos = articles(app, shop, name="twos", text="two {body}")
        for collection in (ones, twos):
            await collection.synced()
    assert len(model.asked) == 400
    assert model.requests <= 400 // 50 + 4

"""The store in SQLite keeps the promises of the port, in a file and in memory."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from evervec.model import Scope, Verdict
from evervec.ports import Query
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore, codes, index, scan
from evervec.testing.large_suite import LargeSuite
from evervec.testing.search_suite import SearchSuite
from evervec.testing.store_suite import (
    HOME,
    NEW,
    OLD,
    SetClock,
    StoreSuite,
    WholeStore,
    dense,
    digest_of,
    key_of,
    lexical,
    publication,
    put,
    remove,
    vector_of,
)


class TestFile(StoreSuite, SearchSuite, LargeSuite):
    @pytest.fixture
    async def store(self, clock: SetClock, tmp_path) -> AsyncIterator[WholeStore]:
        database = Database(tmp_path / "state.db")
        store = SqliteStore(database, clock=clock)
        await store.open()
        yield store
        await store.close()
        await database.close()


class TestMemory(StoreSuite, SearchSuite, LargeSuite):
    @pytest.fixture
    async def store(self, clock: SetClock, request) -> AsyncIterator[WholeStore]:
        database = Database(f"file:/store-{id(request)}?vfs=memdb")
        store = SqliteStore(database, clock=clock)
        await store.open()
        yield store
        await store.close()
        await database.close()


class TestStaged(StoreSuite, SearchSuite, LargeSuite):
    """The same where every document is a large one, which is published in parts."""

    @pytest.fixture
    async def store(self, clock: SetClock, request) -> AsyncIterator[WholeStore]:
        database = Database(f"file:/store-{id(request)}?vfs=memdb")
        store = SqliteStore(database, clock=clock, large=0)
        await store.open()
        yield store
        await store.close()
        await database.close()


class TestCoded(TestFile):
    """The same for a collection so large that codes choose what is compared."""

    @pytest.fixture(autouse=True)
    def _large(self, monkeypatch) -> None:
        for name in ("CODES_FROM_ROWS", "LAG_ROWS"):
            monkeypatch.setattr(codes, name, 1)
        monkeypatch.setattr(index, "UNSYNCED_ROWS_MAX", 0)
        monkeypatch.setattr(scan, "FIRST_ROWS", 4)
        monkeypatch.setattr(scan, "FEW_ROWS", 2)
        monkeypatch.setattr(scan, "READ_SHARE_MAX", 1)


@pytest.fixture
async def opened(tmp_path) -> AsyncIterator[tuple[SqliteStore, Database]]:
    database = Database(tmp_path / "state.db")
    store = SqliteStore(database, clock=SetClock())
    await store.open()
    yield store, database
    await store.close()
    await database.close()


async def number_of(database: Database, sql: str) -> int:
    return int(await database.read(lambda connection: connection.execute(sql).get))


@pytest.mark.accepts("003-45", "003-49")
async def test_publishing_again_overwrites_vector_and_metadata_and_doubles_nothing(opened):
    """Also where the first embedding was wrong: the vector of the same text is replaced."""
    store, database = opened
    await put(store, "a", ["wrong before"], metadata={"by": "first"})
    for fence in (2, 3):
        await store.keep("", 1, {digest_of("wrong before"): vector_of("right now")})
        verdicts = await store.publish(
            [publication("a", ["wrong before"], metadata={"by": "second"})], fence=fence, space=1
        )
        assert verdicts == [Verdict.PUBLISHED]

        (hit,) = await dense(store, "right now")
        assert hit.score == pytest.approx(1, abs=1e-6)
        assert hit.metadata == {"by": "second"}
        for table in ("store_document", "store_chunk", "store_vector"):
            assert await number_of(database, f"select count(*) from {table}") == 1


@pytest.mark.accepts("003-43")
async def test_equal_texts_are_chunks_of_their_own_and_no_number_is_given_twice(opened):
    store, database = opened

    def numbers(connection):
        return [row[0] for row in connection.execute("select chunk from store_chunk")]

    await put(store, "a", ["same", "same"])
    await put(store, "b", ["same"])
    before = await database.read(numbers)
    assert len(set(before)) == 3
    await remove(store, "a", version=2, fence=2)
    await put(store, "a", ["same", "same"], version=3, fence=3)
    after = await database.read(numbers)
    assert len(set(after)) == 3
    assert len({*before, *after}) == 5


@pytest.mark.accepts("R-29")
async def test_a_deleted_document_is_found_in_no_way_and_its_vectors_go(opened):
    store, database = opened
    await put(store, "a", ["secret words", "more words"])
    await put(store, "b", ["other words"])
    assert len(await lexical(store, "words")) == 2
    await remove(store, "a", version=2, fence=2)

    for mode in ("dense", "lexical", "hybrid"):
        query = Query("secret words", vector_of("secret words"), (HOME,), mode=mode, k=100)
        assert [hit.id for hit in await store.search(query)] == ["b"]
    await store.prune(unused_before=SetClock().time + 1, limit=100)
    assert await number_of(database, "select count(*) from store_vector") == 1
    assert await number_of(database, "select count(*) from store_chunk") == 1


async def test_vectors_of_one_text_are_apart_by_tenant_and_space(opened):
    """Keeping one again changes no other."""
    store, _ = opened
    here, there = Scope("t", "one"), Scope("u", "one")
    for scope, space, text in ((here, 1, "x"), (there, 1, "y"), (Scope("t", "two"), 2, "z")):
        await store.keep(scope.tenant, space, {digest_of("a"): vector_of(text)})
        await store.publish([publication("a", ["a"], scope=scope)], fence=1, space=space)
    await store.keep("u", 1, {digest_of("a"): vector_of("y")})
    await store.keep("t", 2, {digest_of("a"): vector_of("z")})

    for scope, text in ((here, "x"), (there, "y"), (Scope("t", "two"), "z")):
        (hit,) = await dense(store, text, scopes=(scope,))
        assert hit.score == pytest.approx(1, abs=1e-6)


async def test_one_id_in_two_collections_is_two_documents(opened):
    store, _ = opened
    other = Scope("", "other")
    await put(store, "a", [OLD], version=7)
    await put(store, "a", [NEW, OLD], version=3, scope=other)

    looked = await store.look([key_of("a"), key_of("a", other)])
    assert {key.collection: row.version for key, row in looked.items()} == {
        "articles": 7,
        "other": 3,
    }
    assert await store.damaged(HOME) == await store.damaged(other) == []


async def test_dimensions_are_by_tenant_and_space(opened):
    store, _ = opened
    await put(store, "a", [OLD])
    for tenant, space, size in (("", 2, 3), ("t", 1, 5)):
        await store.keep(tenant, space, {digest_of(OLD): np.ones(size, np.float32)})
        assert await store.known(tenant, space, [digest_of(OLD)])


async def test_a_vector_that_is_replaced_leaves_the_others(opened):
    store, _ = opened
    await put(store, "a", [OLD])
    await put(store, "b", [NEW])
    await store.keep("", 1, {digest_of(OLD): vector_of("another")})

    for text, id_ in (("another", "a"), (NEW, "b")):
        hit = (await dense(store, text))[0]
        assert hit.id == id_
        assert hit.score == pytest.approx(1, abs=1e-6)


async def test_a_text_that_was_there_before_the_last_one_is_published_again(opened):
    store, _ = opened
    for version, text in enumerate((OLD, NEW, OLD), start=1):
        await put(store, "a", [text], version=version, fence=version)
        assert [hit.text for hit in await dense(store, "x")] == [text]
    await remove(store, "a", version=4, fence=4)
    await put(store, "a", [OLD], version=5, fence=5, space=2)
    assert (await store.look([key_of("a")]))[key_of("a")].space == 2

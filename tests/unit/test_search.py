"""Search answers as a model in plain Python does, whatever happened before."""

import asyncio
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evervec.model import Verdict
from evervec.ports import Query
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.stores.sqlite.words import words_of
from evervec.testing.store_suite import (
    HOME,
    SetClock,
    dense,
    key_of,
    lexical,
    publication,
    put,
    vector_of,
)

COUNTER = itertools.count()
WORDS = ("red", "green", "blue", "grey")


def in_memory(scenario):
    """Run *scenario* on a store of its own."""

    async def run():
        database = Database(f"file:/search-{next(COUNTER)}?vfs=memdb")
        store = SqliteStore(database, clock=SetClock())
        await store.open()
        try:
            return await scenario(store, database)
        finally:
            await store.close()
            await database.close()

    return asyncio.run(run())


CHECKS = (
    """select count(*) from store_chunk
    where chunk >> 40 not in (select number from store_collection)""",
    """select count(*) from store_chunk
    where document not in (select document from store_document where deleted = 0)""",
    "select count(*) from store_chunk where vector not in (select number from store_vector)",
    "select count(*) from store_unused where vector in (select vector from store_chunk)",
    """select count(*) from store_vector
    where number not in (select vector from store_chunk)
      and number not in (select vector from store_unused)""",
    """select count(*) from store_document as d
    where chunks <> (select count(*) from store_chunk where document = d.document)""",
    """select count(*) from store_collection as c
    where chunks <> (select count(*) from store_chunk where chunk >> 40 = c.number)
       or documents <> (
           select count(*) from store_document where collection = c.number and deleted = 0
       )""",
    """select count(*) from store_chunk as a
    join store_chunk as b on a.document = b.document
    where a.position = b.position and a.chunk < b.chunk""",
    """select count(*) from store_chunk as c
    join store_vector as v on v.number = c.vector
    where c.digest <> v.digest""",
)


def wrong(connection) -> list[str]:
    connection.execute("insert into store_text (store_text, rank) values ('integrity-check', 1)")
    return [check for check in CHECKS if connection.execute(check).get]


def state(connection):
    """What the store holds, without the numbers that depend on how it got there."""
    return (
        connection.execute(
            "select id, version, fence, digest, space, deleted, chunks, metadata"
            " from store_document where version is not null order by id"
        ).fetchall(),
        connection.execute(
            "select d.id, c.position, c.first, c.last, c.text, c.heading, v.digest, v.value"
            " from store_chunk as c join store_document as d using (document)"
            " join store_vector as v on v.number = c.vector order by 1, 2"
        ).fetchall(),
    )


# Version and text belong together, as in a source; the fence says who read it.
STEP = st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(1, 4))


def texts_at(document: int, version: int) -> list[str]:
    """The document's text at a version; at every third version it is deleted."""
    size = (document + version * 2) % 4
    return [WORDS[(document + version * place) % 4] for place in range(size)]


async def play(store, steps) -> None:
    for document, version, fence in steps:
        texts = texts_at(document, version)
        await store.keep(
            "", 1, {p.digest: vector_of(p.chunk.text) for p in publication(0, texts).pieces}
        )
        gone = version % 3 == 0
        await store.publish(
            [
                publication(
                    document,
                    [] if gone else texts,
                    version=version,
                    deleted=gone,
                    metadata={} if gone else {"v": version},
                )
            ],
            fence=fence,
            space=1,
        )


@pytest.mark.accepts("003-33", "003-38", "003-42", "R-28")
@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, max_size=10), st.randoms(use_true_random=False))
def test_any_order_and_any_replay_ends_in_the_same_state(steps, random):
    async def ended(store, database, these):
        await play(store, these)
        assert await database.read(wrong) == []
        return await database.read(state)

    other = steps + steps[: len(steps) // 2]
    random.shuffle(other)
    assert in_memory(lambda store, db: ended(store, db, steps)) == in_memory(
        lambda store, db: ended(store, db, other)
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.lists(st.sampled_from([*WORDS, "red green", "blue blue red"]), max_size=4),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.sampled_from(WORDS),
    st.integers(1, 8),
)
@pytest.mark.accepts("R-29")
def test_dense_search_equals_the_model(edits, query, k):
    async def scenario(store, database):
        model: dict[int, list[str]] = {}
        for version, (document, wanted, gone) in enumerate(edits, start=1):
            texts = [] if gone else wanted
            if gone:
                model.pop(document, None)
            else:
                model[document] = texts
            await put(store, document, texts, version=version, deleted=gone, fence=version)
            found = await dense(store, query, k=k)
            assert [(hit.id, hit.start) for hit in found] == expected(model, query, k)
            assert [hit.score for hit in found] == sorted((h.score for h in found), reverse=True)
        assert await database.read(wrong) == []

    in_memory(scenario)


def expected(model, query, k):
    target = vector_of(query).astype(np.float64)
    target /= np.linalg.norm(target)
    best = []
    for document, texts in model.items():
        at, mine = 0, []
        for text in texts:
            score = round(float(vector_of(text).astype(np.float64) @ target), 6)
            mine.append((-score, str(document), at))
            at += len(text) + 1
        if mine:
            best.append((*min(mine), document))
    return [(document, at) for _, _, at, document in sorted(best)[:k]]


@pytest.mark.accepts("003-50", "R-12")
def test_one_document_in_fifty_that_cannot_be_published_keeps_no_other_back():
    async def scenario(store, database):
        texts = [f"text {number}" for number in range(50)]
        await store.keep(
            "",
            1,
            {publication(0, [t]).pieces[0].digest: vector_of(t) for t in texts if t != "text 7"},
        )
        verdicts = await store.publish(
            [publication(number, [text]) for number, text in enumerate(texts)], fence=1, space=1
        )
        assert verdicts.count(Verdict.PUBLISHED) == 49
        assert verdicts[7] is Verdict.INCOMPLETE
        assert (await store.counts(HOME)).documents == 49
        again = await put(store, 7, ["text 7"])
        assert again is Verdict.PUBLISHED
        assert await database.read(wrong) == []

    in_memory(scenario)


@pytest.mark.accepts("003-44")
def test_unchanged_chunks_keep_their_rows():
    async def scenario(store, database):
        def rows(connection):
            return dict(connection.execute("select text, chunk from store_chunk"))

        await put(store, "a", ["one", "two", "three"])
        before = await database.read(rows)
        for fence in (1, 2):
            await put(store, "a", ["one", "two", "three"], fence=fence)
            assert await database.read(rows) == before
        await put(store, "a", ["zero", "one", "three"], version=2, fence=2)
        after = await database.read(rows)
        assert after["one"] == before["one"]
        assert after["three"] == before["three"]
        assert after["zero"] > max(before.values())
        assert "two" not in after

    in_memory(scenario)


def test_facts_are_appended_with_what_they_report():
    async def scenario(store, database):
        await put(store, "a", ["one", "two"], since=SetClock().time - 40)
        await put(store, "a", ["one", "two"])  # superseded or repeated: nothing happened
        await put(store, "a", [], version=2, fence=2, deleted=True)

        def facts(connection):
            return connection.execute(
                "select type, collection, document, data from event order by seq"
            ).fetchall()

        assert await database.read(facts) == [
            (
                "document.indexed",
                "articles",
                key_of("a").id,
                '{"chunks": 2, "embedded": 0, "reused": 0, "lag_ms": 40}',
            ),
            ("document.deleted", "articles", key_of("a").id, '{"chunks": 2}'),
        ]

    in_memory(scenario)


def test_one_document_with_many_near_chunks_leaves_room_for_others():
    async def scenario(store, database):
        await put(store, "big", ["same"] * 300)
        for number in range(5):
            await put(store, number, [f"text {number}"])
        for mode in ("dense", "hybrid"):
            query = Query("same", vector_of("same"), (HOME,), mode=mode, k=6)
            found = await store.search(query)
            assert (found[0].id, found[0].start) == ("big", 0)
            assert len({hit.id for hit in found}) == len(found)
        assert len(await dense(store, "same", k=6)) == 6

    in_memory(scenario)


def test_a_big_collection_is_forgotten_in_bounded_steps(monkeypatch):
    from evervec.stores.sqlite import hidden as module

    monkeypatch.setattr(module, "FORGET_DOCUMENTS", 2)

    async def scenario(store, database):
        for number in range(7):
            await put(store, number, [f"text {number}"])
        await store.forget(HOME)
        assert await database.read(wrong) == []
        left = """
            select (select count(*) from store_document)
                + (select count(*) from store_chunk)
                + (select count(*) from store_collection)
        """
        assert await database.read(lambda connection: connection.execute(left).get) == 0

    in_memory(scenario)


def test_a_half_forgotten_collection_is_out_of_every_answer():
    """The process died right after `forget` began."""

    async def scenario(store, database):
        await put(store, "a", ["red"], version=5, fence=5)
        await database.write(
            lambda connection: connection.execute("update store_collection set forgotten = 1")
        )
        assert await store.look([key_of("a")]) == {}
        assert await store.scopes() == []
        assert (await store.counts(HOME)).documents == 0
        for mode in ("dense", "lexical", "hybrid"):
            assert await store.search(Query("red", vector_of("red"), (HOME,), mode=mode)) == []
        assert await put(store, "b", ["blue"]) is Verdict.PUBLISHED
        await store.prune(unused_before=0, limit=10)
        assert await database.read(wrong) == []
        assert [hit.id for hit in await dense(store, "red")] == ["b"]
        assert await store.scopes() == [HOME]

    in_memory(scenario)


def test_chunks_deleted_by_hand_do_not_break_a_search_by_words():
    async def scenario(store, database):
        await put(store, "a", ["red one"])
        await put(store, "b", ["red two"])
        await database.write(
            lambda connection: connection.execute("delete from store_chunk where text = 'red one'")
        )
        assert [hit.id for hit in await lexical(store, "red")] == ["b"]
        assert len(await store.damaged(HOME)) == 1

    in_memory(scenario)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("How do leases expire?", ["How", "do", "leases", "expire"]),
        ('a "quoted" word, a-b', ["a", "quoted", "word", "b"]),
        ("snake_case", ["snake", "case"]),
        ("cafe\u0301", ["cafe\u0301"]),
        ("हिन्दी", ["हिन्दी"]),
        ("\u0301 !", []),
    ],
)
def test_words_are_what_people_mean_by_words(text, words):
    assert words_of(text) == words

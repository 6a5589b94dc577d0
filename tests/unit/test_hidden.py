"""Chunks that no search sees: a large document's next set, and what is on its way out."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import pytest

from evervec import faults
from evervec.model import Hit, Scope, Verdict
from evervec.ports import Query
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore, hidden
from evervec.stores.sqlite.hidden import ABANDONED_MS
from evervec.testing.store_suite import (
    HOME,
    SetClock,
    dense,
    digest_of,
    key_of,
    lexical,
    publication,
    put,
    remove,
    vector_of,
)

pytestmark = pytest.mark.anyio

Mode: TypeAlias = Literal["dense", "lexical", "hybrid"]
MODES: tuple[Mode, ...] = ("dense", "lexical", "hybrid")
LARGE = 8
OTHER = Scope("", "other")


class Died(Exception):
    """Stands for the end of the process."""


class Opened:
    """A store in memory with its clock and its database."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.database = Database("file:/hidden?vfs=memdb")
        self.store = SqliteStore(self.database, clock=self.clock, large=LARGE)

    async def number(self, sql: str) -> int:
        return int(await self.database.read(lambda connection: connection.execute(sql).get))

    async def chunks(self) -> int:
        return await self.number("select count(*) from store_chunk")

    async def sets(self) -> int:
        return await self.number("select count(*) from store_hidden")


@pytest.fixture
async def opened():
    opened = Opened()
    await opened.store.open()
    yield opened
    await opened.store.close()
    await opened.database.close()


@pytest.fixture
def dies(monkeypatch):
    """Let a publication break off at a label's *place*-th passing."""

    def prepare(label: str, place: int) -> None:
        passed = []

        def hook(reached: str) -> None:
            passed.append(reached)
            if passed.count(label) == place and reached == label:
                raise Died

        monkeypatch.setattr(faults, "hook", hook)

    yield prepare
    monkeypatch.setattr(faults, "hook", None)


async def tide(store: SqliteStore, mode: Mode) -> Sequence[Hit]:
    return await store.search(Query("tide", vector_of("tide tables"), (HOME,), 10, mode))


def pages(word: str, count: int = 30) -> list[str]:
    return [f"{word} page number{number} tide" for number in range(count)]


async def half(opened, dies, word="ebb", *, id_="a", fence=2, scope=HOME) -> None:
    """Leave half a set behind, as a process that died does."""
    dies("store.stage.done", 2)
    with pytest.raises(Died):
        await put(opened.store, id_, pages(word), fence=fence, version=fence, scope=scope)
    dies("", 0)


async def test_no_search_sees_what_is_on_its_way(opened, dies):
    """And it moves no score: how rare a word is comes from what can be found."""
    store = opened.store
    await put(store, "x", ["tide", "the tide", "no tide"], scope=Scope("", "before"))
    await put(store, "b", ["tide tables", "another tide"], metadata={"lang": "en"})
    await put(store, "c", ["nothing of it"])
    await put(store, "x", ["tide", "the tide", "no tide"], scope=OTHER)
    before = {mode: await tide(store, mode) for mode in MODES}
    recall = await store.recall(HOME, 10)
    await half(opened, dies)
    assert await opened.chunks() == 9 + 2 * LARGE

    for mode, hits in before.items():
        found = await tide(store, mode)
        assert [(hit.id, hit.score) for hit in found] == [(hit.id, hit.score) for hit in hits]
    assert await lexical(store, "ebb") == []
    assert len(await dense(store, pages("ebb")[0], k=1000)) == 2
    (hit,) = await dense(store, pages("ebb")[0], where={"lang": "en"})
    assert hit.id == "b"
    told = await store.recall(HOME, 10)
    assert recall is not None
    assert told is not None
    assert (told.chunks, told.recall) == (recall.chunks, 1.0)
    counts = await store.counts(HOME)
    assert (counts.documents, counts.chunks) == (2, 3)
    assert (await store.look([key_of("a")])) == {}


async def test_the_next_attempt_begins_anew_and_the_rest_of_the_last_one_goes(opened, dies):
    """Those of others stay, and that of a lease which is newer."""
    store = opened.store
    await half(opened, dies)
    await half(opened, dies, "flow", id_="b")
    await half(opened, dies, "neap", scope=OTHER)
    assert await put(store, "a", pages("ebb"), fence=3) is Verdict.PUBLISHED
    assert (await opened.chunks(), await opened.sets()) == (30 + 4 * LARGE, 2)
    assert len(await lexical(store, "ebb")) == 1
    assert await store.damaged(HOME) == []

    await half(opened, dies, "spring", fence=9)
    assert await put(store, "a", pages("rip"), version=4, fence=4) is Verdict.PUBLISHED
    assert (await opened.chunks(), await opened.sets()) == (30 + 6 * LARGE, 3)
    await store.prune(unused_before=0, limit=1000)
    assert await opened.sets() == 3


async def test_a_set_that_grows_is_not_given_up(opened, monkeypatch):
    store, clock = opened.store, opened.clock
    await put(store, "mate", ["of the same collection"])
    texts = pages("ebb")
    await store.keep("", 1, {digest_of(text): vector_of(text) for text in texts})
    parts: list[str] = []

    def hook(label: str) -> None:
        if label != "store.stage.done":
            return
        parts.append(label)
        clock.time += ABANDONED_MS - 1
        if len(parts) == 3:
            raise Died

    monkeypatch.setattr(faults, "hook", hook)
    with pytest.raises(Died):
        await store.publish([publication("a", texts)], fence=2, space=1)
    monkeypatch.setattr(faults, "hook", None)
    await store.prune(unused_before=0, limit=1000)
    assert (await opened.chunks(), await opened.sets()) == (1 + 3 * LARGE, 1)


async def test_what_nobody_finishes_goes_after_an_hour_and_its_vectors_later(opened, dies):
    store, clock = opened.store, opened.clock
    await half(opened, dies)
    await half(opened, dies, "flow", id_="b", scope=OTHER)
    clock.time += ABANDONED_MS
    await store.prune(unused_before=0, limit=1000)
    assert (await opened.chunks(), await opened.sets()) == (4 * LARGE, 2)

    clock.time += 1
    await half(opened, dies, "neap", id_="c")
    await store.prune(unused_before=0, limit=1000)
    assert (await opened.chunks(), await opened.sets()) == (2 * LARGE, 1)
    assert await store.known("", 1, [digest_of(text) for text in pages("ebb")])
    clock.time += 1
    assert await store.prune(unused_before=clock.time, limit=1000) == 3 * 30 - 2 * LARGE


@pytest.mark.parametrize("fence", [2, 3])
async def test_what_was_overtaken_goes_with_the_next_prune(opened, dies, fence):
    """By a document of the same name: that of another one, or of another collection, stays."""
    store = opened.store
    await half(opened, dies)
    await half(opened, dies, "flow", id_="b")
    await half(opened, dies, "neap", id_="a", scope=OTHER)
    await put(store, "a", ["small now"], fence=fence, version=3)
    await store.prune(unused_before=0, limit=1000)
    assert (await opened.chunks(), await opened.sets()) == (1 + 4 * LARGE, 2)


async def test_a_set_that_was_given_up_is_not_continued(opened, dies, monkeypatch):
    store, clock = opened.store, opened.clock
    texts = pages("ebb")
    dies("store.publish.commit", 2)  # the first one found that the document is large
    with pytest.raises(Died):
        await put(store, "b", pages("flow"))
    dies("", 0)
    await store.keep("", 1, {digest_of(text): vector_of(text) for text in texts})
    given_up: list[str] = []

    def hook(label: str) -> None:
        # In the middle of it another process's clock says that nobody is there any more.
        if label == "store.stage.done" and not given_up:
            given_up.append(label)
            opened.database.write_now(
                lambda connection: connection.execute(
                    "update store_hidden set going = 1 where id = ?", (key_of("a").id,)
                )
            )

    monkeypatch.setattr(faults, "hook", hook)
    kept = await opened.sets()
    assert kept == 1
    (verdict,) = await store.publish([publication("a", texts)], fence=1, space=1)
    monkeypatch.setattr(faults, "hook", None)
    assert given_up
    assert verdict is Verdict.INCOMPLETE
    assert await opened.sets() == kept
    clock.time += 1
    assert await put(store, "a", texts, fence=1) is Verdict.PUBLISHED


async def test_a_set_with_a_part_missing_is_not_shown(opened, monkeypatch):
    """A chunk less than the document has: somebody counted wrongly, and no search shall."""
    store = opened.store
    await put(store, "a", ["before"])
    texts = pages("ebb")
    await store.keep("", 1, {digest_of(text): vector_of(text) for text in texts})

    def hook(label: str) -> None:
        if label == "store.stage.done":
            opened.database.write_now(
                lambda connection: connection.execute("update store_hidden set chunks = 29")
            )

    monkeypatch.setattr(faults, "hook", hook)
    (verdict,) = await store.publish([publication("a", texts, version=2)], fence=2, space=1)
    monkeypatch.setattr(faults, "hook", None)
    assert verdict is Verdict.INCOMPLETE
    assert [hit.text for hit in await dense(store, "before")] == ["before"]
    assert await opened.chunks() == 1


async def test_a_forgotten_collection_takes_its_hidden_sets_along_and_no_other(
    opened, dies, monkeypatch
):
    """And what was large in it goes in small steps."""
    store = opened.store
    monkeypatch.setattr(hidden, "FORGET_CHUNKS", 20)
    await put(store, "z", pages("old"))
    for id_ in ("x", "y"):
        await put(store, id_, pages(id_, 15))
    await half(opened, dies)
    await half(opened, dies, "flow", scope=OTHER)
    await store.forget(HOME)
    assert (await opened.chunks(), await opened.sets()) == (2 * LARGE, 1)
    assert await put(store, "a", pages("flow"), fence=3, version=3, scope=OTHER)
    assert len(await lexical(store, "flow", scopes=(OTHER,))) == 1


async def test_a_small_edit_of_a_large_document_keeps_the_rows_of_the_rest(opened):
    store = opened.store
    texts = pages("ebb")
    await put(store, "a", pages("other"), scope=OTHER)
    await put(store, "A", pages("another"))
    await put(store, "a", texts)

    def rows(connection):
        return dict(connection.execute("select text, chunk from store_chunk").fetchall())

    before = await opened.database.read(rows)
    await put(store, "a", [*texts[:-1], "a new end"], version=2, fence=2)
    after = await opened.database.read(rows)
    assert {text for text in before if before[text] != after.get(text)} == {texts[-1]}

    # At the front it moves all others: cheaper than new ones, as long as they are not too many.
    monsoon = ["a new front", *texts]
    await put(store, "a", monsoon, version=3, fence=3)
    moved = await opened.database.read(rows)
    assert moved[texts[0]] == after[texts[0]]
    many = pages("flow", 20 * LARGE)
    await put(store, "a", many, version=4, fence=4)
    new = await opened.database.read(rows)
    await put(store, "a", ["a new front", *many], version=5, fence=5)
    last = await opened.database.read(rows)
    assert all(last[text] != new[text] for text in many)
    assert [hit.text for hit in await lexical(store, "front")] == ["a new front"]
    assert await opened.chunks() == len(many) + 61
    assert await store.damaged(HOME) == []


async def test_a_new_document_never_gets_the_number_of_what_is_on_its_way_out(opened, dies):
    store = opened.store
    await put(store, "a", pages("old"))
    dies("store.publish.done", 2)  # the first one found that the document is large
    with pytest.raises(Died):
        await put(store, "a", pages("new"), version=2, fence=2)
    dies("", 0)
    assert await opened.chunks() == 60
    await put(store, "b", ["young"])
    await half(opened, dies, "neap", id_="c")
    assert len(await lexical(store, "old")) == 0
    assert [hit.id for hit in await lexical(store, "young")] == ["b"]
    await store.prune(unused_before=0, limit=1000)
    assert await opened.chunks() == 31 + 2 * LARGE
    assert [hit.id for hit in await lexical(store, "young")] == ["b"]
    assert len(await lexical(store, "new")) == 1


async def test_vectors_of_a_large_document_that_goes_are_kept_for_a_while(opened):
    store, clock = opened.store, opened.clock
    await put(store, "a", pages("ebb"))
    clock.time += 1
    await remove(store, "a", version=2, fence=2)
    assert await opened.chunks() == 0
    assert await store.prune(unused_before=clock.time, limit=1000) == 0
    assert await store.prune(unused_before=clock.time + 1, limit=1000) == 30


async def test_what_is_told_of_the_way_of_a_large_document_ends_with_it(opened):
    store, clock = opened.store, opened.clock
    for scope in (HOME, OTHER):
        await put(store, "z", ["mate"], scope=scope)
        clock.time += 1
        for id_ in ("a", "b"):
            await store.advance(key_of(id_, scope), 1, 3)
    await store.advance(key_of("a", Scope("", "unknown")), 1, 3)
    clock.time += 1
    await put(store, "a", ["done"])
    await store.prune(unused_before=0, limit=10)
    assert [each.id for each in (await store.counts(HOME)).coming] == [key_of("b").id]
    assert len((await store.counts(OTHER)).coming) == 2
    assert await opened.number("select count(*) from store_progress") == 3
    await store.forget(OTHER)
    await store.prune(unused_before=0, limit=10)
    assert await opened.number("select count(*) from store_progress") == 1
    clock.time += ABANDONED_MS
    await store.prune(unused_before=0, limit=10)
    assert (await store.counts(HOME)).coming == ()

    await store.advance(key_of("a"), 2, 3)
    await store.prune(unused_before=0, limit=10)
    assert [each.id for each in (await store.counts(HOME)).coming] == [key_of("a").id]


async def test_the_matrix_leaves_out_what_goes_and_takes_what_comes(tmp_path, dies):
    """Also one that was made while it was on its way, by this process or another."""
    database = Database(tmp_path / "state.db")
    store = SqliteStore(database, clock=SetClock(), large=LARGE)
    await store.open()
    try:
        await put(store, "b", ["beside"])
        dies("store.stage.done", 2)
        with pytest.raises(Died):
            await put(store, "a", pages("ebb"), fence=2)
        dies("", 0)
        for text in ("beside", *pages("ebb")):
            assert [hit.id for hit in await dense(store, text, k=100)] == ["b"]
        await put(store, "a", pages("ebb"), fence=3)
        for text in pages("ebb"):
            (hit, *_) = await dense(store, text, k=1)
            assert hit.text == text
            assert hit.score == pytest.approx(1, abs=1e-6)
        await put(store, "a", pages("flow"), version=2, fence=4)
        assert (await dense(store, pages("ebb")[3], k=2))[0].score < 1 - 1e-3
        near = await dense(store, pages("flow")[3], k=1)
        assert np.isclose(near[0].score, 1, atol=1e-6)
    finally:
        await store.close()
        await database.close()


async def test_a_document_that_is_only_barred_gets_no_number_of_a_hidden_set(opened, dies):
    """It had that set's chunks then, as its own: SQLite had counted on from below zero."""
    dies("store.stage.done", 2)
    with pytest.raises(Died):
        await put(opened.store, "half", pages("ebb"))
    faults.hook = None
    await put(opened.store, "whole", pages("flow"))
    await opened.store.bar({key_of("barred"): 1})
    owned = "select count(*) from store_document join store_chunk using (document)"
    assert await opened.number(f"{owned} where id = '\"whole\"'") == 30
    assert await opened.number(f"{owned} where id <> '\"whole\"'") == 0


async def test_a_document_that_is_only_barred_gets_no_number_that_is_on_its_way_out(opened, dies):
    await put(opened.store, "earlier", ["small"])
    await put(opened.store, "a", pages("ebb", LARGE))
    await put(opened.store, "a", pages("ebb", LARGE), version=2, fence=2)
    dies("store.publish.done", 2)
    with pytest.raises(Died):
        await put(opened.store, "a", pages("flow"), version=3, fence=3)
    faults.hook = None
    await opened.store.bar({key_of("barred"): 1})
    left = "select count(*) from store_chunk where document = "
    assert (
        await opened.number(f"{left} (select document from store_hidden where going = 1)") == LARGE
    )
    owned = "select count(*) from store_document join store_chunk using (document)"
    assert await opened.number(f"{owned} where id = '\"barred\"'") == 0

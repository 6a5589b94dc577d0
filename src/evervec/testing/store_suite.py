"""What every store promises. Derive a class from `StoreSuite` and give it `store`:

class TestMine(StoreSuite):
    @pytest.fixture
    async def store(self, clock):
        mine = Mine(clock=clock)
        yield mine
        await mine.close()
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pytest

from evervec.errors import ConfigError
from evervec.model import (
    TEXT_BYTES,
    Chunk,
    Hit,
    Key,
    Piece,
    Plain,
    Publication,
    Scope,
    Verdict,
    encode_id,
)
from evervec.ports import Query, Store, StoreControl, Vector

DIMENSION = 16
HOME = Scope("", "articles")
OLD, NEW = "the old words", "the new words"


class WholeStore(Store, StoreControl, Protocol):
    """Both sides of one store."""


class SetClock:
    """A clock that stands until a test moves it."""

    def __init__(self) -> None:
        self.time = 1_800_000_000_000

    def now(self) -> int:
        return self.time

    def boot(self) -> int:
        return self.time


def vector_of(text: str) -> Vector:
    """Return the one direction of *text*: equal for equal texts, and meaning nothing."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "little")
    vector = np.random.default_rng(seed).standard_normal(DIMENSION)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def publication(
    id_: Plain,
    texts: Sequence[str],
    *,
    version: int = 1,
    scope: Scope = HOME,
    metadata: Mapping[str, Any] | None = None,
    deleted: bool = False,
    since: int | None = None,
) -> Publication:
    """Build a document of chunks that follow each other."""
    pieces, at = [], 0
    for text in texts:
        pieces.append(Piece(Chunk(text, at, at + len(text)), digest_of(text)))
        at += len(text) + 1
    whole = repr((list(texts), dict(metadata or {})))
    return Publication(
        Key(scope.tenant, scope.collection, encode_id(id_)),
        version,
        b"" if deleted else digest_of(whole),
        tuple(pieces),
        metadata or {},
        deleted,
        since,
    )


async def put(
    store: Store,
    id_: Plain,
    texts: Sequence[str],
    *,
    fence: int = 1,
    space: int = 1,
    **more: Any,
) -> Verdict:
    """Keep the vectors a document needs and publish it."""
    scope = more.get("scope", HOME)
    await store.keep(scope.tenant, space, {digest_of(text): vector_of(text) for text in texts})
    (verdict,) = await store.publish([publication(id_, texts, **more)], fence=fence, space=space)
    return verdict


async def remove(store: Store, id_: Plain, *, version: int, fence: int) -> Verdict:
    gone = publication(id_, [], version=version, deleted=True)
    (verdict,) = await store.publish([gone], fence=fence, space=1)
    return verdict


async def dense(store: Store, text: str, **more: Any) -> Sequence[Hit]:
    more = {"scopes": (HOME,), "mode": "dense", **more}
    return await store.search(Query(text, vector_of(text), **more))


async def lexical(store: Store, text: str, **more: Any) -> Sequence[Hit]:
    more = {"scopes": (HOME,), "mode": "lexical", **more}
    return await store.search(Query(text, None, **more))


async def texts_of(store: Store, id_: Plain) -> set[str]:
    """Return what search has of a document, near or far."""
    return {hit.text for hit in await dense(store, "x", k=1000) if hit.id == id_}


def key_of(id_: Plain, scope: Scope = HOME) -> Key:
    return Key(scope.tenant, scope.collection, encode_id(id_))


class StoreSuite:
    """The meaning of the ports `Store` and `StoreControl`."""

    @pytest.fixture
    def clock(self) -> SetClock:
        return SetClock()

    @pytest.fixture
    def store(self, clock: SetClock) -> WholeStore:
        raise NotImplementedError("give the suite the store to test")

    async def test_what_is_published_is_found(self, store: WholeStore) -> None:
        assert await put(store, "a", ["alpha one", "beta two"]) is Verdict.PUBLISHED

        for hits in (await dense(store, "beta two"), await lexical(store, "two")):
            assert [(hit.id, hit.text, hit.start, hit.end) for hit in hits] == [
                ("a", "beta two", 10, 18)
            ]
        await put(store, "z", ["not asked for"])
        looks = await store.look([key_of("a"), key_of("b")])
        assert looks.keys() == {key_of("a")}
        looked = looks[key_of("a")]
        assert (looked.version, looked.fence, looked.chunks, looked.deleted, looked.space) == (
            1,
            1,
            2,
            False,
            1,
        )

    async def test_the_vectors_of_live_documents_are_told_in_order(self, store: WholeStore) -> None:
        """Of each whole document its digest and one vector a chunk, also where texts repeat."""
        texts = ["b", "a", "b", "c"]
        await put(store, "many", texts)
        await put(store, "empty", [])
        await put(store, "gone", ["gone"])
        await remove(store, "gone", version=2, fence=2)

        found = await store.published([key_of(id_) for id_ in ("many", "empty", "gone", "never")])

        assert found.keys() == {key_of("many"), key_of("empty")}
        many = found[key_of("many")]
        assert many.digest == publication("many", texts).digest
        np.testing.assert_allclose(many.vectors, [vector_of(text) for text in texts], atol=1e-6)
        assert found[key_of("empty")].vectors == ()
        assert await store.published([key_of("many", Scope("other", "articles"))]) == {}

    async def test_nothing_stored_is_nothing_known(self, store: WholeStore) -> None:
        assert await store.look([key_of("a")]) == {}
        assert await store.known("", 1, [digest_of("a")]) == frozenset()
        assert await dense(store, "a") == []
        assert await lexical(store, "a") == []
        assert (await store.counts(HOME)).documents == 0
        assert await store.documents(HOME, None, 10) == []

    async def test_known_is_by_tenant_and_space(self, store: WholeStore) -> None:
        await store.keep("t", 1, {digest_of(text): vector_of(text) for text in ("a", "c")})

        wanted = [digest_of("a"), digest_of("b")]
        assert await store.known("t", 1, wanted) == {digest_of("a")}
        assert await store.known("t", 2, wanted) == frozenset()
        assert await store.known("u", 1, wanted) == frozenset()
        (verdict,) = await store.publish(
            [publication("x", ["a"], scope=Scope("t", "articles"))], fence=1, space=2
        )
        assert verdict is Verdict.INCOMPLETE

    async def test_a_newer_version_replaces_all_of_the_older(self, store: WholeStore) -> None:
        await put(store, "a", [OLD])
        assert [hit.text for hit in await dense(store, OLD)] == [OLD]

        assert await put(store, "a", [NEW], version=2) is Verdict.PUBLISHED
        assert [hit.text for hit in await dense(store, OLD)] == [NEW]
        assert await lexical(store, "old") == []

    async def test_an_older_version_is_refused_whatever_its_fence(self, store: WholeStore) -> None:
        await put(store, "a", [NEW], version=2)

        assert await put(store, "a", [OLD], version=1, fence=9) is Verdict.SUPERSEDED
        assert await texts_of(store, "a") == {NEW}

    async def test_a_newer_version_wins_whatever_its_fence(self, store: WholeStore) -> None:
        await put(store, "a", [OLD], version=1, fence=9)

        assert await put(store, "a", [NEW], version=2, fence=3) is Verdict.PUBLISHED
        assert await texts_of(store, "a") == {NEW}

    async def test_at_one_version_the_newer_fence_wins(self, store: WholeStore) -> None:
        await put(store, "a", ["first"], version=0, fence=5)

        assert await put(store, "a", ["late"], version=0, fence=4) is Verdict.SUPERSEDED
        assert await put(store, "a", ["again"], version=0, fence=5) is Verdict.SUPERSEDED
        assert await put(store, "a", ["newer"], version=0, fence=6) is Verdict.PUBLISHED
        assert await texts_of(store, "a") == {"newer"}

    async def test_a_call_whose_answer_was_lost_can_be_repeated(self, store: WholeStore) -> None:
        await put(store, "a", [NEW], version=3, fence=5)
        before = await store.look([key_of("a")])

        assert await put(store, "a", [NEW], version=3, fence=5) is Verdict.PUBLISHED
        assert await store.look([key_of("a")]) == before
        assert (await store.counts(HOME)).chunks == 1

    async def test_a_deleted_document_is_gone_at_once(self, store: WholeStore) -> None:
        await put(store, "a", [OLD])
        await put(store, "b", [NEW])

        assert await remove(store, "a", version=2, fence=2) is Verdict.PUBLISHED
        assert [hit.id for hit in await dense(store, OLD)] == ["b"]
        assert await lexical(store, "old") == []
        assert (await store.look([key_of("a")]))[key_of("a")].deleted
        counts = await store.counts(HOME)
        assert (counts.documents, counts.chunks) == (1, 1)

    async def test_a_late_writer_cannot_resurrect(self, store: WholeStore) -> None:
        """Not even a document that was deleted before anything of it was stored."""
        await put(store, "a", [OLD], version=1, fence=1)
        for id_ in ("a", "never"):
            assert await remove(store, id_, version=2, fence=5) is Verdict.PUBLISHED
            assert await put(store, id_, [OLD], version=1, fence=4) is Verdict.SUPERSEDED
            assert await put(store, id_, [OLD], version=2, fence=4) is Verdict.SUPERSEDED
        assert await dense(store, OLD) == []

    async def test_a_document_that_comes_back_is_found_again(self, store: WholeStore) -> None:
        await put(store, "a", [OLD])
        await remove(store, "a", version=2, fence=2)

        assert await put(store, "a", [OLD], version=3, fence=3) is Verdict.PUBLISHED
        assert await texts_of(store, "a") == {OLD}
        assert not (await store.look([key_of("a")]))[key_of("a")].deleted

    async def test_a_barred_fence_is_refused_and_a_newer_one_is_not(
        self, store: WholeStore
    ) -> None:
        await put(store, "a", [OLD])
        await store.bar({key_of("a"): 7, key_of("unseen"): 7})
        await store.bar({key_of("a"): 3})

        for id_ in ("a", "unseen"):
            assert await put(store, id_, [NEW], version=2, fence=7) is Verdict.BARRED
            assert await put(store, id_, [NEW], version=2, fence=8) is Verdict.PUBLISHED
            assert await texts_of(store, id_) == {NEW}

    async def test_a_bar_stores_nothing(self, store: WholeStore) -> None:
        await store.bar({key_of("a"): 7})

        assert await store.look([key_of("a")]) == {}
        assert await store.documents(HOME, None, 10) == []
        assert (await store.counts(HOME)).documents == 0

    async def test_one_refusal_does_not_touch_its_mates(self, store: WholeStore) -> None:
        await put(store, "new", [NEW], version=5)
        await store.bar({key_of("barred"): 9})
        texts = ["one", "two", "three", "four"]
        await store.keep("", 1, {digest_of(text): vector_of(text) for text in texts})

        verdicts = await store.publish(
            [
                publication("one", ["one"]),
                publication("new", ["two"], version=4),
                publication("barred", ["three"]),
                publication("lacking", ["nobody embedded this"]),
                publication("four", ["four"]),
            ],
            fence=2,
            space=1,
        )

        assert verdicts == [
            Verdict.PUBLISHED,
            Verdict.SUPERSEDED,
            Verdict.BARRED,
            Verdict.INCOMPLETE,
            Verdict.PUBLISHED,
        ]
        ids = {hit.id for hit in await dense(store, "x", k=100)}
        assert ids == {"one", "new", "four"}

    async def test_an_incomplete_publication_leaves_the_old_set(self, store: WholeStore) -> None:
        await put(store, "a", [OLD])

        (verdict,) = await store.publish(
            [publication("a", [OLD, "nobody embedded this"], version=2)], fence=2, space=1
        )

        assert verdict is Verdict.INCOMPLETE
        assert await texts_of(store, "a") == {OLD}
        assert (await store.look([key_of("a")]))[key_of("a")].version == 1

    async def test_one_document_twice_in_one_call_ends_at_its_newest(
        self, store: WholeStore
    ) -> None:
        await store.keep("", 1, {digest_of(text): vector_of(text) for text in (OLD, NEW)})

        verdicts = await store.publish(
            [publication("a", [NEW], version=2), publication("a", [OLD], version=1)],
            fence=1,
            space=1,
        )

        assert verdicts == [Verdict.PUBLISHED, Verdict.SUPERSEDED]
        assert await texts_of(store, "a") == {NEW}

    async def test_the_same_text_at_a_newer_version_is_only_noted(self, store: WholeStore) -> None:
        await put(store, "a", [OLD], version=1, fence=1)

        assert await put(store, "a", [OLD], version=2, fence=2) is Verdict.PUBLISHED
        looked = (await store.look([key_of("a")]))[key_of("a")]
        assert (looked.version, looked.fence, looked.chunks) == (2, 2, 1)
        assert await texts_of(store, "a") == {OLD}

    async def test_the_same_text_may_come_with_other_metadata(
        self, store: WholeStore, clock: SetClock
    ) -> None:
        """Nothing has to be cut for it: the publication brings no chunks."""
        await put(store, "a", [OLD], version=1, metadata={"seen": 1})
        had = (await store.look([key_of("a")]))[key_of("a")].digest
        digest = had[:TEXT_BYTES] + bytes(len(had) - TEXT_BYTES)
        clock.time += 100
        new = publication("a", [], version=2, metadata={"seen": 2}, since=clock.time - 5)
        touch = replace(new, digest=digest, touch=True)
        assert await store.publish([touch], fence=2, space=1) == [Verdict.PUBLISHED]
        assert (await store.look([key_of("a")]))[key_of("a")].digest == digest
        assert [hit.text for hit in await dense(store, OLD, where={"seen": 2})] == [OLD]
        assert not await dense(store, OLD, where={"seen": 1})
        assert (await store.counts(HOME)).lags == (5,)

    async def test_texts_that_repeat_or_move_keep_their_places(self, store: WholeStore) -> None:
        await put(store, "a", ["x", "y", "x", "z"])
        await put(store, "a", ["y", "x", "w", "x", "x"], version=2, fence=2)

        (hit,) = await lexical(store, "w")
        assert (hit.start, hit.end) == (4, 5)
        (hit,) = await lexical(store, "y")
        assert (hit.start, hit.end) == (0, 1)
        (hit,) = await lexical(store, "x")
        assert (hit.start, hit.end) == (2, 3)
        assert (await store.counts(HOME)).chunks == 5
        assert await lexical(store, "z") == []

    async def test_a_document_without_chunks_is_in_sync_and_not_found(
        self, store: WholeStore
    ) -> None:
        assert await put(store, "a", []) is Verdict.PUBLISHED
        assert await dense(store, "a") == []
        assert (await store.counts(HOME)).documents == 1

    async def test_two_spaces_never_meet_in_one_collection(self, store: WholeStore) -> None:
        await put(store, "a", [OLD], space=1)

        with pytest.raises(ConfigError, match="space"):
            await put(store, "b", [NEW], space=2)
        assert [hit.id for hit in await dense(store, NEW)] == ["a"]

    async def test_an_emptied_collection_may_take_another_space(self, store: WholeStore) -> None:
        await put(store, "a", [OLD], space=1)
        await remove(store, "a", version=2, fence=2)

        assert await put(store, "b", [NEW], space=2, fence=3) is Verdict.PUBLISHED
        assert [hit.id for hit in await dense(store, OLD)] == ["b"]
        assert await put(store, "c", [NEW], space=2, fence=3) is Verdict.PUBLISHED
        with pytest.raises(ConfigError, match="space"):
            await put(store, "d", [NEW], space=1, fence=3)

    async def test_collections_of_two_spaces_are_not_ranked_together(
        self, store: WholeStore
    ) -> None:
        other = Scope("", "other")
        await put(store, "a", [OLD], space=1)
        await put(store, "b", [NEW], space=2, scope=other)

        with pytest.raises(ConfigError, match="different models"):
            await dense(store, OLD, scopes=(HOME, other))
        found = await lexical(store, "words", scopes=(HOME, other))
        assert {hit.collection for hit in found} == {"articles", "other"}

    async def test_a_space_has_one_dimension(self, store: WholeStore) -> None:
        await put(store, "a", [OLD])

        with pytest.raises(ConfigError, match="dimensions"):
            await store.keep("", 1, {digest_of(NEW): np.ones(3, np.float32)})
        with pytest.raises(ConfigError, match="dimensions"):
            await store.search(Query("", np.ones(3, np.float32), (HOME,), mode="dense"))

    async def test_tenants_with_equal_names_never_meet(self, store: WholeStore) -> None:
        mine, theirs = Scope("mine", "articles"), Scope("theirs", "articles")
        await put(store, "a", ["my secret words"], scope=mine)
        await put(store, "a", ["their secret words"], scope=theirs)

        for scope, text in ((mine, "my secret words"), (theirs, "their secret words")):
            for mode in ("dense", "lexical", "hybrid"):
                query = Query("secret words", vector_of("x"), (scope,), mode=mode, k=100)
                assert [hit.text for hit in await store.search(query)] == [text]
            assert len(await store.documents(scope, None, 10)) == 1
            assert (await store.counts(scope)).chunks == 1
        (verdict,) = await store.publish(
            [publication("b", ["their secret words"], scope=mine)], fence=2, space=1
        )
        assert verdict is Verdict.INCOMPLETE

        await store.forget(mine)
        assert await dense(store, "x", scopes=(mine,)) == []
        assert len(await dense(store, "x", scopes=(theirs,))) == 1

    async def test_ids_that_look_alike_are_different_documents(self, store: WholeStore) -> None:
        ids: list[Plain] = [1, "1", 1.5, b"1", ("1",), ("a", "b"), "a:b", None, ":", ""]
        for number, id_ in enumerate(ids):
            await put(store, id_, [f"text {number}"])

        for number, id_ in enumerate(ids):
            hit = (await dense(store, f"text {number}", k=1))[0]
            assert (type(hit.id), hit.id) == (type(id_), id_)
        assert (await store.counts(HOME)).documents == len(ids)

    async def test_filters_choose_before_the_best_are_taken(self, store: WholeStore) -> None:
        for number in range(40):
            await put(
                store, number, [f"word text {number}"], metadata={"n": number, "even": number % 2}
            )

        for mode in ("dense", "lexical", "hybrid"):
            query = Query("word", vector_of("text 0"), (HOME,), mode=mode, k=3)
            assert len(await store.search(replace(query, where={"even": 1}))) == 3
            found = await store.search(replace(query, where={"n": [3, 5, 99], "even": 1}))
            assert {hit.id for hit in found} == {3, 5}
            assert await store.search(replace(query, where={"n": "3"})) == []
            assert await store.search(replace(query, where={"none": 3})) == []
            assert await store.search(replace(query, where={"n": []})) == []

    @pytest.mark.parametrize(
        "value", [0, 1, -7, 2.5, "text", "", 'quo"te', "$.path", True, None, b"\x00\xff", "ü"]
    )
    async def test_metadata_comes_back_and_is_filtered_on(
        self, store: WholeStore, value: Any
    ) -> None:
        name = 'a."odd" $name'
        await put(store, "a", [OLD], metadata={name: value})
        await put(store, "b", [OLD], metadata={name: "something else"})

        (hit,) = await dense(store, OLD, where={name: value})
        assert (hit.id, hit.metadata) == ("a", {name: value})

    async def test_equal_scores_go_by_id_and_position(self, store: WholeStore) -> None:
        for id_ in ("c", "a", "d", "b"):
            await put(store, id_, ["same", "same"])

        for mode in ("dense", "lexical", "hybrid"):
            query = Query("same", vector_of("same"), (HOME,), mode=mode, k=3)
            found = await store.search(query)
            assert [(hit.id, hit.start) for hit in found] == [("a", 0), ("b", 0), ("c", 0)]

    async def test_several_collections_are_ranked_as_one(self, store: WholeStore) -> None:
        other, empty = Scope("", "other"), Scope("", "empty")
        await put(store, 1, ["near"])
        await put(store, 2, ["near"], scope=other)
        await put(store, 3, ["far"], scope=other)

        found = await dense(store, "near", scopes=(other, HOME, empty, HOME))
        assert [(hit.collection, hit.id) for hit in found] == [
            ("articles", 1),
            ("other", 2),
            ("other", 3),
        ]
        assert found[0].score == pytest.approx(1, abs=1e-6)

    @pytest.mark.parametrize("k", [0, -1, 1001])
    async def test_an_impossible_k_is_refused(self, store: WholeStore, k: int) -> None:
        with pytest.raises(ConfigError, match="k is"):
            await dense(store, "x", k=k)

    @pytest.mark.parametrize("vector", [None, np.zeros(DIMENSION), np.full(DIMENSION, np.nan)])
    async def test_a_query_without_direction_is_refused(
        self, store: WholeStore, vector: Any
    ) -> None:
        await put(store, "a", [OLD])
        with pytest.raises(ConfigError, match="vector"):
            await store.search(Query("x", vector, (HOME,), mode="dense"))

    async def test_k_beyond_the_collection_gives_all_of_it(self, store: WholeStore) -> None:
        for number in range(5):
            await put(store, number, [f"text {number}", f"more {number}"])

        assert len(await dense(store, "x", k=1000)) == 5

    @pytest.mark.parametrize(
        "text",
        [
            *("", "   ", "!?.,", '"', "'", "*", "AND", "NOT OR", "a AND", "text:x", "^a", "a*"),
            *("(", "_", "NEAR(a b)", "a-b", "{a}", "\x00", '"a', "日本", "é\u0301", "\u0301"),
            "x" * 5000,
        ],
    )
    async def test_any_text_is_a_harmless_query(self, store: WholeStore, text: str) -> None:
        await put(store, "a", ["a plain text"])

        assert len(await lexical(store, text)) <= 1
        assert len(await store.search(Query(text, vector_of("x"), (HOME,)))) == 1

    async def test_words_are_found_without_case_and_accents(self, store: WholeStore) -> None:
        await put(store, "a", ["Der CAFÉ-Besitzer"])

        for text in ("cafe", "Café", "BESITZER", "cafe\u0301"):
            assert [hit.id for hit in await lexical(store, text)] == ["a"]
        assert await lexical(store, "besitz") == []

    async def test_hybrid_joins_both_rankings(self, store: WholeStore) -> None:
        await put(store, "both", ["lease"])
        await put(store, "words", ["the lease of another thing"])
        await put(store, "neither", ["nothing at all"])

        found = await store.search(Query("lease", vector_of("lease"), (HOME,)))
        assert found[0].id == "both"
        assert found[0].score == pytest.approx(1)
        assert {hit.id for hit in found} == {"both", "words", "neither"}
        assert all(0 < hit.score <= 1 for hit in found)

    async def test_documents_are_listed_in_id_order_by_pages(self, store: WholeStore) -> None:
        for number in range(7):
            await put(store, f"id {number}", [f"text {number}"])
        await remove(store, "id 3", version=2, fence=2)

        seen, after = [], None
        while page := await store.documents(HOME, after, 2):
            assert len(page) <= 2
            seen += [id_ for id_, _ in page]
            after = seen[-1]
        assert seen == [encode_id(f"id {number}") for number in (0, 1, 2, 4, 5, 6)]

    async def test_counts_are_true_and_tell_the_lags(
        self, store: WholeStore, clock: SetClock
    ) -> None:
        await put(store, "a", ["x", "y"], since=clock.time - 30)
        clock.time += 100
        await put(store, "b", ["z"], since=clock.time - 20)
        await put(store, "a", ["x"], version=2, since=clock.time + 50, fence=2)
        await remove(store, "unseen", version=1, fence=2)

        counts = await store.counts(HOME)
        assert (counts.documents, counts.chunks) == (2, 2)
        assert sorted(counts.lags) == [0, 20]

    async def test_the_highest_fence_is_remembered(self, store: WholeStore) -> None:
        """A queue that was lost begins anew behind it, or its workers would all be refused."""
        assert await store.highest_fence() == 0
        await put(store, "a", [OLD], fence=7)
        await put(store, "b", [OLD], fence=3)
        await put(store, "c", [OLD], fence=5, scope=Scope("t", "other"))

        assert await store.highest_fence() == 7

    async def test_a_forgotten_collection_is_gone_and_may_begin_anew(
        self, store: WholeStore
    ) -> None:
        await put(store, "a", [OLD], version=5, fence=5)
        await store.forget(HOME)

        assert await store.look([key_of("a")]) == {}
        assert await dense(store, OLD) == []
        assert await lexical(store, "old") == []
        assert (await store.counts(HOME)).chunks == 0
        await store.forget(HOME)
        assert await put(store, "a", [NEW], version=1, fence=1) is Verdict.PUBLISHED
        assert await texts_of(store, "a") == {NEW}

    async def test_vectors_in_use_are_never_pruned(
        self, store: WholeStore, clock: SetClock
    ) -> None:
        await put(store, "a", [OLD])
        await put(store, "b", [OLD, NEW])
        await remove(store, "b", version=2, fence=2)
        clock.time += 1_000

        assert await store.prune(unused_before=clock.time, limit=100) == 1
        assert await store.known("", 1, [digest_of(OLD), digest_of(NEW)]) == {digest_of(OLD)}
        assert await texts_of(store, "a") == {OLD}

    async def test_unused_vectors_are_kept_for_a_while(
        self, store: WholeStore, clock: SetClock
    ) -> None:
        """A file that moved is deleted and comes back: its text is still known."""
        await put(store, "a", [OLD])
        clock.time += 1_000
        left = clock.time
        await remove(store, "a", version=2, fence=2)
        clock.time += 1_000

        assert await store.prune(unused_before=left, limit=100) == 0
        assert await store.known("", 1, [digest_of(OLD)]) == {digest_of(OLD)}
        (verdict,) = await store.publish([publication("moved", [OLD])], fence=3, space=1)
        assert verdict is Verdict.PUBLISHED
        assert await store.prune(unused_before=clock.time, limit=100) == 0

    async def test_a_vector_that_one_document_left_and_another_uses_is_not_unused(
        self, store: WholeStore, clock: SetClock
    ) -> None:
        """It takes no place among those that a bounded prune looks at."""
        for id_, texts, version in (("a", [OLD], 1), ("b", [OLD], 1), ("a", [NEW], 2)):
            await put(store, id_, texts, version=version)
            clock.time += 1
        await store.keep("", 1, {digest_of("unused"): vector_of("unused")})
        clock.time += 1
        assert await store.prune(unused_before=clock.time, limit=1) == 1

    async def test_a_prune_is_bounded(self, store: WholeStore, clock: SetClock) -> None:
        texts = [f"text {number}" for number in range(5)]
        await store.keep("", 1, {digest_of(text): vector_of(text) for text in texts})
        clock.time += 1

        pruned = [await store.prune(unused_before=clock.time, limit=2) for _ in range(4)]
        assert pruned == [2, 2, 1, 0]

    async def test_a_vector_pruned_after_planning_makes_it_incomplete(
        self, store: WholeStore, clock: SetClock
    ) -> None:
        await store.keep("", 1, {digest_of(OLD): vector_of(OLD)})
        assert await store.known("", 1, [digest_of(OLD)])
        clock.time += 1
        await store.prune(unused_before=clock.time, limit=10)

        (verdict,) = await store.publish([publication("a", [OLD])], fence=1, space=1)
        assert verdict is Verdict.INCOMPLETE
        assert await put(store, "a", [OLD], fence=1) is Verdict.PUBLISHED

    async def test_a_vector_kept_again_by_force_is_the_one_searched(
        self, store: WholeStore
    ) -> None:
        await put(store, "a", [OLD])
        assert (await dense(store, OLD))[0].score == pytest.approx(1, abs=1e-6)

        await store.keep("", 1, {digest_of(OLD): vector_of("another")})
        (hit,) = await dense(store, "another")
        assert hit.text == OLD
        assert hit.score == pytest.approx(1, abs=1e-6)
        assert [hit.text for hit in await lexical(store, "old")] == [OLD]
        assert (await store.counts(HOME)).chunks == 1

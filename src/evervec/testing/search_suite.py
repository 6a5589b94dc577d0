"""What a store promises of its search beyond finding: filters that compare, why and where it found.

Derive from it beside `StoreSuite`; the fixture `store` is the same.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from evervec.errors import ConfigError
from evervec.ports import Query, Store
from evervec.testing.store_suite import HOME, dense, put, vector_of

PRICES: Mapping[str, Any] = {
    "free": 0,
    "cheap": 4.5,
    "dear": 10,
    "text": "10",
    "none": None,
    "yes": True,
    "list": [5],
}


class SearchSuite:
    """More of the meaning of `Store.search`."""

    @pytest.mark.parametrize(
        ("condition", "wanted"),
        [
            ({"<": 10}, {"free", "cheap"}),
            ({"<=": 10}, {"free", "cheap", "dear"}),
            ({">": 4.5}, {"dear"}),
            ({">=": 4.5, "<": 10}, {"cheap"}),
            ({">": ""}, {"text"}),
            ({">=": "10", "<": "11"}, {"text"}),
            ({"=": 10}, {"dear"}),
            ({"=": [0, "10"]}, {"free", "text"}),
            ({"=": [0, 10], "!=": 0}, {"dear"}),
            ({"!=": 10}, {"free", "cheap", "text", "none", "yes", "list"}),
            ({"!=": [0, 10, "10"]}, {"cheap", "none", "yes", "list"}),
            ({"=": []}, set()),
            ({"<": -1}, set()),
        ],
    )
    async def test_filters_compare_numbers_with_numbers_and_texts_with_texts(
        self, store: Store, condition: Mapping[str, Any], wanted: set[str]
    ) -> None:
        for name, price in PRICES.items():
            await put(store, name, [f"word {name}"], metadata={"price": price, "a.b": 1})
        await put(store, "absent", ["word absent"])

        for mode in ("dense", "lexical", "hybrid"):
            where = {"price": condition, "a.b": {"<": 2}}
            query = Query("word", vector_of("x"), (HOME,), k=100, mode=mode, where=where)
            assert {hit.id for hit in await store.search(query)} == wanted

    @pytest.mark.parametrize(
        ("condition", "told"),
        [
            ({"<": None}, "cannot be <"),
            ({">=": [1, 2]}, "cannot be >="),
            ({"<": True}, "cannot be <"),
            ({"<": float("nan")}, "cannot be <"),
            ({"<": 1, "between": 2}, "compared by 'between'"),
        ],
    )
    async def test_a_comparison_that_means_nothing_is_refused(
        self, store: Store, condition: Mapping[str, Any], told: str
    ) -> None:
        await put(store, "a", ["a text"], metadata={"price": 1})
        with pytest.raises(ConfigError, match=told):
            await dense(store, "a text", where={"price": condition})

    async def test_a_filter_sees_what_changed_since_it_was_last_asked(self, store: Store) -> None:
        for number in range(3):
            await put(store, number, [f"text {number}"], metadata={"n": number})
        for version, n in ((2, 0), (3, 5)):
            assert {hit.id for hit in await dense(store, "x", where={"n": {">": 0}})} == {1, 2}
            assert {hit.id for hit in await dense(store, "x", where={"n": {"<": 2}})} == {0, 1}
            await put(store, 0, ["text 0"], metadata={"n": n}, version=version, fence=version)
        assert {hit.id for hit in await dense(store, "x", where={"n": {">": 0}})} == {0, 1, 2}

    @pytest.mark.parametrize(
        ("text", "query", "marked"),
        [
            ("A lease expires.", "lease expires", ["lease", "expires"]),
            ("Leases, lease-holders", "lease", ["lease"]),
            ("Das Café, cafe\u0301 und CAFE", "cafe", ["Café", "cafe\u0301", "CAFE"]),
            ("snake_case and case", "snake_case", ["snake", "case", "case"]),
            ("用机器学习做搜索", "机器学习", ["机器学习"]),
            ("ok: API設計の基礎", "設計 api", ["API設計"]),
            ("ΟΔΟΣ 😀 Οδος", "οδος", ["ΟΔΟΣ", "Οδος"]),
            ("nothing of it", "lease", []),
            ("a \ud800 lone lease", "lease", ["lease"]),
        ],
    )
    async def test_highlights_are_the_words_of_the_query(
        self, store: Store, text: str, query: str, marked: list[str]
    ) -> None:
        await put(store, "a", [text])

        for mode in ("dense", "hybrid"):
            asked = Query(query, vector_of("x"), (HOME,), mode=mode)
            (hit,) = await store.search(asked)
            assert [hit.text[first:last] for first, last in hit.highlights] == marked
            assert list(hit.highlights) == sorted(hit.highlights)

    async def test_a_hit_says_why_it_is_one(self, store: Store) -> None:
        for number, text in enumerate(("the red lease", "the lease", "red", "nothing")):
            await put(store, number, [text])
        query = Query("red lease", vector_of("the lease"), (HOME,), explain=True)

        hits = {hit.id: hit for hit in await store.search(query)}
        told = {id_: hit.explained for id_, hit in hits.items()}
        for id_, words in ((0, ("red", "lease")), (1, ("lease",)), (2, ("red",)), (3, ())):
            explained = told[id_]
            assert explained is not None
            assert set(explained.words) == set(words)
            assert explained.dense is not None
            assert (explained.lexical is None) == (not words)
            assert explained.index in {"exact", "codes"}
            assert explained.compared >= 4
        near, matching = told[1], told[0]
        assert near is not None
        assert near.dense is not None
        assert near.dense.rank == 1
        assert near.dense.score == pytest.approx(1, abs=1e-6)
        assert matching is not None
        assert matching.lexical is not None
        assert matching.lexical.rank == 1

    async def test_words_alone_compare_no_vectors(self, store: Store) -> None:
        await put(store, "a", ["the lease"])
        query = Query("lease", None, (HOME,), mode="lexical", explain=True)

        (hit,) = await store.search(query)
        assert hit.explained is not None
        assert hit.explained.lexical is not None
        assert hit.explained.lexical.score == pytest.approx(hit.score)
        assert (hit.explained.dense, hit.explained.index, hit.explained.compared) == (
            None,
            "words",
            0,
        )

    async def test_nothing_is_explained_unasked(self, store: Store) -> None:
        await put(store, "a", ["the lease"])
        (hit,) = await dense(store, "the lease")
        assert hit.explained is None

"""Lexical search ranks as BM25 written down in plain Python does, over the searched alone."""

import asyncio
import itertools
import math
import random
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from evervec.model import Scope
from evervec.ports import Query
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore, lexical
from evervec.stores.sqlite.chunks import Hidden
from evervec.stores.sqlite.index import CollectionRow
from evervec.stores.sqlite.ranking import Target
from evervec.stores.sqlite.words import spaced, words_of
from evervec.testing.store_suite import HOME, SetClock, publication, put, vector_of

COUNTER = itertools.count()
COMMON = ("the", "of", "and", "system")
SOME = ("lease", "queue", "worker", "vector", "search")


@asynccontextmanager
async def opened():
    database = Database(f"file:/lexical-{next(COUNTER)}?vfs=memdb")
    store = SqliteStore(database, clock=SetClock())
    await store.open()
    try:
        yield store
    finally:
        await store.close()
        await database.close()


def corpus(count: int, seed: int = 5) -> list[str]:
    """Texts with words that most have, that a tenth has, and that nearly none has."""
    chance = random.Random(seed)
    texts = []
    for number in range(count):
        words = [word for word in COMMON for _ in range(2) if chance.random() < 0.6]
        words += [word for word in SOME for _ in range(3) if chance.random() < 0.06]
        words += [f"filler{chance.randrange(count)}" for _ in range(chance.randrange(1, 30))]
        if number % 97 == 0:
            words.append("rare")
        if number == 42:
            words.append("unique")
        chance.shuffle(words)
        texts.append(" ".join(words))
    return texts


async def fill(store, texts, scope=HOME) -> None:
    whole = vector_of("all alike")
    publications = [publication(number, [text], scope=scope) for number, text in enumerate(texts)]
    digests = {piece.digest: whole for each in publications for piece in each.pieces}
    await store.keep(scope.tenant, 1, digests)
    await store.publish(publications, fence=1, space=1)


def bm25(texts: list[str], words: list[str], k: int) -> list[tuple[int, float]]:
    """Rank by the formula, reading every text."""
    split = [text.split() for text in texts]
    scores: dict[int, float] = {}
    for word in words:
        having = [number for number, text in enumerate(split) if word in text]
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for number in having:
            count, length = split[number].count(word), len(split[number])
            norm = 1.2 * (0.25 + 0.75 * length / 100)
            scores[number] = scores.get(number, 0) + rarity * 2.2 * count / (count + norm)
    told = [(number, round(score / (1 + score), 9)) for number, score in scores.items()]
    return sorted(told, key=lambda entry: (-entry[1], str(entry[0])))[:k]


async def ranked(store, text: str, k: int, scope=HOME, **more) -> list[tuple[int, float]]:
    hits = await store.search(Query(text, None, (scope,), mode="lexical", k=k, **more))
    return [(hit.id, hit.score) for hit in hits]


def same(found, expected) -> bool:
    return [each for each, _ in found] == [each for each, _ in expected] and all(
        score == pytest.approx(told, abs=1e-8)
        for (_, score), (_, told) in zip(found, expected, strict=True)
    )


QUERIES = (
    "unique",
    "rare",
    "lease",
    "the",
    "the of",
    "the of and system",
    "rare the",
    "unique the of and",
    "lease queue worker",
    "lease the system",
    "rare lease queue the of",
    "nowhere lease",
    "filler7 filler8 vector",
)


async def test_the_ranking_is_that_of_the_formula_whatever_is_rare_or_common():
    """Searching the rarest words first, and reading no more than needed, changes no answer."""
    texts = corpus(1500)
    async with opened() as store:
        await fill(store, texts)
        for text, k in itertools.product(QUERIES, (1, 10, 400)):
            found = await ranked(store, text, k)
            assert same(found, bm25(texts, text.split(), k)), (text, k)


async def test_many_words_of_every_rarity_are_ranked_as_by_the_formula():
    """Less rare words find what has none of the rarest only together: those combinations are all."""
    chance = random.Random(3)
    shares = {f"word{number}": 0.6 * 0.75**number for number in range(14)}
    texts = [
        " ".join(
            [word for word, share in shares.items() for _ in range(2) if chance.random() < share]
            + ["padding"] * chance.randrange(1, 40)
        )
        for _ in range(1200)
    ]
    async with opened() as store:
        await fill(store, texts)
        for count, k in itertools.product((3, 4, 6, 9, 14), (1, 4, 30)):
            words = chance.sample(sorted(shares), count)
            found = await ranked(store, " ".join(words), k)
            assert same(found, bm25(texts, words, k)), (words, k)


async def test_several_less_rare_words_go_before_the_rarest_one():
    """Enough chunks with the rarest word were found, but those without it are better."""
    texts = [f"alpha {'padding ' * 200}"] * 40 + ["beta gamma beta gamma"] * 60 + ["rest"] * 100
    async with opened() as store:
        await fill(store, texts)
        for k in (1, 5, 80):
            found = await ranked(store, "alpha beta gamma", k)
            assert same(found, bm25(texts, ["alpha", "beta", "gamma"], k))


async def test_words_that_a_third_has_are_left_out_beside_rarer_ones(monkeypatch):
    monkeypatch.setattr(lexical, "COMMON_FROM_CHUNKS", 1000)
    texts = corpus(1500)
    async with opened() as store:
        await fill(store, texts)
        for text, k in itertools.product(QUERIES, (10, 400)):
            telling = [word for word in text.split() if word not in COMMON] or text.split()
            found = await ranked(store, text, k)
            assert found
            assert same(found, bm25(texts, telling, k)), (text, k)


async def test_common_words_alone_still_find_what_has_them(monkeypatch):
    monkeypatch.setattr(lexical, "COMMON_FROM_CHUNKS", 10)
    async with opened() as store:
        await fill(store, ["the end of the system"] * 20)
        assert len(await ranked(store, "the", 20)) == 20
        assert len(await ranked(store, "the of", 20)) == 20
        assert len(await ranked(store, "nowhere the of", 20)) == 20


class Asked:
    """A connection that counts, and answers what it was told to."""

    def __init__(self) -> None:
        self.times = 0

    def execute(self, _statement, _given):
        self.times += 1
        return SimpleNamespace(get=self.times)


def test_a_word_is_counted_once_until_the_collection_changes(monkeypatch):
    connection: Any = Asked()
    frequencies = lexical.Frequencies()
    row = CollectionRow(1, 1, 10, 9, 5, 9)

    def count(row: CollectionRow, word: str) -> int:
        target = Target(Scope("", "docs"), row, None, Hidden())
        return frequencies.of(connection, target, word, 9)

    assert [count(row, "lease") for _ in range(2)] == [1, 1]
    assert count(row, "queue") == 2
    assert count(replace(row, revision=6), "lease") == 3
    assert count(replace(row, number=2), "lease") == 4
    monkeypatch.setattr(lexical, "COUNTED_MAX", 1)
    assert count(row, "worker") == 5
    assert count(row, "lease") == 6


async def test_a_filter_chooses_before_the_best_are_taken():
    async with opened() as store:
        for number in range(30):
            words = "rare the" if number < 20 else "the"
            await put(store, number, [f"{words} {number}"], metadata={"n": number})
        found = await ranked(store, "rare the", 3, where={"n": [25, 26, 27, 28]})
        assert [number for number, _ in found] == [25, 26, 27]


async def test_what_another_tenant_stores_moves_neither_scores_nor_order():
    texts = corpus(200)
    mine, theirs = Scope("mine", "articles"), Scope("theirs", "articles")
    async with opened() as store:
        await fill(store, texts, mine)
        before = [await ranked(store, text, 50, mine) for text in QUERIES]
        flood = ["rare unique lease " * 9, "queue", *(f"rare lease {n}" for n in range(500))]
        await fill(store, flood, theirs)
        assert [await ranked(store, text, 50, mine) for text in QUERIES] == before


async def test_several_collections_are_weighed_as_one():
    texts = corpus(300)
    other = Scope("", "other")
    async with opened() as store:
        await fill(store, texts[:100])
        await fill(store, texts[100:], other)
        query = Query("rare lease the", None, (HOME, other), mode="lexical", k=20)
        found = [
            (hit.id + (100 if hit.collection == "other" else 0), hit.score)
            for hit in await store.search(query)
        ]
        expected = bm25(texts, ["rare", "lease", "the"], 20)
        assert dict(found) == pytest.approx(dict(expected), abs=1e-8)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们用机器学习做搜索", "机器学习"),
        ("我们用机器学习做搜索", "学"),
        ("検索エンジンの仕組み", "エンジン"),
        ("ราคาของสินค้า", "สินค้า"),
        ("학교에서 공부한다", "학교"),
        ("API設計の基礎", "設計"),
        ("API設計の基礎", "api"),
    ],
)
async def test_a_word_inside_a_run_without_spaces_is_found(text, query):
    async with opened() as store:
        await put(store, "it", [text])
        await put(store, "other", ["无关的文字 その他 อื่น 다른"])
        (hit, *_) = await store.search(Query(query, None, (HOME,), mode="lexical"))
        assert (hit.id, hit.text) == ("it", text)
        await put(store, "it", ["gone"], version=2)
        found = await store.search(Query(query, None, (HOME,), mode="lexical"))
        assert "it" not in {hit.id for hit in found}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("机器学习", ["机 器", "器 学", "学 习"]),
        ("学", ["学"]),
        ("API設計", ["API", "設 計"]),
    ],
)
def test_a_run_without_spaces_is_asked_for_by_its_pairs(text, words):
    assert words_of(text) == words


def test_only_letters_without_spaces_are_set_apart():
    assert spaced("naïve Ünïcode, русский") is None
    assert (spaced("API設計") or "").split() == ["API", "設", "計"]


async def test_case_is_folded_on_both_sides_alike():
    async with opened() as store:
        await put(store, "a", ["Die STRASSE und die Straße, ΟΔΟΣ İstanbul"])
        for word in ("Straße", "strasse", "οδος", "ΟΔΟΣ", "İstanbul"):
            assert await ranked(store, word, 5), word


def test_search_by_words_from_several_threads_at_once():
    async def scenario():
        async with opened() as store:
            await fill(store, corpus(200))
            one = await ranked(store, "rare lease the", 20)
            many = await asyncio.gather(*(ranked(store, "rare lease the", 20) for _ in range(12)))
            assert all(each == one for each in many)

    asyncio.run(scenario())

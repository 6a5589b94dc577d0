"""A reranker orders the best hits anew, if it answers in time and makes sense."""

import asyncio
import gc
import logging
import threading

import pytest

from evervec.errors import ConfigError
from evervec.model import Hit
from evervec.rerank import Rerank, reranked

HITS = [Hit("c", number, 1 - number / 10, text, 0, 1) for number, text in enumerate("abcd")]


def ids(hits):
    return [hit.id for hit in hits]


def by_letter(_, texts):
    return [ord(text[0]) for text in texts]


async def by_letter_later(query, texts):
    await asyncio.sleep(0)
    return by_letter(query, texts)


@pytest.mark.parametrize("judge", [by_letter, by_letter_later])
async def test_the_judge_decides_the_order_and_its_scores_are_told(judge):
    hits = await reranked(HITS, "q", Rerank(judge), 2)
    assert ids(hits) == [3, 2]
    assert [hit.reranked for hit in hits] == [ord("d"), ord("c")]
    assert [hit.score for hit in hits] == [HITS[3].score, HITS[2].score]


async def test_what_is_judged_equal_stays_in_the_order_of_the_search():
    hits = await reranked(HITS, "q", Rerank(lambda _, texts: [0.0] * len(texts)), 4)
    assert ids(hits) == [0, 1, 2, 3]


async def test_the_judge_reads_the_query_and_each_text_under_its_heading():
    heard = []

    def judge(query, texts):
        heard.append((query, texts))
        return [1] * len(texts)

    await reranked([Hit("c", 1, 1, "text", 0, 4, heading="Head"), HITS[0]], "q", Rerank(judge), 2)
    assert heard == [("q", ["Head\ntext", "a"])]


async def test_a_judge_that_takes_too_long_changes_nothing_and_is_told_of(caplog):
    stuck = threading.Event()

    def slow(_, texts):
        stuck.wait(20)
        return by_letter(_, texts)

    with caplog.at_level(logging.WARNING, "evervec.rerank"):
        hits = await reranked(HITS, "q", Rerank(slow, seconds=0.01), 2)
    stuck.set()
    assert ids(hits) == [0, 1]
    assert all(hit.reranked is None for hit in hits)
    assert "took longer than 0.01 s" in caplog.text


async def test_what_a_late_judge_raises_disturbs_nobody(caplog):
    late, ended = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def broken(*_):
        late.wait(20)
        loop.call_soon_threadsafe(ended.set)
        raise RuntimeError("too late")

    with caplog.at_level(logging.WARNING):
        await reranked(HITS, "q", Rerank(broken, seconds=0.01), 2)
        caplog.clear()
        late.set()
        await ended.wait()
        gc.collect()
    assert caplog.text == ""


@pytest.mark.parametrize("scores", [[1, 2, 3], [1, 2, 3, float("nan")], []])
async def test_scores_that_do_not_fit_are_refused(scores):
    with pytest.raises(ConfigError, match="the reranker gave"):
        await reranked(HITS, "q", Rerank(lambda *_: scores), 2)


async def test_what_the_judge_raises_arrives():
    def broken(*_):
        raise RuntimeError("no such model")

    with pytest.raises(RuntimeError, match="no such model"):
        await reranked(HITS, "q", Rerank(broken), 2)


async def test_nothing_found_is_nothing_to_judge():
    assert await reranked([], "q", Rerank(by_letter), 5) == []

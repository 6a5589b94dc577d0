"""A second look at the best hits, by a judge that is better and slower than the search.

It has a time to answer in. If it takes longer, the order of the search stands and a warning says so:
a search that comes late is of no use, one whose order is a little worse is.
"""

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from evervec.errors import ConfigError
from evervec.model import Hit

log = logging.getLogger("evervec.rerank")

Judge: TypeAlias = Callable[[str, list[str]], Sequence[float] | Awaitable[Sequence[float]]]
"""From a query and texts to one number each: the greater, the better an answer the text is."""


@dataclass(frozen=True, slots=True)
class Rerank:
    """Who judges, how many of the best hits, and for how long a search waits."""

    judge: Judge
    depth: int = 50
    seconds: float = 1.0


async def reranked(hits: Sequence[Hit], query: str, rerank: Rerank, k: int) -> Sequence[Hit]:
    """Return the *k* best of *hits* by the judge, or by their own order if it comes too late."""
    texts = [f"{hit.heading}\n{hit.text}" if hit.heading else hit.text for hit in hits]
    if not texts:
        return hits
    try:
        told = await asyncio.wait_for(_judged(rerank.judge, query, texts), rerank.seconds)
    except TimeoutError:
        log.warning(
            "the reranker took longer than %g s; hits are in the order of the search",
            rerank.seconds,
        )
        return hits[:k]
    scores = _checked(told, len(texts))
    judged = [replace(hit, reranked=score) for hit, score in zip(hits, scores, strict=True)]
    # Sorting is stable: what is judged equal stays as the search had it.
    return sorted(judged, key=lambda hit: -(hit.reranked or 0.0))[:k]


async def _judged(judge: Judge, query: str, texts: list[str]) -> Any:
    if inspect.iscoroutinefunction(judge):
        return await judge(query, texts)
    # A thread of its own that nobody waits for at the end: a pool would hold up the program for
    # a judge that never answers.
    answer: Future[Any] = Future()

    def work() -> None:
        try:
            answer.set_result(judge(query, texts))
        except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
            answer.set_exception(error)

    threading.Thread(target=work, name="evervec-rerank", daemon=True).start()
    heard = asyncio.wrap_future(answer)
    # Who comes too late was told of already; what it raises then has no listener any more.
    heard.add_done_callback(lambda late: late.cancelled() or late.exception())
    return await asyncio.shield(heard)


def _checked(told: Any, count: int) -> list[float]:
    scores = np.asarray(told, np.float64).reshape(-1)
    if len(scores) != count or not np.isfinite(scores).all():
        raise ConfigError(
            f"the reranker gave {len(scores)} scores for {count} texts, or some that are no numbers",
            hint="return one finite number a text, in their order",
        )
    return [float(score) for score in scores]

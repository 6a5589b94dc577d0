"""Answers that are kept together: each is durable when its own call returns, whatever the others do."""

import asyncio
from typing import Any

import numpy as np
import pytest

from evervec.errors import StateError
from evervec.ledger import Ledger

pytestmark = pytest.mark.anyio


class SlowStore:
    """Keeps when it is told to, and remembers what it was given."""

    def __init__(self) -> None:
        self.commits: list[set[bytes]] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.fails = False

    async def keep(self, _tenant: str, _space: int, vectors: dict[bytes, Any]) -> None:
        self.begun.set()
        await self.go.wait()
        self.go.clear()
        if self.fails:
            self.fails = False
            raise StateError("the disk is full")
        self.commits.append(set(vectors))

    async def next(self) -> None:
        """Let the commit under way end, and return when another has begun."""
        self.begun.clear()
        self.go.set()
        await self.begun.wait()


def ledger_of(store: Any) -> Ledger:
    return Ledger(store, 1)


def keeping(ledger: Ledger, *names: bytes) -> list[asyncio.Task[None]]:
    one = np.ones(3, np.float32)
    return [asyncio.create_task(ledger.keep({("", name): one})) for name in names]


async def third_and_second_together(store: SlowStore) -> list[asyncio.Task[None]]:
    """Return three answers, the first of which is kept; the second keeps itself and the third."""
    tasks = keeping(ledger_of(store), b"1", b"2", b"3")
    await store.begun.wait()
    await store.next()
    return tasks


async def test_answers_that_come_meanwhile_share_a_commit():
    store = SlowStore()
    tasks = await third_and_second_together(store)
    store.go.set()
    await asyncio.gather(*tasks)
    assert store.commits == [{b"1"}, {b"2", b"3"}]


async def test_whoever_gives_up_meanwhile_takes_nobody_along():
    """Whoever kept its answer failed when it found that the other was gone."""
    store = SlowStore()
    _, second, third = await third_and_second_together(store)
    third.cancel()
    await asyncio.wait({third})
    store.go.set()
    await second
    assert third.cancelled()


async def test_a_commit_that_fails_is_tried_again_by_those_who_shared_it():
    store = SlowStore()
    _, second, third = await third_and_second_together(store)
    store.fails = True
    await store.next()
    store.go.set()
    with pytest.raises(StateError, match="full"):
        await second
    await third
    assert store.commits == [{b"1"}, {b"3"}]

"""What the tour's tests share: somebody's database, and patience with a limit."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

import evervec
from evervec.ports import Kind, Vectors
from evervec.settings import Settings, Work
from evervec.testing.embedder import HashEmbedder

PATIENCE = 20.0

QUICK = Settings(worker=Work(backoff=0.2, backoff_cap=0.2, backoff_jitter=0.0, attempts=3))
"""Retries that a test can wait for."""


class Shop:
    """A database of another program, written by the standard library's `sqlite3`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = sqlite3.connect(path, isolation_level=None)
        self.run("create table articles (id integer primary key, title text, body text, seen int)")

    def run(self, sql: str, *values: object) -> None:
        self._writer.execute(sql, values)

    def put(self, *rows: tuple[int, str]) -> None:
        with self._writer:
            self._writer.execute("begin")
            self._writer.executemany(
                "insert or replace into articles (id, title, body) values (?, 'note', ?)", rows
            )

    def schema(self) -> list[tuple[str, str]]:
        return self._writer.execute("select name, sql from sqlite_master order by name").fetchall()

    def rows(self) -> list[tuple[object, ...]]:
        return self._writer.execute("select * from articles").fetchall()

    def close(self) -> None:
        self._writer.close()


class HeldEmbedder(HashEmbedder):
    """A model that stops in the middle of a request, until it is let go."""

    def __init__(self, hold_on: str) -> None:
        super().__init__()
        self.hold_on = hold_on
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        vectors = await super().embed(texts, kind=kind)
        if kind == "document" and any(self.hold_on in text for text in texts):
            self.reached.set()
            await self.go.wait()
        return vectors


def rows(state: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Ask the state as an operator does, read-only.

    By the app's own SQLite: the standard library's is another copy, sees no lock of the app's in
    this process, takes the database for its own and cuts the shared memory off under it.
    """
    with closing(apsw.Connection(str(state), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        found: list[tuple[Any, ...]] = connection.execute(sql, values).fetchall()
        return found


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Return when *condition* holds; fail, naming *what* was waited for, if it never does."""
    limit = time.monotonic() + PATIENCE
    while not await condition():
        assert time.monotonic() < limit, f"waited {PATIENCE} s in vain for: {what}"
        await asyncio.sleep(0.01)


async def found(collection: evervec.Collection, words: str) -> list[object]:
    """Return the ids of the documents that hold *words*, without asking the model."""
    return sorted(
        (hit.id for hit in await collection.search(words, k=1000, mode="lexical")), key=repr
    )


async def searchable(collection: evervec.Collection, words: str, *ids: object) -> None:
    """Return when exactly the documents *ids* hold *words*."""

    async def they_are() -> bool:
        return await found(collection, words) == sorted(ids, key=repr)

    await until(they_are, f"{words!r} in {ids}")


def articles(
    app: evervec.App,
    shop: Shop,
    *,
    name: str = "articles",
    text: str = "{title}\n\n{body}",
    tenant: str = "",
    change: bool = False,
) -> evervec.Collection:
    """Declare the shop's articles as a collection."""
    spec = evervec.table(shop.path, "articles")
    return app.collection(name, source=spec, text=text, tenant=tenant, change=change)

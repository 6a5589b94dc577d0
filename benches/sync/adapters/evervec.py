"""Evervec, over the rows of a SQLite table or over a folder of files.

The state is one SQLite file with full durability, which is the default. Nothing else is set but
what the workload asks for: chunks of at most 32 words, so that one paragraph is one chunk, and the
model's limits. A run is what `evervec sync` does: open the state, wait until nothing is left, close.
The model's refusals are told apart as a model's author is asked to: 429 and 5xx are `Unavailable`
with the time that the provider names, 400 is `Permanent`; Evervec does the waiting, so the client
repeats nothing itself. Following is an open `App`.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.metadata import version
from typing import Any

import apsw
import numpy as np
from benches.sync.stub import DIMENSION, TEXTS
from benches.sync.wire import PLACES, Model, RefusedError, Row, Tool, serve, vector

from evervec import ChunkRecipe, Permanent, Transient, Unavailable, folder, table
from evervec.ports import Kind, Limits, Vectors
from evervec.specs import Spec
from evervec.sync import App, Collection

RECIPE = ChunkRecipe(tokens_max=32)
LOST = """
delete from store_vector where number in (
    select number from store_vector join store_chunk on store_chunk.vector = number
    order by chunk % 8, chunk limit ?
)
"""
LISTING = """
select id, text, value from store_chunk
join store_document using (document)
join store_collection on store_collection.number = store_document.collection
join store_vector on store_vector.number = store_chunk.vector
where deleted = 0 and forgotten = 0
"""


class Embedder:
    """The stub in the shape of Evervec's port; a word is a token."""

    model = "stub"
    revision = "1"
    dimension = DIMENSION
    limits = Limits(
        batch_tokens_max=1 << 30,
        batch_texts_max=TEXTS,
        text_tokens_max=1 << 20,
        concurrency=PLACES,
    )

    def __init__(self, model: Model) -> None:
        self._model = model
        self._pool = ThreadPoolExecutor(PLACES, thread_name_prefix="model")

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        return [len(text.split()) for text in texts]

    def token_ends(self, text: str) -> Sequence[int]:
        ends, at = [], 0
        for word in text.split():
            at = text.index(word, at) + len(word)
            ends.append(at)
        return ends

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        if kind == "query":
            return np.array([vector(text) for text in texts], np.float32)
        loop = asyncio.get_running_loop()
        try:
            raw = await loop.run_in_executor(self._pool, self._model.raw, list(texts))
        except RefusedError as refused:
            if refused.after is None:
                raise Permanent(str(refused)) from refused
            raise Unavailable(str(refused), after=refused.after) from refused
        except OSError as error:
            raise Transient(str(error)) from error
        return np.frombuffer(b"".join(raw), np.float32).reshape(len(raw), DIMENSION)

    async def close(self) -> None:
        self._pool.shutdown()


class Evervec(Tool):
    name = "Evervec"
    version = version("evervec")
    follows = True

    _app: App | None = None
    _collection: Collection | None = None

    def spec(self) -> tuple[Spec, str | None]:
        raise NotImplementedError

    def start(self) -> None:
        self._app = App(self.state / "evervec.db", model=Embedder(self.model))
        spec, text = self.spec()
        self._collection = self._app.collection("doc", source=spec, text=text, chunk=RECIPE)
        self._app.__enter__()

    def stop(self) -> None:
        if self._app is not None:
            self._app.close()
        self._app = self._collection = None

    def running(self) -> Collection:
        assert self._collection is not None
        return self._collection

    def sync(self) -> str:
        followed = self._app is not None
        if not followed:
            self.start()
        try:
            self.running().synced()
            assert self._app is not None
            failed = self._app.status()[0].failed
        finally:
            if not followed:
                self.stop()
        return f"{failed} failed" if failed else ""

    def follow(self, *, on: bool) -> None:
        self.stop()
        if on:
            self.start()
            self.running().synced()

    def store(self) -> list[Row]:
        with closing(apsw.Connection(str(self.state / "evervec.db"))) as file:
            rows: list[tuple[Any, ...]] = file.execute(LISTING).fetchall()
        return [(json.loads(id_), text, _signs(value)) for id_, text, value in rows]

    def search(self, text: str) -> str:
        hits = self.running().search(text, k=1, mode="dense")
        return hits[0].text if hits else ""

    def lose(self, count: int) -> None:
        with closing(apsw.Connection(str(self.state / "evervec.db"))) as file:
            file.execute(LOST, (count,))

    def mend(self) -> str:
        self.start()
        try:
            while self.running().repair(limit=1000).queued:
                self.running().synced()
        finally:
            self.stop()
        return "`evervec repair`"

    def close(self) -> None:
        self.stop()


class Table(Evervec):
    name = "Evervec, table"
    settings = "rows of a SQLite table"

    @property
    def _path(self) -> str:
        return str(self.root / "source.db")

    def spec(self) -> tuple[Spec, str | None]:
        return table(self._path, "doc", key="name"), "{text}"

    def _change(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with closing(apsw.Connection(self._path)) as file:
            file.set_busy_timeout(10_000)
            with file:
                file.executemany(statement, rows)

    def open(self) -> None:
        self._change(
            "create table if not exists doc (name text primary key, text, views int)", [()]
        )

    def write(self, documents: Mapping[str, str]) -> None:
        statement = (
            "insert into doc values (?, ?, 0) on conflict (name) do update set text = excluded.text"
        )
        self._change(statement, list(documents.items()))

    def delete(self, names: Sequence[str]) -> None:
        self._change("delete from doc where name = ?", [(name,) for name in names])

    def rename(self, old: str, new: str) -> None:
        self._change("update doc set name = ? where name = ?", [(new, old)])

    def copy(self, old: str, new: str) -> None:
        statement = "insert into doc select ?, text, views from doc where name = ?"
        self._change(statement, [(new, old)])

    def touch(self) -> None:
        self._change("update doc set views = views + 1", [()])


class Folder(Evervec):
    name = "Evervec, folder"
    settings = "files of a folder"

    def spec(self) -> tuple[Spec, str | None]:
        return folder(self.notes), None


def _signs(value: bytes) -> str:
    return np.packbits(np.frombuffer(value, np.float32) > 0).tobytes().hex()


if __name__ == "__main__":
    serve({"table": Table, "folder": Folder}[sys.argv[3]])

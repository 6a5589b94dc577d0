"""CocoIndex: files of a folder into a table of PostgreSQL, as in its own example for text.

Settings. The embedding function is memoized as well as the one for a file, so that an edit embeds
one paragraph and not twenty; it is batched at 128, and raises RetryWithSmallerBatch for what the
model refuses, as its manual has it for one bad input in a batch. Chunk ids come from its
IdGenerator. A paragraph is a chunk by splitting at blank lines. No vector index, since the table is
small and an exact scan is faster to keep. Following is `update(live=True)`. A run ends well even
if items failed, so what it complains of is its own count of errors.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

os.environ.setdefault("COCOINDEX_DISABLE_USAGE_TRACKING", "1")

import asyncpg
import cocoindex as coco
import numpy as np
from benches.sync.adapters.postgres import Stored
from benches.sync.wire import Model, RefusedError, paragraphs, serve, vector
from cocoindex.connectors import localfs, postgres
from cocoindex.resources.file import FileLike
from cocoindex.resources.id import IdGenerator
from cocoindex.resources.schema import VectorSchema
from numpy.typing import NDArray

BASE = coco.ContextKey[asyncpg.Pool]("database")
MODEL = coco.ContextKey[Model]("model")
PLACE: dict[str, Any] = {}
"""Where this process works: set before the first run."""


@dataclass
class Chunk:
    id: int
    filename: str
    text: str
    embedding: Annotated[NDArray[np.float32], VectorSchema(dtype=np.dtype(np.float32), size=384)]


@coco.lifespan
async def lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    builder.settings.db_path = PLACE["state"]
    async with asyncpg.create_pool(PLACE["uri"]) as pool:
        builder.provide(BASE, pool)
        builder.provide(MODEL, PLACE["model"])
        yield


@coco.fn.as_async(batching=True, max_batch_size=128)
def embed_together(texts: list[str]) -> list[NDArray[np.float32]]:
    try:
        vectors = PLACE["model"].patient(texts)
    except RefusedError as refused:
        if refused.after is not None:
            raise
        raise coco.RetryWithSmallerBatch from refused
    return [np.array(each, np.float32) for each in vectors]


@coco.fn(memo=True)
async def embed(text: str) -> NDArray[np.float32]:
    vector_of: NDArray[np.float32] = await embed_together(text)
    return vector_of


@coco.fn
async def process_chunk(text: str, name: str, ids: IdGenerator, table: Any) -> None:
    row = Chunk(id=await ids.next_id(text), filename=name, text=text, embedding=await embed(text))
    table.declare_row(row=row)


@coco.fn(memo=True)
async def process_file(file: FileLike, table: Any) -> None:
    chunks = paragraphs(await file.read_text())
    await coco.map(process_chunk, chunks, file.file_path.path.name, IdGenerator(), table)


@coco.fn
async def main(folder: Path) -> None:
    table = await postgres.mount_table_target(
        BASE,
        table_name="chunk",
        table_schema=await postgres.TableSchema.from_class(Chunk, primary_key=["id"]),
    )
    files = localfs.walk_dir(folder, recursive=True, live=True)
    await coco.mount_each(process_file, files.items(), table)


class CocoIndex(Stored):
    name = "CocoIndex"
    version = version("cocoindex")
    settings = "files of a folder; embedding memoized and batched; PostgreSQL"
    follows = True

    table = "chunk"
    document = "filename"
    text = "text"

    def open(self) -> None:
        super().open()
        PLACE.update(state=self.state / "cocoindex.db", uri=self.uri, model=self.model)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.app = coco.App(coco.AppConfig(name="bench"), main, folder=self.notes)
        self.live: Any = None

    def wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def sync(self) -> str:
        self.finish_following()
        complaint: str = self.wait(self._sync())
        return complaint

    async def _sync(self) -> str:
        handle = self.app.update()
        await handle.result()
        stats = handle.stats()
        errors = stats.total.num_errors if stats else 0
        return f"{errors} errored" if errors else ""

    def search(self, text: str) -> str:
        return self.nearest(vector(text))

    def mend(self) -> str:
        # It trusts its own record of what the target holds; this applies everything again.
        self.finish_following()
        self.wait(self._again())
        return "update(full_reprocess=True)"

    async def _again(self) -> None:
        await self.app.update(full_reprocess=True)

    def follow(self, *, on: bool) -> None:
        if on:
            self.live = asyncio.run_coroutine_threadsafe(self._follow(), self.loop)
        else:
            self.finish_following()

    async def _follow(self) -> None:
        await self.app.update(live=True)

    def finish_following(self) -> None:
        if self.live is not None:
            self.live.cancel()
            self.live = None

    def size(self) -> int:
        # LMDB reserves its whole map as a sparse file; what counts is what was written.
        written = sum(path.stat().st_blocks * 512 for path in self.state.rglob("*"))
        return self.tables() + written


if __name__ == "__main__":
    serve(CocoIndex)

"""pgai's vectorizer and worker: the rows of a PostgreSQL table.

Settings. The worker's own OpenAI client asks the stub, with the retries that pgai gave it. It takes
10 rows at a time in 8 tasks, so that all eight places at the model are used: of its default batches
of 50 rows there would be four. The character splitter at 400 letters puts one paragraph into each
chunk. No vector index, since the table is small and an exact scan is faster to keep. A run is a
worker with `once`, which ends at the first error; following is a worker that looks each second, the
least that it takes. The worker's parsers of documents, which are not used here, are not installed:
they bring two gigabytes.
"""

import asyncio
import datetime as dt
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version

# Read when the worker first asks; the stub takes any key.
os.environ["OPENAI_API_KEY"] = "none"

import pgai
import structlog
from benches.sync.adapters.postgres import Stored
from benches.sync.wire import serve, vector
from pgai.vectorizer import Worker

# Its command logs from info up; as a library it would write down every step.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))

VECTORIZER = """
select ai.create_vectorizer(
    'document'::regclass,
    name => 'bench',
    if_not_exists => true,
    loading => ai.loading_column('text'),
    destination => ai.destination_table(target_table => 'chunk', view_name => 'chunk_view'),
    embedding => ai.embedding_openai('stub', 384, base_url => %s),
    chunking => ai.chunking_character_text_splitter(400, 0, E'\\n\\n'),
    processing => ai.processing_default(batch_size => 10, concurrency => 8),
    indexing => ai.indexing_none(),
    scheduling => ai.scheduling_none()
)
"""


class Pgai(Stored):
    name = "pgai"
    version = version("pgai")
    settings = "rows of a PostgreSQL table; worker, 8 tasks of 10 rows"
    follows = True

    table = "chunk"
    document = "name"
    text = "chunk"

    worker: Worker | None = None
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread | None = None

    def open(self) -> None:
        super().open()
        self.database.execute(
            "create table if not exists document (name text primary key, text text, views int)"
        )
        pgai.install(self.uri)
        self.database.execute(VECTORIZER, (f"{self.model.url}/v1",))

    def _change(self, statement: str, rows: Sequence[tuple[str, ...]]) -> None:
        with self.database.transaction(), self.database.cursor() as cursor:
            cursor.executemany(statement, rows)

    def write(self, documents: Mapping[str, str]) -> None:
        statement = (
            "insert into document values (%s, %s, 0)"
            " on conflict (name) do update set text = excluded.text"
        )
        self._change(statement, list(documents.items()))

    def delete(self, names: Sequence[str]) -> None:
        self._change("delete from document where name = %s", [(name,) for name in names])

    def rename(self, old: str, new: str) -> None:
        self._change("update document set name = %s where name = %s", [(new, old)])

    def copy(self, old: str, new: str) -> None:
        statement = "insert into document select %s, text, views from document where name = %s"
        self._change(statement, [(new, old)])

    def touch(self) -> None:
        self.database.execute("update document set views = views + 1")

    def sync(self) -> str:
        error = asyncio.run(Worker(self.uri, once=True).run())
        return "" if error is None else f"the worker ended: {error}"

    def follow(self, *, on: bool) -> None:
        if self.worker is not None and self.thread is not None:
            worker = self.worker
            self.loop.call_soon_threadsafe(worker.shutdown_requested.set)
            self.thread.join()
            self.worker = None
        if on:
            second = dt.timedelta(seconds=1)
            self.worker = Worker(self.uri, poll_interval=second, exit_on_error=False)
            self.loop = asyncio.new_event_loop()
            run = self.worker.run()
            self.thread = threading.Thread(target=self.loop.run_until_complete, args=(run,))
            self.thread.start()

    def search(self, text: str) -> str:
        return self.nearest(vector(text))


if __name__ == "__main__":
    serve(Pgai)

"""A model at work: its tokenizer and network, loaded when first needed, on threads of their own."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from evervec.batch import batches, halves
from evervec.embedders.local.room import Room
from evervec.embedders.local.threads import processors, seats
from evervec.embedders.local.turns import Turns, folder
from evervec.errors import Transient, Unavailable
from evervec.ports import Limits, Vectors

if TYPE_CHECKING:
    from evervec.embedders.local.engine import Engine
    from evervec.embedders.local.tokens import Tokens

T = TypeVar("T")

RUN_TOKENS = 1024
"""Small runs of the network win: what passes between the layers stays in the processor's cache."""
BATCH_TOKENS_MAX = 4 * RUN_TOKENS
"""A request is asked for, kept and recorded as one. Four runs in it cost a quarter of that, and a
live edit waits for no more than two of them."""
TOKENISED_AT_ONCE = 128
AT_ONCE_TOKENS = 64
"""A request as small as this, a question mostly, waits for nobody: it takes some milliseconds."""

LoadTokens: TypeAlias = "Callable[[bool], Tokens]"
"""Makes the tokenizer; True if it may use every processor."""
LoadEngine: TypeAlias = "Callable[[], Engine]"


class Running:
    """Embeds texts in requests of like length, several at once. Constructing it loads nothing."""

    def __init__(self, name: str, *, threads: int, tokens: LoadTokens, engine: LoadEngine) -> None:
        self.name = name
        self.threads = threads
        self._load_tokens, self._load_engine = tokens, engine
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="evervec-model")
        # The next request is read while this one is computed. Behind its runs, in their pool, it
        # would be ready only when they have ended, and a processor idle until then.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="evervec-tokens")
        self._loading = threading.RLock()
        self._tokens: Tokens | None = None
        self._engine: Engine | None = None
        self._room: Room | None = None
        self._closed = False

    def tokens(self) -> "Tokens":
        with self._loading:
            if self._tokens is None:
                self._tokens = self._load_tokens(self.threads >= processors())
            return self._tokens

    async def embed(self, texts: Sequence[str], *, limits: Limits, dimension: int) -> Vectors:
        """Return one unit-length row a text, in order, from what fits of it into its tokens.

        All is split into small runs, and one for which memory does not suffice into halves. Equal texts in other company differ in the last digits.
        """
        if self._room is None:
            most = max(RUN_TOKENS, limits.text_tokens_max)
            self._room = Room(most, least=limits.text_tokens_max)
        rows: list[list[int]] = []
        # In parts, so that an interrupt never waits for all of a long list.
        for start in range(0, len(texts), TOKENISED_AT_ONCE):
            part = texts[start : start + TOKENISED_AT_ONCE]
            rows += await self._call(self._reader, partial(self._ids, part, limits.text_tokens_max))
        vectors = np.zeros((len(rows), dimension), np.float32)
        try:
            async with asyncio.TaskGroup() as group:
                for run in _runs([len(row) for row in rows], limits, self._room.tokens):
                    group.create_task(self._fill(vectors, rows, run, self._room))
        except BaseExceptionGroup as errors:
            # One reason is enough; the other requests were cancelled because of it.
            raise errors.exceptions[0] from None
        return vectors

    async def close(self) -> None:
        """Wait for the requests under way, drop those that wait, and free the memory."""
        self._closed = True
        await asyncio.to_thread(self._reader.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        self._engine = None
        if "_turns" in self.__dict__:
            self._turns.close()

    async def _fill(
        self, vectors: Vectors, rows: list[list[int]], run: list[int], room: Room
    ) -> None:
        ids = [rows[index] for index in run]
        try:
            vectors[run] = await self._call(self._pool, lambda: self._answered(ids))
        except MemoryError as error:
            room.ran_out()
            if len(run) == 1:
                raise Transient(
                    f"memory does not suffice for the model {self.name} to embed one text",
                    hint="give the process more memory, or fewer threads (EVERVEC_THREADS)",
                ) from error
            for half in halves(run):
                await self._fill(vectors, rows, half, room)
        else:
            room.went_well()

    async def _call(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable(f"the model {self.name} was closed", after=0.0)
        return await asyncio.get_running_loop().run_in_executor(pool, work)

    def _answered(self, ids: list[list[int]]) -> Vectors:
        engine = self.engine()
        if sum(map(len, ids)) <= AT_ONCE_TOKENS:
            return engine.run(ids)
        with self._turns.turn():
            return engine.run(ids)

    @cached_property
    def _turns(self) -> Turns:
        return Turns(folder(), seats())

    def _ids(self, texts: Sequence[str], most: int) -> list[list[int]]:
        return self.tokens().ids(texts, most=most)

    def engine(self) -> "Engine":
        # Compiled by whoever comes first; the others wait here for it.
        with self._loading:
            if self._engine is None:
                self._engine = self._load_engine()
            return self._engine


def _runs(counts: Sequence[int], limits: Limits, tokens: int) -> Iterator[list[int]]:
    """Split texts of these token *counts* into runs of about *tokens*, none a small remainder."""
    for request in batches(counts, limits=limits):
        padded = len(request) * counts[request[0]]
        size = -(-len(request) // max(1, round(padded / tokens)))
        yield from (request[at : at + size] for at in range(0, len(request), size))

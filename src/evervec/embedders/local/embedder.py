"""all-MiniLM-L6-v2 in this process: no server, no key, no network, no download.

Constructing it costs nothing. The libraries are imported when they are first needed and the
network is compiled at the first `embed`, on the embedder's own threads.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import numpy as np

from evervec.batch import batches
from evervec.embedders.local import files
from evervec.embedders.local.threads import processors, threads_of
from evervec.errors import ConfigError, Unavailable
from evervec.ports import Kind, Limits, Vectors

if TYPE_CHECKING:
    from evervec.embedders.local.engine import Engine
    from evervec.embedders.local.tokens import Tokens

Precision: TypeAlias = Literal["bf16", "f32"]
T = TypeVar("T")

TEXT_TOKENS_MAX = 256
RUN_TOKENS = 1024
"""Small runs of the network win: what passes between the layers stays in the processor's cache."""
BATCH_TOKENS_MAX = 4 * RUN_TOKENS
"""A request is asked for, kept and recorded as one. Four runs in it cost a quarter of that, and a
live edit waits for no more than two of them."""
TOKENISED_AT_ONCE = 128


class LocalEmbedder:
    """MiniLM-L6-v2 on OpenVINO, 384 dimensions, the first 256 tokens of a text.

    Several `embed` calls may run at once; together they use *threads* threads (else
    `EVERVEC_THREADS`, else every processor this process may use). *precision* is bfloat16 where
    the processor has it. It is part of the revision, so vectors of the two are never mixed; name
    it to serve a state that was made on another kind of processor.
    """

    def __init__(self, *, threads: int | None = None, precision: Precision | None = None) -> None:
        if precision not in {None, "bf16", "f32"}:
            raise ConfigError(f"precision {precision!r} is unknown", hint="use bf16 or f32")
        self._threads = threads_of(threads)
        self._wanted: Precision | None = precision
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="evervec-model")
        self._loading = threading.RLock()
        self._engine: Engine | None = None
        self._tokens: Tokens | None = None
        self._closed = False

    @property
    def model(self) -> str:
        return "all-MiniLM-L6-v2"

    @cached_property
    def precision(self) -> Precision:
        """What the network computes in; asks the processor if nothing was wanted."""
        from evervec.embedders.local.engine import has_bf16

        able = has_bf16()
        if self._wanted == "bf16" and not able:
            raise ConfigError(
                "precision 'bf16' is not possible: this processor does not compute in bfloat16",
                hint="use f32, which is another space: vectors made in bf16 are made anew",
            )
        return self._wanted or ("bf16" if able else "f32")

    @cached_property
    def revision(self) -> str:
        """The precision, and a hash of all else that shapes a vector."""
        parts = (files.WEIGHTS_SHA256, files.TOKENIZER_SHA256, str(TEXT_TOKENS_MAX), "mean", "l2")
        return f"{self.precision}-{hashlib.sha256(' '.join(parts).encode()).hexdigest()}"

    @property
    def dimension(self) -> int:
        return 384

    @property
    def limits(self) -> Limits:
        return Limits(
            batch_tokens_max=BATCH_TOKENS_MAX,
            batch_texts_max=256,
            text_tokens_max=TEXT_TOKENS_MAX,
            concurrency=self._threads,
        )

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        return self._tokenizer().count(texts)

    def token_ends(self, text: str) -> Sequence[int]:
        return self._tokenizer().ends(text)

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:  # noqa: ARG002  # the model has no prefixes: a query is embedded like a document
        """Return one unit-length row a text, in order, from what fits of it into 256 tokens.

        More than `limits` is split into several requests. Equal texts in other company differ in
        the last digits.
        """
        rows: list[list[int]] = []
        # In parts, so that an interrupt never waits for all of a long list.
        for start in range(0, len(texts), TOKENISED_AT_ONCE):
            part = texts[start : start + TOKENISED_AT_ONCE]
            rows += await self._call(partial(self._ids, part))
        vectors = np.zeros((len(rows), self.dimension), np.float32)

        async def fill(run: list[int]) -> None:
            ids = [rows[index] for index in run]
            vectors[run] = await self._call(lambda: self._ready().run(ids))

        try:
            async with asyncio.TaskGroup() as group:
                for run in self._runs([len(row) for row in rows]):
                    group.create_task(fill(run))
        except BaseExceptionGroup as errors:
            # One reason is enough; the other requests were cancelled because of it.
            raise errors.exceptions[0] from None
        return vectors

    async def close(self) -> None:
        """Wait for the requests under way, drop those that wait, and free the memory."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)
        self._engine = None

    async def _call(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("the local model was closed", after=0.0)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self._tokenizer().ids(texts, most=TEXT_TOKENS_MAX)

    def _runs(self, counts: Sequence[int]) -> Iterator[list[int]]:
        """Split texts of these token *counts* into runs of the network, none a small remainder."""
        for request in batches(counts, limits=self.limits):
            padded = len(request) * counts[request[0]]
            runs = max(1, round(padded / RUN_TOKENS))
            size = -(-len(request) // runs)
            yield from (request[at : at + size] for at in range(0, len(request), size))

    def _tokenizer(self) -> "Tokens":
        with self._loading:
            if self._tokens is None:
                from evervec.embedders.local.tokens import Tokens

                parallel = self._threads >= processors()
                self._tokens = Tokens(files.tokenizer(), parallel=parallel)
            return self._tokens

    def _ready(self) -> "Engine":
        # Compiled by whoever comes first; the others wait here for it.
        with self._loading:
            if self._engine is None:
                weights = files.weights()
                from evervec.embedders.local.engine import Engine

                self._engine = Engine(weights, threads=self._threads, precision=self.precision)
            return self._engine

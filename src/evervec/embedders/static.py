"""The static tier: a vector a word piece, and a text is their mean. Thousands of texts a second.

The rows are wordllama's. Its package is located, never imported: what it needs besides its two
files is not needed here. Words are not read in their context, so a text is found by what it is
about and rarely by what it says; `docs/models.md` has the numbers.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from evervec.embedders.local import files
from evervec.embedders.local.threads import processors, threads_of
from evervec.embedders.rows import unit_rows
from evervec.embedders.safetensors import tensors
from evervec.errors import ConfigError, Unavailable
from evervec.ports import Kind, Limits, Vectors

if TYPE_CHECKING:
    from evervec.embedders.local.tokens import Tokens

T = TypeVar("T")

PACKAGE = "wordllama"
INSTALL = "pip install 'evervec[static]'"
ROWS = "weights/l2_supercat_256.safetensors"
ROWS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
TOKENIZER_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"

ABOUT = "thousands of texts a second, and rough: the mean of word vectors, without context"
TEXT_TOKENS_MAX = 8192
BATCH_TOKENS_MAX = 16_384
TEXTS_AT_ONCE = 256
NOTHING = 1
"""The row that stands for a text without a word: the one of a text's beginning."""


class StaticEmbedder:
    """wordllama's 256 dimensions: for millions of texts, where a rough sense will do."""

    def __init__(self, *, threads: int | None = None) -> None:
        self._threads = threads_of(threads)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="evervec-static")
        self._closed = False

    @property
    def model(self) -> str:
        return "static-wordllama-l2-supercat"

    @property
    def about(self) -> str:
        return f"static: {ABOUT}"

    @cached_property
    def revision(self) -> str:
        parts = (ROWS_SHA256, TOKENIZER_SHA256, str(TEXT_TOKENS_MAX), "stripped", "mean", "l2")
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    @property
    def dimension(self) -> int:
        return 256

    @property
    def limits(self) -> Limits:
        return Limits(
            batch_tokens_max=BATCH_TOKENS_MAX,
            batch_texts_max=1024,
            text_tokens_max=TEXT_TOKENS_MAX,
            concurrency=self._threads,
        )

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        return self._tokens.count(texts)

    def token_ends(self, text: str) -> Sequence[int]:
        return self._tokens.ends(text)

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:  # noqa: ARG002  # words have the same row in a query
        """Return one unit-length row a text, in order, from its first 8,192 word pieces."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        # In parts, so that an interrupt never waits for all of a long list.
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            part = texts[start : start + TEXTS_AT_ONCE]
            vectors[start : start + len(part)] = await self._call(partial(self._means, part))
        return vectors

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    async def _call(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("the static model was closed", after=0.0)
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _means(self, texts: Sequence[str]) -> Vectors:
        rows = self._tokens.ids(texts, most=TEXT_TOKENS_MAX)
        rows = [row or [NOTHING] for row in rows]
        ends = np.cumsum([len(row) for row in rows])
        flat = np.fromiter(chain.from_iterable(rows), np.int64, count=int(ends[-1]))
        # A sum has the direction of the mean, and that is all that is kept.
        sums = np.add.reduceat(self._table[flat], np.concatenate([[0], ends[:-1]]), axis=0)
        return unit_rows(sums, count=len(rows), dimension=self.dimension, model=self.model)

    @cached_property
    def _table(self) -> NDArray[np.float32]:
        path = _folder() / ROWS
        content = _file(path, ROWS_SHA256)
        return tensors(content, name=str(path))["embedding.weight"].astype(np.float32)

    @cached_property
    def _tokens(self) -> "Tokens":
        from evervec.embedders.local.tokens import Tokens

        definition = _file(_folder() / TOKENIZER, TOKENIZER_SHA256)
        return Tokens(definition, parallel=self._threads >= processors(), bare=True)


def _folder() -> Path:
    folder = files.located(PACKAGE)
    if folder is None:
        raise ConfigError(
            f"the static model is not installed: there is no package {PACKAGE!r}", hint=INSTALL
        )
    return folder


def _file(path: Path, sha256: str) -> bytes:
    install = "pip install --force-reinstall wordllama==0.4.0.post1"
    return files.checked(path, sha256=sha256, install=install, model="the static model")

"""all-MiniLM-L6-v2 in this process: no server, no key, no network, no download.

Constructing it costs nothing. The libraries are imported when they are first needed and the
network is compiled at the first `embed`, on the embedder's own threads.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from evervec.embedders.local import fetch, files
from evervec.embedders.local.running import BATCH_TOKENS_MAX, Running
from evervec.embedders.local.threads import threads_of
from evervec.errors import ConfigError
from evervec.ports import Kind, Limits, Vectors

if TYPE_CHECKING:
    from evervec.embedders.local.engine import Engine
    from evervec.embedders.local.tokens import Tokens

Precision: TypeAlias = Literal["bf16", "f32"]
Quality: TypeAlias = Literal["default", "fast", "exact"]

QUALITIES = {
    "default": "comes with the install; cosine to full precision 0.999 for 99 texts in 100",
    "fast": "about a fifth faster, cosine 0.998; needs a processor with int8 dot products (VNNI)",
    "exact": "the original weights, cosine 0.9999; 84 MB, fetched on request",
}
TEXT_TOKENS_MAX = 256
FAST_GROUP = 64
"""Activations that share a scale. Half as many cost a tenth of the speed; with twice as many, one
neighbour in a hundred is lost and little is gained."""


class LocalEmbedder:
    """MiniLM-L6-v2 on OpenVINO, 384 dimensions, the first 256 tokens of a text.

    Several `embed` calls may run at once; together they use *threads* threads (else
    `EVERVEC_THREADS`, else every processor this process may use). *quality* says how true to the
    original a vector is. *precision* is bfloat16 where the processor has it. Both are part of the
    revision, so vectors of two are never mixed; name the precision to serve a state that was made
    on another kind of processor.
    """

    def __init__(
        self,
        *,
        threads: int | None = None,
        precision: Precision | None = None,
        quality: Quality = "default",
    ) -> None:
        self.quality: Quality = quality_of(quality)
        self._wanted = known(precision)
        self._running = Running(
            self.model, threads=threads_of(threads), tokens=_tokens, engine=self._engine
        )

    @property
    def model(self) -> str:
        return "all-MiniLM-L6-v2"

    @property
    def about(self) -> str:
        """What its vectors are worth, in words."""
        return f"{self.quality}: {QUALITIES[self.quality]}"

    @cached_property
    def precision(self) -> Precision:
        """What the network computes in; asks the processor if nothing was wanted."""
        from evervec.embedders.local.engine import has_int8

        if self.quality == "fast" and not has_int8():
            raise ConfigError(
                "quality 'fast' is not possible: this processor shows no int8 dot products (VNNI)",
                hint="use the default: it is as fast here, and another space",
            )
        return possible(self._wanted)

    @cached_property
    def revision(self) -> str:
        """The quality and precision, and a hash of all else that shapes a vector."""
        weights = fetch.EXACT.sha256 if self.quality == "exact" else files.WEIGHTS_SHA256
        parts = [weights, files.TOKENIZER_SHA256, str(TEXT_TOKENS_MAX), "mean", "l2"]
        if self.quality == "fast":
            parts.append(f"int8 in groups of {FAST_GROUP}")
        digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()
        if self.quality == "default":
            return f"{self.precision}-{digest}"
        # A state tells its space by the first twelve letters, so the quality is the first of them.
        return f"{self.quality}-{self.precision}-{digest}"

    @property
    def dimension(self) -> int:
        return 384

    @property
    def limits(self) -> Limits:
        return Limits(
            batch_tokens_max=BATCH_TOKENS_MAX,
            batch_texts_max=256,
            text_tokens_max=TEXT_TOKENS_MAX,
            concurrency=self._running.threads,
        )

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        return self._running.tokens().count(texts)

    def token_ends(self, text: str) -> Sequence[int]:
        return self._running.tokens().ends(text)

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:  # noqa: ARG002  # the model has no prefixes: a query is embedded like a document
        """Return one unit-length row a text, in order, from what fits of it into 256 tokens.

        More than `limits` is split into several requests. Equal texts in other company differ in
        the last digits.
        """
        return await self._running.embed(texts, limits=self.limits, dimension=self.dimension)

    async def close(self) -> None:
        """Wait for the requests under way, drop those that wait, and free the memory."""
        await self._running.close()

    def _engine(self) -> "Engine":
        stored = fetch.fetched(fetch.EXACT) if self.quality == "exact" else files.weights()
        precision, threads = self.precision, self._running.threads
        from evervec.embedders.local.engine import Engine

        if self.quality == "default":
            return Engine(stored, threads=threads, precision=precision)
        from evervec.embedders.local.graph import FullWeights, Int8Weights, Shape, bert
        from evervec.embedders.safetensors import tensors

        if self.quality == "fast":
            graph = bert(Int8Weights(stored), Shape())
            return Engine(graph, threads=threads, precision=precision, group=FAST_GROUP)
        arrays = tensors(stored, name=str(fetch.EXACT.path))
        return Engine(bert(FullWeights(arrays), Shape()), threads=threads, precision=precision)


def known(precision: Precision | None) -> Precision | None:
    """Return *precision* if there is such a one, else raise ConfigError."""
    if precision not in {None, "bf16", "f32"}:
        raise ConfigError(f"precision {precision!r} is unknown", hint="use bf16 or f32")
    return precision


def possible(wanted: Precision | None) -> Precision:
    """Return *wanted*, or what this processor does best. Raises ConfigError if it cannot."""
    from evervec.embedders.local.engine import has_bf16

    able = has_bf16()
    if wanted == "bf16" and not able:
        raise ConfigError(
            "precision 'bf16' is not possible: this processor does not compute in bfloat16",
            hint="use f32, which is another space: vectors made in bf16 are made anew",
        )
    return wanted or ("bf16" if able else "f32")


def quality_of(name: str) -> Quality:
    """Return *name* if it is a quality, else raise ConfigError."""
    for quality in get_args(Quality):
        if name == quality:
            found: Quality = quality
            return found
    raise ConfigError(f"quality {name!r} is unknown", hint=f"use {', '.join(QUALITIES)}")


def _tokens(parallel: bool) -> "Tokens":  # noqa: FBT001  # called with what the threads allow
    from evervec.embedders.local.tokens import Tokens

    return Tokens(files.tokenizer(), parallel=parallel)

"""A model that lies in a folder: its own tokenizer, network, pooling and prompts.

Constructing it looks only whether the folder is there; the files are read when they are first
needed.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evervec.embedders.folder.reading import COPY, Reading, outside, read
from evervec.embedders.local.embedder import Precision, known, possible
from evervec.embedders.local.running import BATCH_TOKENS_MAX, Running
from evervec.embedders.local.threads import threads_of
from evervec.errors import ConfigError
from evervec.ports import Kind, Limits, Vectors

if TYPE_CHECKING:
    from evervec.embedders.local.engine import Engine, Network
    from evervec.embedders.local.tokens import Tokens

AGREES = 0.998
"""Cosine to the reference vector at least: what rounding to bfloat16 leaves, and no more."""


class FolderEmbedder:
    """The model in *folder*, in the layout that sentence-transformers writes.

    It computes in *precision*, or in bfloat16 where the processor has it. The revision is a hash of
    all that shapes a vector, so a changed file is another space. Vectors are of unit length whether
    the model asks for it or not.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        threads: int | None = None,
        precision: Precision | None = None,
    ) -> None:
        self._folder = Path(folder).expanduser()
        if not self._folder.is_dir():
            raise ConfigError(
                f"there is no model in {str(folder)!r}: it is not a folder",
                hint="name a folder with tokenizer.json, config.json and onnx/model.onnx",
            )
        self._wanted = known(precision)
        self._running = Running(
            self.model, threads=threads_of(threads), tokens=self._tokens, engine=self._engine
        )

    @property
    def model(self) -> str:
        return self._folder.resolve().name

    @property
    def about(self) -> str:
        read_ = self._read
        return f"from {self._folder}: {read_.pooling} of at most {read_.tokens_max} tokens"

    @cached_property
    def precision(self) -> Precision:
        """What the network computes in; asks the processor if nothing was wanted."""
        return possible(self._wanted)

    @property
    def revision(self) -> str:
        return f"{self.precision}-{self._read.digest}"

    @property
    def dimension(self) -> int:
        return self._read.dimension

    @property
    def limits(self) -> Limits:
        tokens = self._read.tokens_max
        return Limits(
            batch_tokens_max=max(BATCH_TOKENS_MAX, tokens),
            batch_texts_max=256,
            text_tokens_max=tokens,
            concurrency=self._running.threads,
        )

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """Return each text's tokens, its special ones and the prompt before it included."""
        prompt = self._prompt_tokens
        return [prompt + count for count in self._running.tokens().count(texts)]

    def token_ends(self, text: str) -> Sequence[int]:
        return self._running.tokens().ends(text)

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        """Return one unit-length row a text, in order, with the model's own prompt before it."""
        prompt = self._read.query if kind == "query" else self._read.document
        told = [prompt + text for text in texts] if prompt else texts
        return await self._running.embed(told, limits=self.limits, dimension=self.dimension)

    async def close(self) -> None:
        await self._running.close()

    @cached_property
    def _read(self) -> Reading:
        return read(self._folder)

    @cached_property
    def _prompt_tokens(self) -> int:
        tokens = self._running.tokens()
        with_prompt, without = tokens.count([self._read.document, ""])
        return with_prompt - without

    def _tokens(self, parallel: bool) -> "Tokens":  # noqa: FBT001  # called with what the threads allow
        from evervec.embedders.local.tokens import Tokens

        path = self._folder / "tokenizer.json"
        try:
            tokens = Tokens(self._read.tokenizer, parallel=parallel, lowercase=self._read.lowercase)
        except Exception as error:
            # The tokenizer's library has no errors of its own: all are plain exceptions.
            raise ConfigError(f"{path} is not a tokenizer: {error}", hint=COPY) from error
        rows = self._read.config.get("vocab_size")
        if isinstance(rows, int) and tokens.known > rows:
            # The network would answer such a token with whatever lies behind its table.
            raise ConfigError(
                f"{path} has {tokens.known:,} tokens, and config.json says that the network knows "
                f"{rows:,}",
                hint="the tokenizer belongs to another model; " + COPY,
            )
        return tokens

    def _engine(self) -> "Engine":
        reading = self._read
        from evervec.embedders.local.engine import Engine

        engine = Engine(
            _network(reading),
            threads=self._running.threads,
            precision=self.precision,
            pooling=reading.pooling,
            name=str(reading.network),
        )
        if engine.dimension != reading.dimension:
            raise ConfigError(
                f"{reading.network} gives {engine.dimension} numbers, and config.json beside it "
                f"says {reading.dimension}",
                hint=COPY,
            )
        self._check(engine)
        return engine

    def _check(self, engine: "Engine") -> None:
        if self._read.reference is None:
            return
        text, expected = self._read.reference
        most = self._read.tokens_max
        ids = self._running.tokens().ids([self._read.document + text], most=most)
        cosine = float(engine.run(ids)[0] @ _unit(expected))
        if not cosine >= AGREES:
            raise ConfigError(
                f"{self._folder} does not give the vector that its evervec.json expects: the "
                f"cosine is {cosine:.4f}, and at least {AGREES} was due",
                hint="a file of another model got in, or the vector was made another way",
            )


def _network(reading: Reading) -> "Network":
    """Return the network to compile, and see that it is still what was hashed."""
    if outside(reading.network):
        # OpenVINO finds the rest of it only beside the file.
        return reading.network
    content = reading.network.read_bytes()
    if hashlib.sha256(content).hexdigest() != reading.network_sha256:
        raise ConfigError(f"{reading.network} was changed while it was read", hint="start again")
    if reading.network.suffix == ".onnx":
        return content
    from evervec.embedders.local.graph import FullWeights, bert
    from evervec.embedders.safetensors import tensors

    weights = FullWeights(tensors(content, name=str(reading.network)))
    return bert(weights, _shape(reading))


def _shape(reading: Reading) -> Any:
    from evervec.embedders.local.graph import Shape

    config = reading.config
    computed = {"gelu": "erf", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
    activation = computed.get(str(config.get("hidden_act", "gelu")))
    position = config.get("position_embedding_type", "absolute")
    if activation is None or position != "absolute":
        raise ConfigError(
            f"{reading.network.parent / 'config.json'} asks for {config.get('hidden_act')!r} and "
            f"{position!r} positions, which cannot be built here",
            hint="give the folder an onnx/model.onnx",
        )
    try:
        return Shape(
            heads=int(config["num_attention_heads"]),
            layers=int(config["num_hidden_layers"]),
            epsilon=float(config.get("layer_norm_eps", 1e-12)),
            activation=activation,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{reading.network.parent / 'config.json'} does not say the network's sizes: {error}",
            hint=COPY,
        ) from error


def _unit(values: Sequence[float]) -> Vectors:
    row = np.asarray(values, np.float32)
    unit: Vectors = row / max(float(np.sqrt(np.square(row).sum())), 1e-12)
    return unit

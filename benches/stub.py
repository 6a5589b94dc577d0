"""A model that only takes time: each request so many milliseconds, whatever is in it.

Its answers are vectors of hashed texts, so equal texts have equal vectors and a text is found by
itself. It counts what it was asked and what it answered.
"""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from evervec.errors import EvervecError, Permanent
from evervec.ports import Kind, Limits, Vectors

DIMENSION = 384
POISON = "poison"
WORD = re.compile(r"\S+")


class Stub:
    """Implements the embedder's port. A word is a token; a text with the word poison is refused."""

    model = "stub"
    revision = "1"
    dimension = DIMENSION

    def __init__(
        self, *, seconds: float, concurrency: int = 8, texts: int = 128, remembers: bool = True
    ) -> None:
        self.limits = Limits(
            batch_tokens_max=1 << 30,
            batch_texts_max=texts,
            text_tokens_max=1 << 20,
            concurrency=concurrency,
        )
        self.seconds = seconds
        self.down: EvervecError | None = None
        """While set, every request is answered with this error."""
        self.refused = asyncio.Event()
        self.requests = 0
        self.asked = 0
        self.answered: Counter[bytes] = Counter()
        """How often each text was answered: some 150 bytes a text, which *remembers* can spare."""
        self._remembers = remembers

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        return [len(text.split()) for text in texts]

    def token_ends(self, text: str) -> Sequence[int]:
        return [word.end() for word in WORD.finditer(text)]

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        self.requests += 1
        self.asked += len(texts)
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.down:
            self.refused.set()
            raise self.down
        if any(POISON in text for text in texts):
            raise Permanent("the stub refuses this request")
        if kind == "document" and self._remembers:
            self.answered.update(digest(text) for text in texts)
        return np.array([vector(text) for text in texts], np.float32)

    async def close(self) -> None:
        """Nothing is held."""


def digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def vector(text: str) -> Vectors:
    """Return a unit vector whose 384 signs are the bits of the text's hash."""
    seed = np.frombuffer(hashlib.blake2b(text.encode(), digest_size=48).digest(), np.uint8)
    signs = np.unpackbits(seed).astype(np.float32) * 2 - 1
    return signs / np.float32(np.sqrt(DIMENSION))

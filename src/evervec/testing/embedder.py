"""A model without a model: deterministic, offline, and able to misbehave on request.

Its vectors come from hashed words. Texts that share words are near each other, and that is all:
it is **not semantic** and says so in its name.
"""

import asyncio
import hashlib
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from evervec.embedders.rows import unit_rows
from evervec.errors import EvervecError, Permanent, Transient
from evervec.ports import Kind, Limits, Vector, Vectors

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(slots=True)
class Trouble:
    """What goes wrong. Set the fields at any time; they hold from the next request on."""

    latency: float = 0.0
    """Seconds that each request takes, by the event loop's clock."""
    failing: int = 0
    """How many of the next requests fail, with *error*."""
    error: EvervecError | None = None
    """What they fail with; Transient if None."""
    fail_on: str = ""
    """A text that contains this is refused by itself: Permanent."""
    poison: str = ""
    """A request that holds a text with this is refused as a whole: Permanent, no text named."""
    kill_on: str = ""
    """A request that holds a text with this kills the process, as a crash in a driver would."""
    wide_on: str = ""
    """A request that holds a text with this is answered in a wrong dimension."""
    nan_on: str = ""
    """A text that contains this is answered with NaN."""


class HashEmbedder:
    """Unit vectors of hashed words and word pairs; a token is a word or a punctuation mark.

    `asked` counts the texts of every request, before it is answered or refused, and `requests`
    the requests. With *ledger*, each request is also one line of JSON (`pid`, `kind`, `texts`)
    appended to that file, so that what the model saw outlives this process. Texts are not cut.
    """

    def __init__(
        self,
        *,
        dimension: int = 32,
        revision: str = "1",
        limits: Limits | None = None,
        ledger: Path | str | None = None,
        trouble: Trouble | None = None,
    ) -> None:
        self._dimension = dimension
        self._revision = revision
        self._limits = limits or Limits()
        self._ledger = ledger
        self.trouble = trouble or Trouble()
        self.asked: Counter[str] = Counter()
        self.requests = 0
        self.running_max = 0
        """The most requests that were under way at one time."""
        self._running = 0

    @property
    def model(self) -> str:
        return "hash-not-semantic"

    @property
    def revision(self) -> str:
        return self._revision

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def limits(self) -> Limits:
        return self._limits

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        return [sum(1 for _ in _WORD.finditer(text)) for text in texts]

    def token_ends(self, text: str) -> Sequence[int]:
        return [match.end() for match in _WORD.finditer(text)]

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        self._note(texts, kind)
        self._running += 1
        self.running_max = max(self.running_max, self._running)
        try:
            # Also without latency a model lets others run.
            await asyncio.sleep(self.trouble.latency)
            self._misbehave(texts)
        finally:
            self._running -= 1
        answer = np.array([self._row(text) for text in texts], np.float64)
        if any(_has(text, self.trouble.wide_on) for text in texts):
            answer = np.hstack([answer, answer])
        for place, text in enumerate(texts):
            if _has(text, self.trouble.nan_on):
                answer[place] = np.nan
        return unit_rows(answer, count=len(texts), dimension=self._dimension, model=self.model)

    async def close(self) -> None:
        """Nothing is held."""

    def vector(self, text: str) -> Vector:
        """Return what `embed` answers for *text*, without asking the model."""
        row = self._row(text)
        return unit_rows([row], count=1, dimension=row.size, model=self.model).reshape(-1)

    def _note(self, texts: Sequence[str], kind: Kind) -> None:
        self.requests += 1
        self.asked.update(texts)
        if self._ledger is not None:
            line = json.dumps({"pid": os.getpid(), "kind": kind, "texts": list(texts)}) + "\n"
            # One write of an appending descriptor: lines of several processes do not mix.
            file = os.open(self._ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)

    def _misbehave(self, texts: Sequence[str]) -> None:
        trouble = self.trouble
        if any(_has(text, trouble.kill_on) for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble.failing > 0:
            trouble.failing -= 1
            raise trouble.error or Transient("the hash model was told to fail")
        if any(_has(text, trouble.poison) for text in texts):
            raise Permanent("the hash model refuses this request as a whole")
        for place, text in enumerate(texts, 1):
            if _has(text, trouble.fail_on):
                raise Permanent(f"the hash model refuses text {place} of {len(texts)}")

    def _row(self, text: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        words = _WORD.findall(text.lower())
        row = np.zeros(self._dimension)
        for gram in [*words, *map(" ".join, pairwise(words))]:
            digest = hashlib.blake2b(gram.encode("utf-8", "replace"), digest_size=8).digest()
            place = int.from_bytes(digest[:7]) % self._dimension
            row[place] += 1.0 if digest[7] & 1 else -1.0
        if not row.any():
            # Nothing to hash, or all of it cancelled: still one fixed direction.
            row[0] = 1.0
        return row


def asked_in(ledger: Path | str) -> Counter[str]:
    """Count the texts that all processes sent to the model, from the file they all wrote."""
    try:
        lines = Path(ledger).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return Counter()
    return Counter(text for line in lines for text in json.loads(line)["texts"])


def _has(text: str, marker: str) -> bool:
    return bool(marker) and marker in text

"""The bare model's best rate: the most that anything built on it can reach.

Nothing of the product runs but the arithmetic: texts are tokenised at once, sorted by length,
put into requests of 1,024 padded tokens and run on as many streams as there are processors.

    python -m benches.model [TEXTS] [--passes 3] [--threads N]
"""

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

import openvino as ov
from benches.corpus import paragraphs
from benches.report import Line, report

from evervec.batch import batches
from evervec.embedders.local import LocalEmbedder, files
from evervec.embedders.local.engine import Engine
from evervec.embedders.local.running import RUN_TOKENS
from evervec.embedders.local.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Rate:
    """The best of several passes. Tokens are those of the texts, never padding."""

    texts: int
    threads: int
    precision: str
    openvino: str
    texts_per_s: float
    tokens_per_s: float
    tokens_padded: float
    """What padding adds, as a share of the tokens."""


class Bare:
    """The model with nothing around it, warm."""

    def __init__(self, threads: int | None = None) -> None:
        shipped = LocalEmbedder(threads=threads)
        self.precision = shipped.precision
        self.limits = replace(shipped.limits, batch_tokens_max=RUN_TOKENS)
        self._engine = Engine(
            files.weights(), threads=self.limits.concurrency, precision=shipped.precision
        )
        self._tokens = Tokens(files.tokenizer())
        self._pool = ThreadPoolExecutor(self.limits.concurrency)
        # The first requests build kernels for their shapes; that is start-up, not rate.
        list(self._pool.map(self._engine.run, ([[0] * size] for size in range(2, 256))))

    def embed(self, texts: Sequence[str]) -> tuple[int, int]:
        """Embed *texts* in the best batching; return their tokens, and these with padding."""
        rows = self._tokens.ids(texts, most=self.limits.text_tokens_max)
        requests = [
            [rows[index] for index in request]
            for request in batches([len(row) for row in rows], limits=self.limits)
        ]
        for _ in self._pool.map(self._engine.run, requests):
            pass
        padded = sum(len(request) * max(map(len, request)) for request in requests)
        return sum(map(len, rows)), padded


def measure(texts: Sequence[str], *, passes: int = 2, threads: int | None = None) -> Rate:
    bare = Bare(threads)
    seconds, count, padded = float("inf"), 0, 0
    for _ in range(passes):
        start = time.perf_counter()
        count, padded = bare.embed(texts)
        seconds = min(seconds, time.perf_counter() - start)
    return Rate(
        texts=len(texts),
        threads=bare.limits.concurrency,
        precision=bare.precision,
        openvino=ov.__version__,
        texts_per_s=round(len(texts) / seconds, 1),
        tokens_per_s=round(count / seconds),
        tokens_padded=round(padded / max(count, 1) - 1, 4),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="?", type=int, default=10_000)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--threads", type=int)
    asked = parser.parse_args()
    rate = measure(paragraphs(asked.texts), passes=asked.passes, threads=asked.threads)
    report(
        "model",
        [Line("the bare model, real paragraphs", rate.texts_per_s, "/s")],
        **asdict(rate),
    )


if __name__ == "__main__":
    main()

"""How true each quality of the local model is to full precision, how fast, and how near the machine's limit.

    python -m benches.fidelity [--texts 1000] [--queries 300] [--passes 3] [--against original]

Passages and queries are real prose. The truth is the original float32 weights, computed in float32;
`evervec model fetch exact` brings them, or this does. With `--against shipped` it is the weights that
come with the install, in float32, and `exact` is left out. All qualities run in turns, in the product's own
batching, and so does the matrix product whose rate is the machine's peak.
"""

import argparse
import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import openvino as ov
from benches.corpus import paragraphs
from benches.report import Line, report
from openvino import opset13 as ops

from evervec.embedders.local import LocalEmbedder, fetch, files
from evervec.embedders.local.embedder import Precision, Quality
from evervec.embedders.local.engine import Engine, has_bf16, has_int8
from evervec.embedders.local.graph import FullWeights, Shape, bert
from evervec.embedders.local.tokens import Tokens
from evervec.embedders.safetensors import tensors
from evervec.embedders.static import StaticEmbedder
from evervec.ports import Embedder, Vectors

PROMISED = {"default": (0.998, 0.98), "fast": (0.997, 0.95), "exact": (0.9999, 0.99)}
LINEAR_FLOP, ATTENTION_FLOP = 21.2e6, 9.2e3
"""Of MiniLM-L6 a token: in linear layers, and in attention for each token of its text."""
GEMM = (1024, 384, 1536)
GEMM_LAYERS = 12


@dataclass(slots=True)
class Measured:
    """One quality's vectors and its best pass."""

    embedder: Embedder
    passages: Vectors = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    queries: Vectors = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    seconds: float = float("inf")


class Peak:
    """Matrix products at the model's own shapes, back to back on every stream."""

    def __init__(self, threads: int, precision: str) -> None:
        rows, narrow, wide = GEMM
        random = np.random.default_rng(0)
        hidden = given = ops.parameter([rows, narrow], np.float32)
        for layer in range(GEMM_LAYERS):
            size = (narrow, wide) if layer % 2 == 0 else (wide, narrow)
            weights = random.standard_normal(size).astype(np.float32) / size[0] ** 0.5
            hidden = ops.matmul(hidden, ops.constant(weights), False, False)
        self.flop = 2.0 * rows * narrow * wide * GEMM_LAYERS
        self._threads = threads
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            "INFERENCE_PRECISION_HINT": precision,
        }
        self._model = ov.Core().compile_model(ov.Model([hidden], [given], "peak"), "CPU", settings)
        self._given = random.standard_normal((rows, narrow)).astype(np.float32)
        self._own = threading.local()
        self._run(1)
        self.rate = 0.0

    def turn(self, repeats: int = 20) -> None:
        """Measure once more; the best rate counts, in FLOP a second."""
        began = time.perf_counter()
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(self._run, [repeats] * self._threads))
        took = time.perf_counter() - began
        self.rate = max(self.rate, self.flop * repeats * self._threads / took)

    def _run(self, repeats: int) -> None:
        if not hasattr(self._own, "request"):
            self._own.request = self._model.create_infer_request()
        for _ in range(repeats):
            self._own.request.infer([self._given])


def truth(texts: Sequence[str], against: str, threads: int) -> Vectors:
    """Embed each text alone, in float32 throughout: no padding, no rounding."""
    shipped = against == "shipped"
    content = files.weights() if shipped else fetch.fetched(fetch.EXACT)
    network = content if shipped else bert(FullWeights(tensors(content, name="weights")), Shape())
    # 0: activations are not rounded to int8, though weights may be.
    engine = Engine(network, threads=threads, precision="f32", group=0)
    rows = Tokens(files.tokenizer()).ids(texts, most=256)
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(lambda row: engine.run([row]), rows)))


def overlap(passages: Vectors, queries: Vectors, right: np.ndarray[Any, Any]) -> float:
    """Return how many of the ten nearest passages are the right ones."""
    found = nearest(passages, queries)
    shared = [
        len(set(one) & set(other)) / len(other) for one, other in zip(found, right, strict=True)
    ]
    return float(np.mean(shared))


def nearest(passages: Vectors, queries: Vectors) -> np.ndarray[Any, Any]:
    return np.argsort(-(queries @ passages.T), axis=1)[:, :10]


async def measure(wanted: argparse.Namespace) -> None:
    count = wanted.texts + wanted.queries
    found = paragraphs(4 * count)[::4]
    passages, others = found[: wanted.texts], found[wanted.texts :]
    # A first sentence asks like a person does; the passages do not hold it.
    queries = [text.split(". ")[0] for text in others]
    qualities: list[Quality] = ["default"]
    qualities += ["fast"] if has_int8() else []
    qualities += ["exact"] if wanted.against == "original" else []
    each: dict[str, Measured] = {
        quality: Measured(LocalEmbedder(quality=quality)) for quality in qualities
    }
    each["static"] = Measured(StaticEmbedder())
    threads = each["default"].embedder.limits.concurrency
    precision: Precision = "bf16" if has_bf16() else "f32"
    peak = Peak(threads, precision)
    for measured in each.values():
        measured.queries = await measured.embedder.embed(queries, kind="query")
    for _ in range(wanted.passes):
        peak.turn()
        for measured in each.values():
            began = time.perf_counter()
            measured.passages = await measured.embedder.embed(passages, kind="document")
            measured.seconds = min(measured.seconds, time.perf_counter() - began)
        peak.turn()
    for measured in each.values():
        await measured.embedder.close()
    true_passages = truth(passages, wanted.against, threads)
    true_queries = truth(queries, wanted.against, threads)
    tell(each, peak, passages, (true_passages, true_queries), wanted.against)


def tell(
    each: dict[str, Measured],
    peak: Peak,
    texts: Sequence[str],
    true: tuple[Vectors, Vectors],
    against: str,
) -> None:
    lengths = [min(256, count) for count in LocalEmbedder().count_tokens(texts)]
    tokens = sum(lengths)
    flop = LINEAR_FLOP * tokens + ATTENTION_FLOP * sum(length * length for length in lengths)
    right = nearest(*true)
    lines: list[Line] = []
    numbers: dict[str, Any] = {}
    for name, measured in each.items():
        shared = overlap(measured.passages, measured.queries, right)
        rate = tokens / measured.seconds
        told: dict[str, Any] = {
            "tokens_per_s": round(rate),
            "texts_per_s": round(len(texts) / measured.seconds, 1),
            "overlap_at_10": round(shared, 4),
        }
        if name in PROMISED:
            cosines = (measured.passages * true[0]).sum(axis=1)
            low = float(np.quantile(cosines, 0.01))
            told |= {
                "cosine_p1": round(low, 5),
                "cosine_min": round(float(cosines.min()), 5),
                "cosine_mean": round(float(cosines.mean()), 5),
                "share_of_peak": round(flop / measured.seconds / peak.rate, 3),
            }
            least, most = PROMISED[name]
            lines.append(
                Line(f"{name}: cosine, 1st percentile", round(low, 5), "", least, "at least")
            )
            lines.append(Line(f"{name}: overlap@10", round(shared, 4), "", most, "at least"))
        else:
            lines.append(Line(f"{name}: overlap@10", round(shared, 4)))
        lines.append(Line(f"{name}: tokens a second", round(rate), "/s"))
        numbers[name] = told
    if "exact" in numbers:
        share = numbers["exact"]["share_of_peak"]
        lines.append(Line("exact: share of the matrix peak", share, "", 0.75, "at least"))
    report(
        "fidelity",
        lines,
        against=against,
        texts=len(texts),
        tokens=tokens,
        peak_gflop_per_s=round(peak.rate / 1e9),
        **numbers,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--against", choices=("original", "shipped"), default="original")
    wanted = parser.parse_args()
    if wanted.against == "original":
        fetch.fetch(fetch.EXACT)
    asyncio.run(measure(wanted))


if __name__ == "__main__":
    main()

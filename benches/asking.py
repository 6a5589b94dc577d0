"""What a question costs before anything is searched: starting the model, and embedding a query.

A process of its own starts the model, so that imports count; the best of some starts is told, since
the first finds cold files. Then questions of 3 to 20 words are embedded one by one, warm.

    python -m benches.asking [--starts 3] [--queries 300]
"""

import argparse
import asyncio
import subprocess
import sys
import time

import numpy as np
from benches.corpus import paragraphs
from benches.report import Line, report

from evervec.embedders.local import LocalEmbedder

START = """
import asyncio
from evervec.embedders.local import LocalEmbedder
asyncio.run(LocalEmbedder().embed(["how do leases expire?"], kind="query"))
"""
WORDS_MIN, WORDS_MAX = 3, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--queries", type=int, default=300)
    asked = parser.parse_args()
    starts = [started() for _ in range(asked.starts)]
    took = asyncio.run(embedded(questions(asked.queries)))
    report(
        "asking",
        [
            Line("a new process to its first vector, best", round(min(starts), 2), "s", 2.0),
            Line("a query's vector, p50", round(float(np.percentile(took, 50)), 2), "ms", 10.0),
            Line("a query's vector, p99", round(float(np.percentile(took, 99)), 2), "ms"),
        ],
        starts_s=[round(each, 2) for each in starts],
        queries=len(took),
    )


def started() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", START], check=True)
    return time.perf_counter() - begun


def questions(count: int) -> list[str]:
    """Return the beginnings of real paragraphs, of growing length."""
    span = WORDS_MAX - WORDS_MIN + 1
    return [
        " ".join(text.split()[: WORDS_MIN + number % span])
        for number, text in enumerate(paragraphs(count))
    ]


async def embedded(asked: list[str]) -> list[float]:
    model = LocalEmbedder()
    # The first request of each shape builds its kernels; that belongs to a process's start.
    for question in asked[: WORDS_MAX - WORDS_MIN + 1]:
        await model.embed([question], kind="query")
    took = []
    for question in asked:
        begun = time.perf_counter()
        await model.embed([question], kind="query")
        took.append((time.perf_counter() - begun) * 1000)
    await model.close()
    return took


if __name__ == "__main__":
    main()

"""Search over 100,000 vectors of 384, as ratios to one bare matrix-vector product in the same run.

    python -m benches.search [--rows 100000] [--rounds 40]

Texts have 40 words from a vocabulary of 30,000 with Zipf's law; the queries are of three words, one
common and two less so. Each round times the bare product and then each search, so that what else
the machine does falls on all of them alike.
"""

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from benches.report import Line, report

from evervec.model import Chunk, Key, Piece, Publication, Scope, encode_id
from evervec.ports import Query, Vectors
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore

DIMENSION = 384
SCOPE = Scope("", "bench")
WORDS = "word17 word900 word2000"


async def fill(store: SqliteStore, rows: int) -> tuple[Vectors, float]:
    """Publish *rows* documents of one chunk; return their vectors and the seconds in `publish`."""
    random = np.random.default_rng(1)
    vocabulary = np.array([f"word{number}" for number in range(30_000)])
    matrix = random.standard_normal((rows, DIMENSION), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    seconds = 0.0
    for first in range(0, rows, 500):
        publications, vectors = [], {}
        for number in range(first, min(first + 500, rows)):
            text = " ".join(vocabulary[np.minimum(random.zipf(1.3, 40), 29_999)])
            digest = hashlib.sha256(f"{number} {text}".encode()).digest()
            vectors[digest] = matrix[number]
            publications.append(
                Publication(
                    Key("", "bench", encode_id(number)),
                    1,
                    digest,
                    (Piece(Chunk(text, 0, len(text)), digest),),
                    {"third": number % 3},
                )
            )
        await store.keep("", 1, vectors)
        began = time.perf_counter()
        await store.publish(publications, fence=1, space=1)
        seconds += time.perf_counter() - began
    return matrix, seconds


async def timed(store: SqliteStore, query: Query) -> tuple[float, list[object]]:
    began = time.perf_counter()
    hits = await store.search(query)
    return time.perf_counter() - began, [hit.id for hit in hits]


async def measure(path: Path, rows: int, rounds: int) -> dict[str, Any]:
    database = Database(path)
    store = SqliteStore(database)
    await store.open()
    matrix, seconds = await fill(store, rows)
    build, _ = await timed(store, Query("", matrix[0], (SCOPE,), mode="dense"))
    await store.close()
    await database.close()

    database = Database(path)
    store = SqliteStore(database)
    await store.open()
    first, _ = await timed(store, Query("", matrix[0], (SCOPE,), mode="dense"))
    times: dict[str, list[float]] = {name: [] for name in ("bare", "dense", "lexical", "hybrid")}
    for number in range(rounds):
        vector = matrix[number * 7 % rows]
        began = time.perf_counter()
        product = np.dot(matrix, vector)
        times["bare"].append(time.perf_counter() - began)
        for mode in ("dense", "lexical", "hybrid"):
            spent, ids = await timed(store, Query(WORDS, vector, (SCOPE,), mode=mode))
            times[mode].append(spent)
            if mode == "dense" and ids != np.argsort(-product)[:10].tolist():
                raise SystemExit("the exact search is not exact")
    filtered, _ = await timed(store, Query(WORDS, matrix[0], (SCOPE,), where={"third": 1}))
    await store.close()
    await database.close()
    middle = {name: statistics.median(spent) for name, spent in times.items()}
    return {
        "rows": rows,
        "dimension": DIMENSION,
        "publish_documents_per_second": round(rows / seconds),
        "index_build_ms": round(build * 1000, 1),
        "first_search_in_a_new_process_ms": round(first * 1000, 1),
        **{f"{name}_ms": round(spent * 1000, 2) for name, spent in middle.items()},
        "filtered_hybrid_ms": round(filtered * 1000, 1),
        "dense_ratio": round(middle["dense"] / middle["bare"], 2),
        "hybrid_ratio": round(middle["hybrid"] / middle["bare"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(Path(folder) / "state.db", options.rows, options.rounds))
    report(
        "search",
        [
            Line(
                f"exact top 10 of {options.rows:,} ÷ one bare product",
                result["dense_ratio"],
                "",
                1.5,
            ),
            Line(
                f"hybrid top 10 of {options.rows:,} ÷ one bare product",
                result["hybrid_ratio"],
                "",
                3.0,
            ),
        ],
        **result,
    )


if __name__ == "__main__":
    main()

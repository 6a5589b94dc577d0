"""Search where comparing everything is no longer instant: time, recall, filters, writes meanwhile.

    python -m benches.search_large [--rows 1000000] [--rounds 60] [--random]

Vectors lie in clusters as those of texts do: a few thousand topics, in each of them neighbours that
are nearer and further, and a part that is noise. Queries are such vectors too, none of them stored.
With `--random` they point anywhere instead, which no collection of texts does: it is the worst case.
The truth is the bare matrix-vector product with the same query. A run with 200,000 rows takes a minute.
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
from benches.report import Line, quantile, report
from benches.search import DIMENSION, SCOPE, timed

from evervec.model import Chunk, Key, Piece, Publication, encode_id
from evervec.ports import Query, Vectors
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore

K = 10
BATCH = 2_000
ADDED = 1_000
NEAR_MS = 15.0
RECALL = 0.97


def unit(vectors: Vectors) -> Vectors:
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


class World:
    """Where vectors come from."""

    def __init__(self, *, anywhere: bool) -> None:
        self._random = np.random.default_rng(1)
        self._anywhere = anywhere
        self._topics = unit(self._random.standard_normal((4_000, DIMENSION), np.float32))

    def vectors(self, count: int) -> Vectors:
        noise = unit(self._random.standard_normal((count, DIMENSION), np.float32))
        if self._anywhere:
            return noise
        topics = self._random.integers(0, len(self._topics), (2, count))
        far = self._random.uniform(0.3, 1.2, (count, 1)).astype(np.float32)
        return unit(self._topics[topics[0]] + 0.3 * self._topics[topics[1]] + far * noise)


async def put(store: SqliteStore, matrix: Vectors, first: int) -> None:
    """Publish the rows of *matrix* as documents of one chunk, numbered from *first*."""
    for start in range(0, len(matrix), BATCH):
        publications, vectors = [], {}
        for number in range(first + start, first + min(start + BATCH, len(matrix))):
            text = f"text {number}"
            digest = hashlib.sha256(text.encode()).digest()
            vectors[digest] = matrix[number - first]
            publications.append(
                Publication(
                    Key("", SCOPE.collection, encode_id(number)),
                    1,
                    digest,
                    (Piece(Chunk(text, 0, len(text)), digest),),
                    {"hundredth": number % 100, "tenth": number % 10},
                )
            )
        await store.keep("", 1, vectors)
        await store.publish(publications, fence=1, space=1)


async def recalled(
    store: SqliteStore, matrix: Vectors, queries: Vectors, where: dict[str, Any], kept: Any
) -> dict[str, float]:
    """Search each query; return times, also of bare products, and the share of the best found."""
    rows = np.flatnonzero(kept)
    bare, truths = [], []
    for vector in queries:
        began = time.perf_counter()
        product = matrix @ vector
        bare.append(time.perf_counter() - began)
        truths.append(set(rows[np.argpartition(-product[rows], K)[:K]].tolist()))
    # Apart from the products, whose threads go on spinning for a while after each of them.
    spent, worked, found = [], [], 0
    for vector, truth in zip(queries, truths, strict=True):
        before = time.process_time()
        took, ids = await timed(store, Query("", vector, (SCOPE,), K, "dense", where))
        worked.append(time.process_time() - before)
        spent.append(took)
        found += len(truth & set(ids))
    return {
        "p50_ms": round(statistics.median(spent) * 1000, 2),
        "p90_ms": round(quantile(spent, 0.9) * 1000, 2),
        # About what it would take alone on the machine.
        "processor_p50_ms": round(statistics.median(worked) * 1000, 2),
        "bare_product_ms": round(statistics.median(bare) * 1000, 2),
        "recall_at_10": round(found / (K * len(queries)), 4),
    }


async def adding(store: SqliteStore, world: World, queries: Vectors, rows: int) -> list[float]:
    """Search all the time while more is published, a hundred at once."""
    done = asyncio.Event()

    async def add() -> None:
        for first in range(0, ADDED, 100):
            await put(store, world.vectors(100), rows + first)
        done.set()

    spent: list[float] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(add())
        while not done.is_set():
            vector = queries[len(spent) % len(queries)]
            spent.append((await timed(store, Query("", vector, (SCOPE,), K, "dense")))[0])
    return spent


def resident_mb(kind: str) -> float:
    """Return what this process holds in memory: of its own (RssAnon), or of files (RssFile)."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def measure(path: Path, rows: int, rounds: int, *, anywhere: bool) -> dict[str, Any]:
    world = World(anywhere=anywhere)
    matrix = np.empty((rows, DIMENSION), np.float32)
    for first in range(0, rows, 50_000):
        matrix[first : first + 50_000] = world.vectors(min(50_000, rows - first))
    queries = world.vectors(rounds)
    database = Database(path)
    store = SqliteStore(database)
    await store.open()
    began = time.perf_counter()
    for first in range(0, rows, 50_000):
        await put(store, matrix[first : first + 50_000], first)
    result: dict[str, Any] = {"rows": rows, "publish_s": round(time.perf_counter() - began, 1)}
    held = resident_mb("RssAnon")
    began = time.perf_counter()
    first_search, _ = await timed(store, Query("", queries[0], (SCOPE,), K, "dense"))
    for _ in range(rows // 65_536 + 1):
        await timed(store, Query("", queries[0], (SCOPE,), K, "dense"))
    result["build_s"] = round(time.perf_counter() - began, 1)
    result["first_search_s"] = round(first_search, 1)

    numbers = np.arange(rows)
    filters: dict[str, tuple[dict[str, Any], Any]] = {
        "all": ({}, numbers >= 0),
        "1 %": ({"hundredth": 7}, numbers % 100 == 7),
        "30 %": ({"tenth": [1, 4, 8]}, np.isin(numbers % 10, [1, 4, 8])),
    }
    for name, (where, kept) in filters.items():
        # A filter is looked up in the database first: fewer rounds tell as much.
        asked = queries if not where else queries[: max(2, rounds // 3)]
        result[name] = await recalled(store, matrix, asked, where, kept)
    result["memory_of_its_own_mb"] = round(resident_mb("RssAnon") - held)
    spent = await adding(store, world, queries, rows)
    result["adding_1000"] = {
        "searches": len(spent),
        "p50_ms": round(statistics.median(spent) * 1000, 2),
        "worst_ms": round(max(spent) * 1000, 2),
    }
    await store.close()
    await database.close()
    result["database_mb"] = round(path.stat().st_size / 1e6)
    for file in sorted(Path(f"{path}-index").iterdir()):
        if file.suffix in {".vectors", ".codes"}:
            result[f"{file.suffix[1:]}_mb"] = round(file.stat().st_blocks * 512 / 1e6)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--random", action="store_true", help="vectors that point anywhere")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(
            measure(
                Path(folder) / "state.db", options.rows, options.rounds, anywhere=options.random
            )
        )
    rows = f"{options.rows:,}"
    lines = [
        Line(f"top 10 of {rows}, median", result["all"]["p50_ms"], "ms", NEAR_MS),
        *(
            Line(
                f"recall@10 of {rows}, {name}", result[name]["recall_at_10"], "", RECALL, "at least"
            )
            for name in ("all", "1 %", "30 %")
        ),
        Line(f"build for {rows}, in the first searches", result["build_s"], "s"),
        Line("search while 1,000 are added, median", result["adding_1000"]["p50_ms"], "ms"),
    ]
    report("search_large", lines, **result)


if __name__ == "__main__":
    main()

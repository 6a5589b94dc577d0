"""What watching a table costs its writers, and how soon a commit is noticed. JSON to stdout.

    python -m benches.capture [--rows 200000] [--repeats 5] [--wakes 300]

Watched and unwatched take turns in one run, so that a slow moment of the machine hits both; each
repeat gives one ratio and the median of the ratios counts.
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from benches.report import Line
from benches.report import report as present

from evervec.sources.sqlite import TableSource, TableSpec
from evervec.sources.sqlite.connection import connect
from evervec.sqlite.wake import FileWake
from evervec.testing.notebook import MemoryNotebook

TABLE = "create table article (id integer primary key, title text, body text, views integer)"
BODY = "A paragraph of the length that people write, with some words to say. " * 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--wakes", type=int, default=300)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as folder:
        report: dict[str, dict[str, Any]] = {
            "insert in bulk": ratio(Path(folder), wanted.rows, wanted.repeats, insert, target=1.25),
            "insert one at a time": ratio(
                Path(folder), wanted.rows // 200, wanted.repeats, insert_singly, target=1.25
            ),
            "update of an unwatched column": ratio(
                Path(folder), wanted.rows, wanted.repeats, view, target=1.05
            ),
            "update of a watched column": ratio(
                Path(folder), wanted.rows, wanted.repeats, edit, target=None
            ),
            "wake": asyncio.run(wakes(Path(folder), wanted.wakes)),
        }
    lines = [
        Line(
            f"{found['rows']:,} rows: {name}, watched ÷ unwatched",
            found["ratio"],
            "",
            found["target"],
        )
        for name, found in report.items()
        if name != "wake"
    ]
    lines.append(Line("commit to wake-up, p50", report["wake"]["p50_ms"], "ms"))
    present("capture", lines, **report)


def insert(file: sqlite3.Connection, rows: int) -> Callable[[], None]:
    texts = [(f"title {number}", BODY, 0) for number in range(rows)]

    def act() -> None:
        file.execute("begin")
        file.executemany("insert into article (title, body, views) values (?, ?, ?)", texts)
        file.execute("commit")

    return act


def insert_singly(file: sqlite3.Connection, rows: int) -> Callable[[], None]:
    def act() -> None:
        for number in range(rows):
            file.execute(
                "insert into article (title, body, views) values (?, ?, 0)", (f"{number}", BODY)
            )

    return act


def view(file: sqlite3.Connection, rows: int) -> Callable[[], None]:
    insert(file, rows)()
    return lambda: _run(file, "update article set views = views + 1")


def edit(file: sqlite3.Connection, rows: int) -> Callable[[], None]:
    insert(file, rows)()
    return lambda: _run(file, "update article set title = title || '!'")


def _run(file: sqlite3.Connection, statement: str) -> None:
    file.execute(statement)


def ratio(
    folder: Path,
    rows: int,
    repeats: int,
    prepare: Callable[[sqlite3.Connection, int], Callable[[], None]],
    *,
    target: float | None,
) -> dict[str, Any]:
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(repeats):
        for watched in (True, False) if repeat % 2 else (False, True):
            path = folder / f"{prepare.__name__}-{repeat}-{watched}.db"
            seconds[watched].append(once(path, rows, prepare, watched=watched))
    ratios = [on / off for on, off in zip(seconds[True], seconds[False], strict=True)]
    return {
        "rows": rows,
        "unwatched_seconds": round(statistics.median(seconds[False]), 4),
        "watched_seconds": round(statistics.median(seconds[True]), 4),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(one, 3) for one in ratios],
        "target": target,
    }


def once(
    path: Path,
    rows: int,
    prepare: Callable[[sqlite3.Connection, int], Callable[[], None]],
    *,
    watched: bool,
) -> float:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("pragma journal_mode = wal")
        file.execute(TABLE)
        if watched:
            asyncio.run(_install(path))
        act = prepare(file, rows)
        file.execute("pragma wal_checkpoint(truncate)")
        begun = time.perf_counter()
        act()
        took = time.perf_counter() - begun
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    return took


async def _install(path: Path) -> None:
    spec = TableSpec(path, "article", fields=("title", "body"))
    source = TableSource(spec, token="bench", notebook=MemoryNotebook())
    await source.open()
    await source.close()


async def wakes(folder: Path, count: int) -> dict[str, Any]:
    """Measure from the commit's return in a thread to the return of `wait`."""
    path = folder / "wake.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as file:
        file.execute("pragma journal_mode = wal")
        file.execute("create table t (x)")
        waking = FileWake(path, connect=connect)
        late = []
        for turn in range(count):
            await asyncio.sleep(0.005)
            seen = waking.count
            waiting = asyncio.ensure_future(waking.wait(5, after=seen))
            await asyncio.sleep(0)
            await asyncio.to_thread(file.execute, "insert into t values (?)", (turn,))
            committed = time.perf_counter()
            await waiting
            late.append((time.perf_counter() - committed) * 1000)
        waking.close()
    late.sort()
    return {
        "commits": count,
        "p50_ms": round(late[len(late) // 2], 3),
        "p99_ms": round(late[int(len(late) * 0.99)], 3),
    }


if __name__ == "__main__":
    main()

"""Resident memory of a backfill at two sizes: it must not grow with what is backfilled.

    python -m benches.memory [--small 10000] [--large 200000]

Rows are tiny and the model is a stub without latency, so that this is about the engine. Each size
is a process of its own. Its peak is the kernel's (`VmHWM`), pages of mapped files included; what is
the process's own (`RssAnon`) is looked at ten times a second. A million rows (`--large 1000000`)
take some minutes, so that fewer are the default.
"""

import argparse
import asyncio
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benches.report import Line, report
from benches.stub import Stub

from evervec import App, table

TARGET = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=200_000)
    parser.add_argument("--rows", type=int, help="for itself: backfill so many and tell the peak")
    wanted = parser.parse_args()
    if wanted.rows:
        print(json.dumps(asyncio.run(backfill(wanted.rows))))
        return
    small, large = child(wanted.small), child(wanted.large)
    report(
        "memory",
        [
            Line(
                f"peak resident memory, {wanted.large:,} rows ÷ {wanted.small:,}",
                round(large["peak_mb"] / small["peak_mb"], 2),
                "",
                TARGET,
            ),
            Line(f"peak resident memory, {wanted.large:,} rows", large["peak_mb"], "MB"),
            Line(
                f"rows a second without a model, {wanted.large:,} rows", large["rows_per_s"], "/s"
            ),
        ],
        small=small,
        large=large,
    )


def child(rows: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benches.memory", "--rows", str(rows)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


async def backfill(rows: int) -> dict[str, float]:
    peaks = {"RssAnon": 0.0, "RssFile": 0.0}
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as folder:
        path = Path(folder) / "source.db"
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("create table doc (id integer primary key, text text)")
            texts = ((f"row number {number}",) for number in range(rows))
            file.executemany("insert into doc (text) values (?)", texts)
        app = App(Path(folder) / "state.db", model=Stub(seconds=0, remembers=False))
        doc = app.collection("bench", source=table(path, "doc"), text="{text}")
        begun = time.perf_counter()
        async with app:
            watching = asyncio.create_task(watch(peaks))
            await doc.synced()
            watching.cancel()
            stored = (await app.status())[0].documents
        seconds = time.perf_counter() - begun
        if stored != rows:
            raise SystemExit(f"{stored} of {rows} rows are searchable")
    return {
        "rows": rows,
        "peak_mb": _megabytes("VmHWM"),
        "own_peak_mb": peaks["RssAnon"],
        "files_peak_mb": peaks["RssFile"],
        "rows_per_s": round(rows / seconds),
    }


async def watch(peaks: dict[str, float]) -> None:
    while True:
        for name, peak in peaks.items():
            peaks[name] = max(peak, _megabytes(name))
        await asyncio.sleep(0.1)


def _megabytes(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    return round(int(found[1]) / 1000, 1) if found else 0.0


if __name__ == "__main__":
    main()

"""One document of 100,000 chunks: what it takes, and whom it keeps waiting.

    python -m benches.large [--chunks 100000]

The model is a stub without latency, so that this is about the engine. While the document is on its
way, another one is edited every tenth of a second, and it is measured how long each edit takes until
it is searchable. Memory is the process's own peak, and the longest transaction counts from the
moment it has the write lock. Then one word of the document is changed.
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
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

import apsw
from benches.report import Line, quantile, report
from benches.stub import Stub

from evervec import App, Collection, table
from evervec.sqlite.database import Database

T = TypeVar("T")

WORDS_A_CHUNK = 150
PAUSE = 0.1
WAIT_SECONDS = 1.0
MEMORY_TIMES = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--child", action="store_true", help="for itself")
    wanted = parser.parse_args()
    if wanted.child:
        print(json.dumps(asyncio.run(measured(wanted.chunks))))
        return
    command = [sys.executable, "-m", "benches.large", "--child", "--chunks", str(wanted.chunks)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    what = f"{found['chunks']:,} chunks"
    report(
        "large",
        [
            Line(f"longest transaction, {what}", found["held_s"], "s", WAIT_SECONDS),
            Line(f"another edit searchable meanwhile, p50, {what}", found["edit_p50_s"], "s"),
            Line(f"the same, worst, {what}", found["edit_worst_s"], "s", 2 * WAIT_SECONDS),
            Line(
                f"memory above an idle process ÷ size of the text, {what}",
                round((found["peak_mb"] - found["idle_mb"]) / found["text_mb"], 2),
                "",
                MEMORY_TIMES,
            ),
            Line(f"inputs embedded ÷ necessary, {what}", found["asked"] / found["chunks"], "", 1.0),
            Line(f"until searchable, {what}", found["seconds"], "s"),
            Line(f"one word changed, until searchable, {what}", found["change_s"], "s"),
            Line(f"longest transaction of it, {what}", found["change_held_s"], "s"),
        ],
        **found,
    )


async def measured(chunks: int) -> dict[str, float]:
    held: list[float] = []
    write_now = Database.write_now

    def timed(self: Database, work: Callable[[apsw.Connection], T], label: str = "") -> T:
        began = time.perf_counter()

        def locked(connection: apsw.Connection) -> T:
            nonlocal began
            began = time.perf_counter()
            return work(connection)

        try:
            return write_now(self, locked, label)
        finally:
            held.append(time.perf_counter() - began)

    with (
        patch.object(Database, "write_now", timed),
        tempfile.TemporaryDirectory(prefix="evervec-bench-") as folder,
    ):
        path = Path(folder) / "source.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            # Else whoever writes waits for whoever reads 200 MB, as SQLite has it.
            writer.execute("pragma journal_mode = wal")
            writer.execute("create table doc (id integer primary key, text text)")
            size = write(writer, chunks, "first")
            model = Stub(seconds=0, remembers=False)
            idle = _megabytes("VmRSS")
            app = App(Path(folder) / "state.db", model=model)
            doc = app.collection("bench", source=table(path, "doc"), text="{text}")
            async with app:
                held.clear()
                began = time.perf_counter()
                edits = await edited_beside(doc, writer)
                seconds, longest = time.perf_counter() - began, max(held)
                peak = _megabytes("VmHWM")
                status = (await app.status())[0]
                asked = model.asked - len(edits)
                held.clear()
                began = time.perf_counter()
                write(writer, chunks, "other")
                await doc.synced()
                change, change_held = time.perf_counter() - began, max(held)
    return {
        "chunks": status.chunks - 1,
        "asked": asked,
        "text_mb": round(size / 1e6, 1),
        "idle_mb": idle,
        "peak_mb": peak,
        "seconds": round(seconds, 1),
        "held_s": round(longest, 3),
        "edits": len(edits),
        "edit_p50_s": round(quantile(edits, 0.5), 3),
        "edit_worst_s": round(max(edits), 3),
        "change_s": round(change, 1),
        "change_held_s": round(change_held, 3),
    }


def write(writer: sqlite3.Connection, chunks: int, word: str) -> int:
    """Write the document, whose first word is *word*; return its size."""
    text = "\n\n".join(
        " ".join(
            f"{word if n == place == 0 else 'word'}{n}x{place}" for place in range(WORDS_A_CHUNK)
        )
        for n in range(chunks)
    )
    writer.execute("insert or replace into doc values (1, ?)", (text,))
    return len(text)


async def edited_beside(doc: Collection, writer: sqlite3.Connection) -> list[float]:
    """Edit another document until the large one is in sync; return how long each edit took."""
    syncing = asyncio.create_task(doc.synced())
    took: list[float] = []
    while not syncing.done():
        began, word = time.perf_counter(), f"edit{len(took)}"
        writer.execute("insert or replace into doc values (2, ?)", (word,))
        while not await doc.search(word, k=1, mode="lexical"):  # noqa: ASYNC110 - as a user looks
            await asyncio.sleep(0.002)
        took.append(time.perf_counter() - began)
        await asyncio.sleep(PAUSE)
    await syncing
    return took


def _megabytes(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    return round(int(found[1]) / 1000, 1) if found else 0.0


if __name__ == "__main__":
    main()

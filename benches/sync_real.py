"""Rows of a table to searchable vectors with the real model, against the bare model's own rate.

    python -m benches.sync_real [--texts 10000] [--bare 2500]

The bare model, in its best batching, embeds a sample of the same texts before and after the sync;
what else the machine does then falls on both. Each part is a process of its own, so that no
threads of one are in the way of the other. Compiling the model is start-up and counts for neither.
"""

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benches.corpus import paragraphs
from benches.model import bare_rate
from benches.report import Line, report

from evervec import App, table
from evervec.embedders.local import LocalEmbedder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--bare", type=int, default=2_500, help="texts of each bare sample")
    parser.add_argument("--part", choices=("bare-0", "bare-1", "sync"), help="for itself")
    wanted = parser.parse_args()
    if wanted.part:
        print(json.dumps(part(wanted.part, wanted.texts, wanted.bare)))
        return
    before, ours, after = (child(name, wanted) for name in ("bare-0", "sync", "bare-1"))
    bare = 2 / (1 / before["rate"] + 1 / after["rate"])
    ratio = round(ours["rate"] / bare, 3)
    report(
        "sync_real",
        [
            Line("rows to searchable vectors ÷ the bare model", ratio, "", 0.93, "at least"),
            Line("searchable paragraphs a second", ours["rate"], "/s"),
        ],
        texts=wanted.texts,
        seconds=ours["seconds"],
        bare_before_per_s=before["rate"],
        bare_after_per_s=after["rate"],
    )


def child(name: str, wanted: argparse.Namespace) -> dict[str, float]:
    sizes = ["--texts", str(wanted.texts), "--bare", str(wanted.bare)]
    command = [sys.executable, "-m", "benches.sync_real", "--part", name, *sizes]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def part(name: str, count: int, bare: int) -> dict[str, float]:
    texts = paragraphs(count)
    if name == "sync":
        return asyncio.run(sync(texts))
    # Spread over all of them, so that lengths are distributed alike; another sample each time.
    step = max(2, count // max(1, bare))
    return {"rate": bare_rate(texts[int(name[-1]) :: step], passes=1)}


async def sync(texts: tuple[str, ...]) -> dict[str, float]:
    model = LocalEmbedder()
    await model.embed(texts[:64], kind="document")
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as folder:
        path = Path(folder) / "source.db"
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("create table paragraph (id integer primary key, text text)")
            file.executemany("insert into paragraph (text) values (?)", ((each,) for each in texts))
        app = App(Path(folder) / "state.db", model=model)
        paragraph = app.collection("bench", source=table(path, "paragraph"), text="{text}")
        begun = time.perf_counter()
        async with app:
            await paragraph.synced()
            seconds = time.perf_counter() - begun
            hits = await paragraph.search(texts[-1], k=1, mode="dense")
            if hits[0].id != len(texts):
                raise SystemExit("the last row is not found by its own text")
    await model.close()
    return {"rate": round(len(texts) / seconds, 1), "seconds": round(seconds, 2)}


if __name__ == "__main__":
    main()

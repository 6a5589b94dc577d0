"""From an edit to a searchable one, idle, with a model that takes no time.

    python -m benches.latency [--edits 200] [--pause 0.2]

The writer is another process that knows nothing but the standard library's sqlite3: it notes the
clock when its commit returns. The publication is an event in the log, in the same transaction as
the chunks, and a fault hook notes the clock when that commit is durable: at that moment any search
answers with it. So nothing is polled and nothing is asked while the clock runs; all processes of a
machine share that clock. After the last edit a search proves that the text is really found.
"""

import argparse
import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from benches.report import Line, quantile, report
from benches.stub import Stub

from evervec import App, ChunkRecipe, faults, table

WRITER = """
import json, random, sqlite3, sys, time
path, edits, rows, pause = sys.argv[1], *map(float, sys.argv[2:])
file = sqlite3.connect(path, isolation_level=None)
noted = []
for n in range(int(edits)):
    # Not in step with anything that looks at regular times.
    time.sleep(pause * random.uniform(0.5, 1.5))
    file.execute("update doc set text = ? where id = ?", (f"edit number {n}", n % int(rows) + 1))
    noted.append(time.monotonic())
print(json.dumps(noted))
"""


async def measure(root: Path, edits: int, pause: float, rows: int) -> None:
    source = root / "source.db"
    with closing(sqlite3.connect(source)) as file, file:
        file.execute("pragma journal_mode = wal")
        file.execute("create table doc (id integer primary key, text text)")
        texts = ((f"document {random.random()}",) for _ in range(rows))
        file.executemany("insert into doc (text) values (?)", texts)
    app = App(root / "state.db", model=Stub(seconds=0))
    doc = app.collection("doc", source=table(source, "doc"), text="{text}", chunk=ChunkRecipe())
    reached: list[tuple[float, str]] = []
    async with app:
        await doc.synced()
        await asyncio.sleep(0.5)
        faults.hook = lambda label: reached.append((time.monotonic(), label))
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITER, str(source), str(edits), str(rows), str(pause)),
            stdout=subprocess.PIPE,
        )
        told, _ = await writer.communicate()
        await doc.synced()
        faults.hook = None
        hits = await doc.search(f"edit number {edits - 1}", k=1)
        if hits[0].text != f"edit number {edits - 1}":
            raise SystemExit("the last edit is not found")
    present(json.loads(told), reached)


def present(committed: list[float], reached: list[tuple[float, str]]) -> None:
    late, steps = [], defaultdict(list)
    for at, beyond in zip(committed, [*committed[1:], float("inf")], strict=True):
        mine = [(then, label) for then, label in reached if at < then < beyond]
        # An edit that comes before the one ahead of it is published waits with it; what ends
        # its wait is the first publication behind its own reading.
        published = next((then for then, label in mine if label == "store.publish.done"), None)
        if published is None:
            continue
        late.append((published - at) * 1000)
        last = at
        for then, label in mine:
            steps[label].append((then - last) * 1000)
            last = then
            if label == "store.publish.done":
                break
    report(
        "latency",
        [
            Line("edit to searchable, p50", round(quantile(late, 0.5), 1), "ms", 20.0),
            Line("edit to searchable, p99", round(quantile(late, 0.99), 1), "ms", 60.0),
        ],
        edits=len(committed),
        measured=len(late),
        worst_ms=round(max(late), 1),
        steps_p50_ms={label: round(quantile(each, 0.5), 2) for label, each in steps.items()},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--pause", type=float, default=0.2, help="mean seconds between edits")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as root:
        asyncio.run(measure(Path(root), wanted.edits, wanted.pause, wanted.rows))


if __name__ == "__main__":
    main()

"""A `sync` that finds nothing to do, over a folder of 10,000 files, as a user runs it.

    python -m benches.noop [--files 10000] [--repeats 5]

The first sync, with the real model, is not timed. Then `evervec sync` runs as a process of its
own, interpreter and imports included: it opens the state, compares every file with what is known,
and ends. The best of the repeats counts, since all that others do on the machine only adds to it.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benches.folder import build
from benches.report import Line, report

from evervec import App, folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as root:
        notes, state = Path(root) / "notes", Path(root) / "state.db"
        notes.mkdir()
        build(notes, wanted.files)
        begun = time.perf_counter()
        asyncio.run(first(notes, state, wanted.files))
        filled = time.perf_counter() - begun
        seconds = [noop(state) for _ in range(wanted.repeats)]
    report(
        "noop",
        [Line(f"no-op sync over {wanted.files:,} files", round(min(seconds), 2), "s", 2.0)],
        files=wanted.files,
        first_sync_seconds=round(filled, 1),
        median_seconds=round(statistics.median(seconds), 2),
    )


async def first(notes: Path, state: Path, files: int) -> None:
    app = App(state)
    collection = app.collection("notes", source=folder(notes))
    async with app:
        await collection.synced()
        counted = (await app.status())[0].documents
    if counted != files:
        raise SystemExit(f"{counted} of {files} files are searchable")


def noop(state: Path) -> float:
    begun = time.perf_counter()
    command = [sys.executable, "-m", "evervec", "sync", "--state", str(state)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()

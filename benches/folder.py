"""How fast a folder is compared with what is known of it, and how soon an edit is seen.

python -m benches.folder [files] [edits]
"""

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benches.report import Line, report

from evervec.sources.files import FolderSource
from evervec.testing.notebook import MemoryNotebook


def build(root: Path, files: int) -> None:
    for folder in range(files // 100):
        inside = root / f"{folder:04}"
        inside.mkdir()
        for n in range(100):
            (inside / f"{n:03}.md").write_text(f"# {folder} {n}\n")


def memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def drain(source: FolderSource) -> int:
    count = 0
    while captured := await source.changes(1000):
        count += len(captured.ids)
        await source.accept(captured)
    return count


async def edits(source: FolderSource, root: Path, count: int) -> list[float]:
    """Measure from the end of a write to `changes` naming the file, one edit at a time."""
    spans = []
    for n in range(count):
        path = root / f"{n % 10:04}/{n % 100:03}.md"
        path.write_text(f"edited {n}\n")
        wanted = f'"{path.relative_to(root)}"'
        began = time.perf_counter()
        while True:
            captured = await source.changes(1000)
            if captured is None:
                await source.wait(1)
                continue
            await source.accept(captured)
            if wanted in captured.ids:
                break
        spans.append((time.perf_counter() - began) * 1000)
        # Let the second look at a file that was just written go by, as between a person's edits.
        await asyncio.sleep(0.2)
        await drain(source)
    return spans


async def timed(source: FolderSource) -> tuple[int, float]:
    began = time.perf_counter()
    count = await drain(source)
    return count, round(time.perf_counter() - began, 3)


async def measure(root: Path, count: int) -> dict[str, Any]:
    notes = MemoryNotebook()
    before = memory_mb()
    source = FolderSource(root, notebook=notes)
    found, first = await timed(source)
    await source.close()

    source = FolderSource(root, notebook=notes)
    changed, nothing = await timed(source)
    await source.open()
    # The watch's start wakes us for one more walk.
    await source.wait(60)
    await drain(source)
    held = memory_mb() - before
    cpu = time.process_time()
    await asyncio.sleep(2)
    idle = (time.process_time() - cpu) / 2
    spans = sorted(await edits(source, root, count))
    await source.close()
    return {
        "files": found,
        "first_diff_s": first,
        "noop_diff_s": nothing,
        "noop_changed": changed,
        "edit_p50_ms": round(statistics.median(spans), 1),
        "edit_p99_ms": round(spans[int(len(spans) * 0.99)], 1),
        "idle_cpu": round(idle, 4),
        "memory_held_mb": round(held, 1),
        "memory_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, 1),
    }


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), files)
        found = asyncio.run(measure(Path(folder), count))
    report(
        "folder",
        [
            Line(f"first look at {files:,} files", found["first_diff_s"], "s"),
            Line(f"look at {files:,} unchanged files", found["noop_diff_s"], "s"),
            Line("edit of a file to its capture, p50", found["edit_p50_ms"], "ms"),
        ],
        **found,
    )


if __name__ == "__main__":
    main()

"""One state on one machine, end to end: what a row costs at the first and at the last of many.

    python -m benches.scale [--rows 1000000] [--searches 100] [--keep FOLDER]

Rows are two to five sentences of real prose, embedded by the static tier. A hundredth of the rows, and
then all of them, are backfilled, each in a process of its own, whose peak is the kernel's; in the large
one rows are edited meanwhile, and each edit is searched for until it is found. What follows asks the
large state what its user and its operator ask: searches, one change, `verify`, a repair after a thousand
vectors were lost, a start with nothing to do, a copy. At last, one, two and four processes work on one
new file. A million rows take about half an hour and 8 GB of disk.
"""

import argparse
import asyncio
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from benches.corpus import paragraphs
from benches.report import Line, quantile, report

from evervec import App, Collection, table
from evervec.collection import SearchMode

PARAGRAPHS = 10_000
MODEL = "static"
LOOK_SECONDS = 0.5
EDIT_SECONDS = 2.0
CHANGES = 20
LOST = 1_000
SHARED_ROWS = 20_000
MODES: tuple[SearchMode, ...] = ("dense", "lexical", "hybrid")
FILTERS: Mapping[str, Mapping[str, Any]] = {
    "all": {},
    "1 %": {"hundredth": 7},
    "30 %": {"tenth": [1, 4, 8]},
}
FLAT, MEMORY = 1.25, 1.3


class World:
    """Texts of real sentences, each row's drawn by its own number."""

    @cached_property
    def _sentences(self) -> list[str]:
        # Not read where nothing is asked of it: it would count for the memory of a backfill.
        parts = (part for text in paragraphs(PARAGRAPHS) for part in re.split(r"(?<=[.!?]) ", text))
        return [part for part in parts if 5 <= len(part.split()) <= 40]

    def text(self, number: int) -> str:
        chance = random.Random(number)
        return " ".join(chance.choices(self._sentences, k=chance.randint(2, 5)))

    def question(self, number: int) -> str:
        """Return a few words in a row of some sentence, as one asks who half remembers it."""
        chance = random.Random(-1 - number)
        words = chance.choice(self._sentences).split()
        start = chance.randint(0, max(0, len(words) - 6))
        return " ".join(words[start : start + 6])

    def rows(self, count: int) -> Iterator[tuple[int, str, int, int]]:
        return ((n, self.text(n), n % 100, n % 10) for n in range(1, count + 1))


class Place:
    """A folder with a source and the state that follows it."""

    def __init__(self, folder: Path, world: World) -> None:
        self.world = world
        self.source = folder / "source.db"
        self.state = folder / "state.db"

    def fill(self, rows: int) -> None:
        with closing(sqlite3.connect(self.source)) as file, file:
            file.execute("pragma journal_mode = wal")
            file.execute(
                "create table doc (id integer primary key, text text, hundredth int, tenth int)"
            )
            file.executemany("insert into doc values (?, ?, ?, ?)", self.world.rows(rows))

    def app(self) -> tuple[App, Collection]:
        app = App(self.state, model=MODEL)
        metadata = ("hundredth", "tenth")
        spec = table(self.source, "doc")
        return app, app.collection("doc", source=spec, text="{text}", metadata=metadata)

    def write(self, statement: str, *values: object) -> float:
        """Commit one change as any other program does; return when."""
        with closing(sqlite3.connect(self.source, timeout=60)) as file, file:
            file.execute(statement, values)
        return time.perf_counter()

    def bytes_by_file(self) -> dict[str, int]:
        """Return what each file takes on the disk: an index's are longer than what is in them."""
        files = [*self.state.parent.glob(f"{self.state.name}*"), *self.index.glob("*")]
        return {file.name: file.stat().st_blocks * 512 for file in files if file.is_file()}

    @property
    def index(self) -> Path:
        return Path(f"{self.state}-index")


async def until(found: Callable[[], Awaitable[bool]], *, pause: float = 0.002) -> None:
    while not await found():  # noqa: ASYNC110 - what is waited for is what a search answers
        await asyncio.sleep(pause)


async def edited(place: Place, doc: Collection, number: int) -> float:
    """Edit a row and search for what is new in it until it is found; return the seconds."""
    word = f"evergreen{number}{time.monotonic_ns()}"
    began = place.write("update doc set text = ? || ' ' || text where id = ?", word, number)

    async def found() -> bool:
        return any(word in hit.text for hit in await doc.search(word, k=10, mode="lexical"))

    await until(found)
    return time.perf_counter() - began


async def deleted(place: Place, doc: Collection, number: int) -> float:
    """Delete a row and search for its like until it is found no more; return the seconds."""
    text = place.world.text(number)
    began = place.write("delete from doc where id = ?", number)

    async def gone() -> bool:
        return number not in {hit.id for hit in await doc.search(text, k=10, mode="dense")}

    await until(gone)
    return time.perf_counter() - began


async def backfill(place: Place, rows: int, *, edits: bool) -> dict[str, Any]:
    """Bring a new state in sync; tell its rate at each tenth, its peak, and what edits waited."""
    app, doc = place.app()
    seen: list[tuple[float, float, int]] = [(0.0, 0.0, 0)]
    waited: list[float] = []
    wal = 0
    began, worked = time.perf_counter(), time.process_time()

    def note(stored: int) -> None:
        if stored > seen[-1][2]:
            seen.append((time.perf_counter() - began, time.process_time() - worked, stored))

    async def look() -> None:
        nonlocal wal
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            stored = (await app.state.store.counts(doc.scope)).documents
            note(stored)
            wal = max(wal, Path(f"{place.state}-wal").stat().st_size)

    async def edit() -> None:
        while edits:
            await asyncio.sleep(EDIT_SECONDS)
            waited.append(await edited(place, doc, 1 + len(waited) % rows))

    async with app:
        tasks = [asyncio.create_task(look()), asyncio.create_task(edit())]
        await doc.synced()
        seconds = time.perf_counter() - began
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
        stored = (await app.state.store.counts(doc.scope)).documents
    if stored != rows:
        raise SystemExit(f"{stored} of {rows} rows are searchable")
    note(rows)
    whens, works, counts = zip(*seen, strict=True)
    tenths = np.linspace(0, rows, 11)
    at, spent = np.interp(tenths, counts, whens), np.interp(tenths, counts, works)
    return {
        "rows": rows,
        "seconds": round(seconds, 1),
        "rows_per_s": round(rows / seconds),
        "rows_per_s_by_tenth": [round(rows / 10 / took) for took in np.diff(at)],
        # Of this process: what else runs on the machine does not count.
        "processor_us_a_row_by_tenth": [round(1e7 * took / rows) for took in np.diff(spent)],
        "peak_mb": megabytes("VmHWM"),
        "wal_peak_mb": round(wal / 1e6, 1),
        "edits": told(waited),
    }


def told(seconds: Sequence[float]) -> dict[str, float]:
    if not seconds:
        return {"count": 0}
    return {
        "count": len(seconds),
        "p50_ms": round(quantile(seconds, 0.5) * 1000, 2),
        "p99_ms": round(quantile(seconds, 0.99) * 1000, 2),
        "worst_ms": round(max(seconds) * 1000, 2),
    }


def megabytes(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    return round(int(found[1]) / 1000, 1) if found else 0.0


async def searched(place: Place, doc: Collection, count: int) -> dict[str, Any]:
    """Search in each mode without and with filters; the first search of each filter is told apart."""
    found: dict[str, Any] = {}
    for name, where in FILTERS.items():
        for mode in MODES:
            spent = []
            for number in range(-1, count):
                question = place.world.question(number)
                began = time.perf_counter()
                await doc.search(question, k=10, mode=mode, where=where)
                spent.append(time.perf_counter() - began)
            first, *rest = spent
            found[f"{mode}, {name}"] = {"first_ms": round(first * 1000, 2), **told(rest)}
            say(f"{mode}, {name}: {found[f'{mode}, {name}']}")
    return found


async def verified(doc: Collection) -> float:
    began = time.perf_counter()
    report_ = await doc.verify()
    if report_.drift:
        raise SystemExit(f"the state is not in sync: {report_}")
    return round(time.perf_counter() - began, 1)


def command(place: Place, *words: str) -> float:
    """Run one command on the state as a user does; return its seconds."""
    environment = {**os.environ, "EVERVEC_MODEL": MODEL, "EVERVEC_STATE": str(place.state)}
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "evervec", *words],
        check=True, env=environment, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return round(time.perf_counter() - began, 2)


async def operated(place: Place, rows: int, searches: int) -> dict[str, Any]:
    """Ask the whole state what its user and its operator ask."""
    found: dict[str, Any] = {
        "status_s": min(command(place, "status", "--json") for _ in range(3)),
        "sync_with_nothing_to_do_s": min(command(place, "sync", "--quiet") for _ in range(3)),
    }
    say(found)
    app, doc = place.app()
    async with app:
        began = time.perf_counter()
        await doc.synced()
        await doc.search(place.world.question(-2), k=10, mode="dense")
        found["first_search_s"] = round(time.perf_counter() - began, 2)
        # The codes of a large collection are made by its first searches, some at each.
        for number in range(rows // 65_536 + 1):
            await doc.search(place.world.question(number), k=10, mode="dense")
        found["index_s"] = round(time.perf_counter() - began, 2)
        found["searches"] = await searched(place, doc, searches)
        found["own_memory_mb"] = megabytes("RssAnon")
        numbers = random.Random(1).sample(range(1, rows + 1), min(2 * CHANGES, rows))
        some, others = numbers[::2], numbers[1::2]
        found["update"] = told([await edited(place, doc, one) for one in some])
        found["delete"] = told([await deleted(place, doc, one) for one in others])
        say(found)
        found["verify_s"] = await verified(doc)
        say(found)
    return found


async def repaired(place: Place) -> dict[str, float]:
    """Lose vectors behind the state's back, and bring them back."""
    with closing(sqlite3.connect(place.state)) as file, file:
        count = file.execute("select count(*) from store_vector").fetchone()[0]
        lost = min(LOST, count // 10)
        step = count // lost
        lost = file.execute(
            "delete from store_vector where number % ? = 0 and number <= ? * ?", (step, step, lost)
        ).rowcount
    app, doc = place.app()
    async with app:
        await doc.synced()
        began = time.perf_counter()
        # Documents may share a text that is lost, so they may be more.
        repair = await doc.repair(limit=2 * LOST)
        looked = time.perf_counter()
        await doc.synced()
        ended = time.perf_counter()
        await verified(doc)
    return {
        "lost": lost,
        "queued": repair.queued,
        "finding_s": round(looked - began, 1),
        "embedding_s": round(ended - looked, 1),
    }


def kept(place: Place) -> dict[str, Any]:
    """Return what the parts of the state take, and what an operator's copy and check of it take."""
    import apsw

    found: dict[str, Any] = {"files": place.bytes_by_file()}
    copy = place.state.with_suffix(".copy")
    with closing(apsw.Connection(str(place.state))) as file:
        began = time.perf_counter()
        file.execute("vacuum into ?", (str(copy),))
        found["vacuum_into_s"] = round(time.perf_counter() - began, 1)
        began = time.perf_counter()
        file.execute("pragma quick_check").fetchall()
        found["quick_check_s"] = round(time.perf_counter() - began, 1)
        began = time.perf_counter()
        found["tables"] = dict(
            file.execute(
                "select name, pgsize from dbstat where aggregate = true order by pgsize desc"
            )
        )
        found["sizes_s"] = round(time.perf_counter() - began, 1)
    copy.unlink()
    return found


async def shared(folder: Path, world: World, rows: int) -> dict[str, int]:
    """Let several processes work on one new file; return the rows a second of all of them."""
    found = {}
    for processes in (1, 2, 4):
        place = Place(folder / f"shared-{processes}", world)
        place.state.parent.mkdir()
        place.fill(rows)
        app, _ = place.app()
        await app.open()
        await app.close()
        began = time.perf_counter()
        running = [child("--serve", place.state.parent) for _ in range(processes)]
        for each in running:
            if each.wait():
                raise SystemExit("a process that shared a state broke")
        found[str(processes)] = round(rows / (time.perf_counter() - began))
    return found


async def serve(place: Place) -> None:
    app, doc = place.app()
    async with app:
        await doc.synced()


def child(*arguments: object) -> "subprocess.Popen[str]":
    line = [sys.executable, "-m", "benches.scale", *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


def in_a_process(place: Place, rows: int, *, edits: bool) -> dict[str, Any]:
    began = time.perf_counter()
    place.state.parent.mkdir(parents=True, exist_ok=True)
    place.fill(rows)
    say(f"{rows:,} rows written in {time.perf_counter() - began:.0f} s")
    with child("--backfill", place.state.parent, "--rows", rows, *["--edits"] * edits) as running:
        answer = running.communicate()[0]
    if running.returncode:
        raise SystemExit(f"the backfill of {rows:,} rows broke")
    found: dict[str, Any] = json.loads(answer)
    say(found)
    return found


def say(what: object) -> None:
    # It takes long; whoever waits may see how far it is.
    print(f"scale: {what}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--searches", type=int, default=100, help="of each kind")
    parser.add_argument("--keep", type=Path, help="a new folder for the files, which then stay")
    parser.add_argument("--backfill", type=Path, help="for itself: backfill there and tell")
    parser.add_argument("--edits", action="store_true", help="for itself: edit rows meanwhile")
    parser.add_argument("--serve", type=Path, help="for itself: serve what is there until in sync")
    wanted = parser.parse_args()
    if wanted.backfill:
        found = backfill(Place(wanted.backfill, World()), wanted.rows, edits=wanted.edits)
        print(json.dumps(asyncio.run(found)))
    elif wanted.serve:
        asyncio.run(serve(Place(wanted.serve, World())))
    elif wanted.keep:
        wanted.keep.mkdir(parents=True)
        measure(wanted.keep, wanted.rows, wanted.searches)
    else:
        with tempfile.TemporaryDirectory(prefix="evervec-bench-") as folder:
            measure(Path(folder), wanted.rows, wanted.searches)


def measure(root: Path, rows: int, searches: int) -> None:
    world = World()
    small = in_a_process(Place(root / "small", world), max(10, rows // 100), edits=False)
    place = Place(root / "large", world)
    large = in_a_process(place, rows, edits=True)
    found: dict[str, Any] = {"small": small, "large": large}
    found["state"] = asyncio.run(operated(place, rows, searches))
    found["store"] = kept(place)
    say(found["store"])
    found["repair"] = asyncio.run(repaired(place))
    say(found["repair"])
    found["rows_per_s_of_processes"] = asyncio.run(shared(root, world, min(rows, SHARED_ROWS)))
    tell(rows, found)


def tell(rows: int, found: Mapping[str, Any]) -> None:
    small, large, store = found["small"], found["large"], found["store"]
    tenths, searches = large["processor_us_a_row_by_tenth"], found["state"]["searches"]
    files = store["files"].values()
    many = f"{rows:,} rows"
    lines = [
        # The first tenth also starts everything.
        Line(f"{many}: processor time of a row, last tenth ÷ second", round(tenths[-1] / max(1, tenths[1]), 2), "", FLAT),
        Line(f"{many}: rows a second", large["rows_per_s"], "/s"),
        Line(f"{many}: peak memory ÷ that of a hundredth", round(large["peak_mb"] / small["peak_mb"], 2), "", MEMORY),
        Line(f"{many}: peak memory of the backfill", large["peak_mb"], "MB"),
        Line(f"{many}: an edit during the backfill, p50", large["edits"].get("p50_ms", 0.0), "ms"),
        Line(f"{many}: state and index on the disk, a row", round(sum(files) / rows), "bytes"),
        *(
            Line(f"{many}: {mode} search, p50", searches[f"{mode}, all"]["p50_ms"], "ms")
            for mode in MODES
        ),
        Line(f"{many}: an update until it is found, p50", found["state"]["update"]["p50_ms"], "ms"),
        Line(f"{many}: a delete until it is gone, p50", found["state"]["delete"]["p50_ms"], "ms"),
        Line(f"{many}: verify", found["state"]["verify_s"], "s"),
        Line(f"{many}: status, from the shell", found["state"]["status_s"], "s"),
        Line(f"{many}: sync with nothing to do, from the shell", found["state"]["sync_with_nothing_to_do_s"], "s"),
    ]  # fmt: skip
    report("scale", lines, **found)


if __name__ == "__main__":
    main()

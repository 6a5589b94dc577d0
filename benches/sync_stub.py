"""A backfill against its floor, and what each kind of change asks of the model.

    python -m benches.sync_stub [--documents 200] [--paragraphs 20] [--milliseconds 50]

The model is a stub of 50 ms a request, at most 128 texts each, first with 8 requests under way at
most and then with one, which cannot be faster than its requests one after the other. In every scenario the texts
that the model embedded are counted and compared with those that were necessary: new texts that it
had not seen in this state, each once.
"""

import argparse
import asyncio
import json
import math
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benches.report import Line, report
from benches.stub import POISON, Stub

from evervec import App, ChunkRecipe, folder, table
from evervec.collection import Collection
from evervec.errors import Unavailable
from evervec.model import Mode, State, encode_id

WORDS = 24
BATCH = 128
RECIPE = ChunkRecipe(tokens_max=32)
"""One paragraph of 24 words is one chunk: two do not fit."""
LOSE = """
import sqlite3, sys
path, count = sys.argv[1:]
with sqlite3.connect(path, timeout=30) as file:
    file.execute(
        "delete from store_vector where number in (select number from store_vector"
        " join store_chunk on store_chunk.vector = number order by chunk % 8, chunk limit ?)",
        (int(count),),
    )
file.close()
"""


@dataclass(frozen=True, slots=True)
class Size:
    documents: int
    paragraphs: int
    seconds: float

    @property
    def chunks(self) -> int:
        return self.documents * self.paragraphs

    def floor(self, concurrency: int) -> float:
        requests = math.ceil(self.chunks / BATCH)
        return math.ceil(requests / concurrency) * self.seconds

    @property
    def shared(self) -> float:
        """What 8 requests in flight took at least when other tools were measured with this stub.

        2.0 s for 4,000 texts: it was a server on the same two processors. Requests that only
        wait would take 0.2 s, in which no store on this machine writes 4,000 chunks.
        """
        return self.chunks / 2000 * self.seconds / 0.05


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a scenario asked of the model."""

    embedded: int
    necessary: int
    seconds: float
    also: dict[str, float]

    @property
    def amplification(self) -> float:
        if not self.necessary:
            return 1.0 if not self.embedded else math.inf
        return self.embedded / self.necessary


class Bench:
    """One state, one table, one folder, one stub: scenarios act on them one after the other."""

    def __init__(self, root: Path, size: Size, *, concurrency: int = 8) -> None:
        self.root = root
        self.size = size
        self.concurrency = concurrency
        self.stub = Stub(seconds=size.seconds, concurrency=concurrency, texts=BATCH)
        self.random = random.Random(7)
        self.source = root / "source.db"
        self.notes = root / "notes"

    def fill(self) -> None:
        with closing(sqlite3.connect(self.source)) as file, file:
            file.execute("create table doc (id integer primary key, text text, views integer)")
            for number in range(1, self.size.documents + 1):
                text = "\n\n".join(self.paragraph() for _ in range(self.size.paragraphs))
                file.execute("insert into doc values (?, ?, 0)", (number, text))

    def paragraph(self) -> str:
        return " ".join(f"w{self.random.getrandbits(40):x}" for _ in range(WORDS - 1)) + " end."

    def app(self) -> tuple[App, Collection]:
        app = App(self.root / "state.db", model=self.stub)
        spec = table(self.source, "doc")
        return app, app.collection("doc", source=spec, text="{text}", chunk=RECIPE)

    def write(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.source)) as file, file:
            file.execute(statement, values)

    def edit(self, number: int, *, word: str = "") -> None:
        """Write one new paragraph in place of an old one."""
        with closing(sqlite3.connect(self.source)) as file, file:
            (text,) = file.execute("select text from doc where id = ?", (number,)).fetchone()
            parts = text.split("\n\n")
            parts[len(parts) // 2] = f"{word or 'edited'} {self.paragraph()}"
            file.execute("update doc set text = ? where id = ?", ("\n\n".join(parts), number))

    async def counted(
        self, act: Callable[[], Awaitable[None]], necessary: int, **also: float
    ) -> Outcome:
        before, begun = self.stub.answered.total(), time.perf_counter()
        await act()
        seconds = round(time.perf_counter() - begun, 3)
        return Outcome(self.stub.answered.total() - before, necessary, seconds, also)


async def backfill(bench: Bench) -> Outcome:
    async def act() -> None:
        app, doc = bench.app()
        async with app:
            await doc.synced()

    bench.fill()
    return await bench.counted(act, bench.size.chunks)


async def table_scenarios(bench: Bench) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    app, doc = bench.app()
    async with app:
        await doc.synced()

        async def nothing() -> None:
            await app.engine.captures[0].rescan()
            await doc.synced()

        async def edit() -> None:
            bench.edit(1)
            await doc.synced()

        async def unrelated() -> None:
            bench.write("update doc set views = views + 1")
            await doc.synced()

        async def ten_times() -> None:
            await app.state.queue.set_mode(Mode.PAUSED)
            for _ in range(10):
                bench.edit(2)
            await app.state.queue.set_mode(Mode.RUNNING)
            await doc.synced()

        found["look at every row again"] = await bench.counted(nothing, 0)
        found["edit 1 paragraph"] = await bench.counted(edit, 1)
        found["an unrelated column of all rows"] = await bench.counted(unrelated, 0)
        found["10 updates of one row before the worker wakes"] = await bench.counted(ten_times, 1)
        found["1 poison among 10 updated"] = await poison(bench, app, doc)
        found["429 to all, then recovery"] = await outage(bench, app, doc)
        found["vectors lost from the store"] = await lost(bench, doc)
    return found


async def poison(bench: Bench, app: App, doc: Collection) -> Outcome:
    async def act() -> None:
        for number in range(1, 11):
            bench.edit(number, word=POISON if number == 5 else "")
        await doc.synced()

    asked = bench.stub.asked
    done = await bench.counted(act, 9)
    failed = await app.state.queue.jobs(states=(State.FAILED,))
    also: dict[str, float] = {"asked": bench.stub.asked - asked, "failed_documents": len(failed)}
    bench.edit(5)
    await doc.synced()
    return Outcome(done.embedded, done.necessary, done.seconds, also)


async def outage(bench: Bench, app: App, doc: Collection) -> Outcome:
    recovery = 0.0

    async def act() -> None:
        nonlocal recovery
        bench.stub.down = Unavailable("429", after=0.2)
        for number in range(1, 11):
            bench.edit(number)
        waiting = asyncio.create_task(doc.synced())
        await bench.stub.refused.wait()
        bench.stub.down = None
        begun = time.perf_counter()
        await waiting
        recovery = time.perf_counter() - begun

    done = await bench.counted(act, 10)
    failed = len(await app.state.queue.jobs(states=(State.FAILED,)))
    also = {"recovery_seconds": round(recovery, 3), "failed_documents": failed}
    return Outcome(done.embedded, done.necessary, done.seconds, also)


async def lost(bench: Bench, doc: Collection) -> Outcome:
    gone = bench.size.chunks // 8

    async def act() -> None:
        # From a process of its own: closing a file takes the locks from every other copy of SQLite
        # in the process, and the app here would read a shared memory that is cut short under it.
        await _python(LOSE, str(bench.root / "state.db"), str(gone))
        while (await doc.repair(limit=1000)).queued:
            await doc.synced()
        drift = await doc.verify()
        if drift.missing or drift.stale or drift.orphaned:
            raise SystemExit(f"the repair left drift: {drift}")

    return await bench.counted(act, gone)


async def _python(code: str, *arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, *arguments)
    if await process.wait():
        raise SystemExit("the program beside the bench broke off")


async def folder_scenarios(bench: Bench) -> dict[str, Outcome]:
    bench.notes.mkdir()
    for number in range(20):
        parts = [bench.paragraph() for _ in range(bench.size.paragraphs)]
        (bench.notes / f"{number}.txt").write_text("\n\n".join(parts))
    found: dict[str, Outcome] = {}
    app = App(bench.root / "state.db", model=bench.stub)
    notes = app.collection("notes", source=folder(bench.notes), chunk=RECIPE)
    async with app:

        async def arrived(count: int, name: str) -> None:
            for _ in range(2000):
                await notes.synced()
                stored = await app.state.store.documents(notes.scope, None, 100)
                if len(stored) == count and encode_id(name) in {id_ for id_, _ in stored}:
                    return
                await asyncio.sleep(0.005)
            raise SystemExit(f"{name} did not arrive")

        async def rename() -> None:
            (bench.notes / "0.txt").rename(bench.notes / "renamed.txt")
            await arrived(20, "renamed.txt")

        async def copy() -> None:
            (bench.notes / "copy.txt").write_bytes((bench.notes / "1.txt").read_bytes())
            await arrived(21, "copy.txt")

        found["a folder of 20 files"] = await bench.counted(
            notes.synced, 20 * bench.size.paragraphs
        )
        found["rename a file"] = await bench.counted(rename, 0)
        found["an identical copy"] = await bench.counted(copy, 0)
    return found


async def killed(bench: Bench) -> Outcome:
    """Kill the process half way; what its state holds by then must not be embedded again."""
    bench.fill()
    sizes = bench.size
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benches.sync_stub", "--backfill", str(bench.root)),
        *("--documents", str(sizes.documents), "--paragraphs", str(sizes.paragraphs)),
        *("--milliseconds", str(sizes.seconds * 1000)),
    )
    while _kept(bench) < sizes.chunks // 2:
        if worker.returncode is not None:
            raise SystemExit("the backfill ended before it was killed")
        await asyncio.sleep(0.001)
    os.kill(worker.pid, signal.SIGKILL)
    await worker.wait()
    kept = _kept(bench)

    async def act() -> None:
        app, doc = bench.app()
        async with app:
            await doc.synced()
            drift = await doc.verify()
            if drift.missing or drift.stale or drift.orphaned:
                raise SystemExit(f"the kill left drift: {drift}")

    return await bench.counted(act, sizes.chunks - kept, kept_before_the_kill=kept)


def _kept(bench: Bench) -> int:
    path = bench.root / "state.db"
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as file:
        try:
            return int(file.execute("select count(*) from store_vector").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


async def measure(root: Path, size: Size) -> None:
    parts = [root / name for name in ("concurrent", "sequential", "killed", "straddling")]
    for each in parts:
        each.mkdir()
    main_bench = Bench(parts[0], size)
    fast = await backfill(main_bench)
    found = {"backfill, 8 in flight": fast}
    found |= await table_scenarios(main_bench)
    found |= await folder_scenarios(main_bench)
    one = await backfill(Bench(parts[1], size, concurrency=1))
    found["backfill, one by one"] = one
    found["kill -9 half way"] = await killed(Bench(parts[2], size))
    # 19 paragraphs a document: with 128 a request hardly any document ends with one.
    odd = Bench(parts[3], Size(size.documents, max(1, size.paragraphs - 1), size.seconds))
    found["chunks straddle requests"] = await backfill(odd)
    found |= {f"{name}, straddling": each for name, each in (await noop(odd)).items()}
    present(size, found, fast, one)


async def noop(bench: Bench) -> dict[str, Outcome]:
    app, doc = bench.app()
    async with app:

        async def act() -> None:
            await app.engine.captures[0].rescan()
            await doc.synced()

        return {"look at every row again": await bench.counted(act, 0)}


def present(size: Size, found: dict[str, Outcome], fast: Outcome, one: Outcome) -> None:
    worst = max(each.amplification for each in found.values())
    least = min(each.amplification for each in found.values())
    report(
        "sync_stub",
        [
            Line("backfill ÷ its floor, one by one", _ratio(one, size.floor(1)), "", 1.2),
            Line(
                "backfill ÷ the floor others had, 8 in flight", _ratio(fast, size.shared), "", 1.2
            ),
            Line("chunks a second, 8 in flight", round(size.chunks / fast.seconds), "/s"),
            Line("texts embedded ÷ necessary, the worst scenario", round(worst, 4), "", 1.0),
            Line(
                "texts embedded ÷ necessary, the least scenario",
                round(least, 4),
                "",
                1.0,
                "at least",
            ),
        ],
        chunks=size.chunks,
        floor_seconds={
            "one by one": size.floor(1),
            "8 in flight": size.floor(8),
            "8 in flight, as others had it": size.shared,
        },
        scenarios={
            name: {
                "embedded": each.embedded,
                "necessary": each.necessary,
                "amplification": round(each.amplification, 4),
                "seconds": each.seconds,
                **each.also,
            }
            for name, each in found.items()
        },
    )


def _ratio(outcome: Outcome, floor: float) -> float:
    return round(outcome.seconds / floor, 3) if floor else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--paragraphs", type=int, default=20)
    parser.add_argument("--milliseconds", type=float, default=50.0)
    parser.add_argument("--backfill", type=Path, help="for itself: be the process that is killed")
    wanted = parser.parse_args()
    size = Size(wanted.documents, wanted.paragraphs, wanted.milliseconds / 1000)
    if wanted.backfill:
        asyncio.run(_forever(Bench(wanted.backfill, size)))
        return
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as root:
        asyncio.run(measure(Path(root), size))


async def _forever(bench: Bench) -> None:
    app, doc = bench.app()
    async with app:
        await doc.synced()
    print(json.dumps("ended"), file=sys.stderr)


if __name__ == "__main__":
    main()

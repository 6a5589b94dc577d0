"""Rows of a table to searchable vectors with the real model, against the bare model's own rate.

    python -m benches.sync_real [--texts 10000]

Both embed the same texts, each in a process of its own, and take turns: one is frozen while the
other runs for half a second. So whatever else the machine does falls on both, and neither keeps a
core from the other: their turns at the processors are their own, since the bare model waits for no
other program of ours either. Compiling the model is start-up and counts for neither.

The first line compares texts, as a user counts them, and is the target. It counts a little less than
is done: the bare model reads the first 256 tokens of a long text and leaves out the rest, while a
collection embeds all of it, in parts. The line in tokens counts what each of the two embedded.
"""

import argparse
import asyncio
import os
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path

from benches.corpus import paragraphs
from benches.model import Bare
from benches.report import Line, report

from evervec import App, table
from evervec.embedders.local import LocalEmbedder
from evervec.ports import Kind, Vectors

TURN_SECONDS = 0.5
PARTS = ("bare", "sync")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--part", choices=PARTS, help="for itself")
    wanted = parser.parse_args()
    if wanted.part:
        run(wanted.part, paragraphs(wanted.texts))
        return
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as turns:
        racers = [Racer(name, wanted.texts, turns) for name in PARTS]
        bare, ours = in_turns(racers)
    bare_tokens, tokens = (racer.tokens for racer in racers)
    report(
        "sync_real",
        [
            Line(
                "rows to searchable vectors ÷ the bare model",
                round(bare / ours, 3),
                "",
                0.93,
                "at least",
            ),
            Line("searchable paragraphs a second", round(wanted.texts / ours, 1), "/s"),
            Line(
                "embedded tokens a second ÷ the bare model's",
                round(tokens / ours / (bare_tokens / bare), 3),
            ),
        ],
        texts=wanted.texts,
        seconds=round(ours, 2),
        bare_seconds=round(bare, 2),
        bare_per_s=round(wanted.texts / bare, 1),
        tokens=tokens,
        bare_tokens=bare_tokens,
    )


class Racer:
    """One of the two processes: ready to go, and frozen."""

    def __init__(self, part: str, texts: int, turns: str) -> None:
        command = [sys.executable, "-m", "benches.sync_real", "--part", part, "--texts", str(texts)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "XDG_RUNTIME_DIR": turns},
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise SystemExit("no pipes to the other process")
        self._out = self._process.stdout
        self.seconds = 0.0
        self.tokens = 0
        if self._said() != "ready":
            raise SystemExit(f"the {part} part did not get ready")
        self._process.send_signal(signal.SIGSTOP)
        self._process.stdin.write(b"go\n")
        self._process.stdin.flush()

    def turn(self) -> bool:
        """Run for a turn; return whether there is more to do."""
        began = time.perf_counter()
        self._process.send_signal(signal.SIGCONT)
        ended, _, _ = select.select([self._out], [], [], TURN_SECONDS)
        self.seconds += time.perf_counter() - began
        if not ended:
            self._process.send_signal(signal.SIGSTOP)
            return True
        done, tokens = self._said(), self._said()
        if done != "done" or self._process.wait():
            raise SystemExit("one of the two did not come to its end")
        self.tokens = int(tokens)
        return False

    def _said(self) -> str:
        return self._out.readline().decode().strip()


def in_turns(racers: list[Racer]) -> list[float]:
    running = list(racers)
    for racer in cycle(racers):
        if racer in running and not racer.turn():
            running.remove(racer)
        if not running:
            break
    return [racer.seconds for racer in racers]


def run(part: str, texts: tuple[str, ...]) -> None:
    if part == "bare":
        bare = Bare()
        go()
        tokens, _ = bare.embed(texts)
        print("done", flush=True)
        print(tokens, flush=True)
    else:
        asyncio.run(sync(texts))


def go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


class Noting(LocalEmbedder):
    """The model, with all that it was asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        self.asked.extend(texts)
        return await super().embed(texts, kind=kind)


async def sync(texts: tuple[str, ...]) -> None:
    model = Noting()
    await model.embed(texts[:64], kind="document")
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as folder:
        path = Path(folder) / "source.db"
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("create table paragraph (id integer primary key, text text)")
            file.executemany("insert into paragraph (text) values (?)", ((each,) for each in texts))
        app = App(Path(folder) / "state.db", model=model)
        paragraph = app.collection("bench", source=table(path, "paragraph"), text="{text}")
        model.asked.clear()
        go()
        async with app:
            await paragraph.synced()
            print("done", flush=True)
            print(sum(model.count_tokens(model.asked)), flush=True)
            hits = await paragraph.search(texts[-1], k=1, mode="dense")
            if hits[0].id != len(texts):
                raise SystemExit("the last row is not found by its own text")
    await model.close()


if __name__ == "__main__":
    main()

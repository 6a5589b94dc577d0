"""One short history: a writer, workers that are killed, a quiesce, and a check of everything.

Short, because a long one heals what it broke: the next write of the same row covers a lost one.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tests.crash.child import TEMPLATE, Order

PATIENCE_SECONDS = 90.0
"""A busy machine was seen to stand still for 45 seconds in the middle of a write."""


def until(what: str, true: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS) -> None:
    """Return when *true*; fail, saying *what* was waited for, if it does not become so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
        time.sleep(0.003)


def until_passed(seconds: float) -> None:
    """Let the world go on for a while; what is left to chance is when it ends."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        time.sleep(left)


class Server:
    """The fork server's client."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(PATIENCE_SECONDS)
        assert self._process.stdout
        self._process.stdout.close()

    def ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@dataclass
class Child:
    """A forked process, from outside."""

    server: Server
    order: Order
    pid: int
    code: int | None = None

    def ended(self) -> bool:
        if self.code is None:
            self.code = self.server.ask({"ended": self.pid})
        return self.code is not None

    def signal(self, which: signal.Signals) -> None:
        if not self.ended():
            os.kill(self.pid, which)

    def until_ended(self) -> int:
        until(f"the end of process {self.pid} ({self.order.role})", self.ended)
        assert self.code is not None
        return self.code

    def said(self) -> str:
        log = Path(f"{self.order.report}.log")
        return log.read_text("utf-8") if log.exists() else ""


@dataclass
class History:
    """A state, a source, a ledger, and whoever works on them."""

    server: Server
    folder: Path
    kind: str = "table"
    seed: int = 0
    shared: bool = True
    queue: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)
    kills: int = 0
    allowed: Counter[str] = field(default_factory=Counter)
    """Texts that were in flight at a kill: each may be asked once more for each time here."""
    frozen: set[int] = field(default_factory=set)
    """Processes that slept longer than their lease. Awake, they may ask for what the lost leases
    held, once more each, before they notice."""
    _children: list[Child] = field(default_factory=list)
    _writer: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = self.folder / "evervec.db"
        self.queue_path = self.folder / "queue.db"
        self.ledger = self.folder / "ledger.jsonl"
        self.place = self.folder / ("shop.db" if self.kind == "table" else "notes")
        if self.kind == "folder":
            self.place.mkdir()
            return
        with closing(sqlite3.connect(self.place)) as shop:
            shop.execute(f"pragma journal_mode = {('wal', 'delete')[self.seed % 2]}")
            shop.execute(
                "create table article"
                "(id integer primary key, title text, body text, views integer default 0, vector blob)"
            )
            rows = [(n, f"first {n} {self.seed}", "as it was before") for n in range(0, 40, 3)]
            shop.executemany("insert into article (id, title, body) values (?, ?, ?)", rows)
            shop.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind, whatever went wrong."""
        self.stop_writer()
        for child in self._children:
            if not child.ended():
                child.signal(signal.SIGKILL)
                child.until_ended()

    def write(self) -> None:
        writer = Path(__file__).with_name("writer.py")
        told = [self.kind, str(self.place), str(self.seed), str(int(self.shared))]
        self._writer = subprocess.Popen([sys.executable, "-S", str(writer), *told])

    def stop_writer(self) -> None:
        if self._writer is not None:
            self._writer.send_signal(signal.SIGTERM)
            code = self._writer.wait(PATIENCE_SECONDS)
            # Ended before its handler stood, or by it: a writer is never refused.
            assert code in (0, -signal.SIGTERM), f"the writer ended with {code}"
            self._writer = None

    def start(self, role: str = "work", **settings: Any) -> Child:
        order = Order(
            role,
            str(self.state),
            self.kind,
            str(self.place),
            str(self.ledger),
            str(self.folder / f"{role}{len(self._children)}"),
            str(self.queue_path) if self.queue else "",
        )
        order = replace(order, **{**self.defaults, **settings})
        child = Child(self.server, order, self.server.ask(asdict(order)))
        self._children.append(child)
        return child

    def until_up(self, child: Child) -> None:
        until("a worker that serves", lambda: Path(child.order.report).exists() or child.ended())

    def until_asked(self, more: int) -> None:
        """Wait until the model was asked *more* times than now, or a while if nothing changes."""
        wanted = len(self.lines()) + more
        deadline = time.monotonic() + 2
        until(
            "requests to the model",
            lambda: len(self.lines()) >= wanted or time.monotonic() > deadline,
        )

    def lines(self) -> list[dict[str, Any]]:
        if not self.ledger.exists():
            return []
        return [json.loads(line) for line in self.ledger.read_text("utf-8").splitlines()]

    def kill(self, child: Child) -> None:
        child.signal(signal.SIGKILL)
        child.until_ended()
        self.killed(child)

    def killed(self, child: Child) -> None:
        """Count a death from outside, and what it may cost at most: the requests in flight.

        One for each place at the model, and one that is sent while an answer is kept.
        """
        if child.code == -signal.SIGKILL:
            self.kills += 1
            self.lost_in_flight(child)

    def lost_in_flight(self, child: Child) -> None:
        mine = [line["texts"] for line in self.lines() if line["pid"] == child.pid]
        for texts in mine[-1 - child.order.concurrency :]:
            self.allowed.update(texts)

    def stop(self, child: Child) -> None:
        """Tell a worker to stop: it hands back what it holds and ends by itself."""
        child.signal(signal.SIGTERM)
        code = child.until_ended()
        assert code == 0, f"a worker that was told to stop ended with {code}\n{child.said()}"

    def settle(self) -> dict[str, int]:
        """Let a clean process bring everything in sync, and return its `verify`."""
        self.stop_writer()
        child = self.start("settle")
        code = child.until_ended()
        assert code == 0, child.said()
        report: dict[str, int] = json.loads(Path(child.order.report).read_text("utf-8"))
        return report

    def said(self) -> str:
        return "\n".join(child.said() for child in self._children)

    def texts(self) -> dict[str, str]:
        """Return the newest committed text of each document, by id."""
        if self.kind == "folder":
            return {
                json.dumps(file.name): file.read_text("utf-8") for file in self.place.glob("*.txt")
            }
        with closing(sqlite3.connect(self.place)) as shop:
            rows = shop.execute("select id, title, body from article").fetchall()
        return {str(id_): TEMPLATE.format(title=title, body=body) for id_, title, body in rows}

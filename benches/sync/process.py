"""The processes of the bench: the model's, and each tool's with what it keeps in memory."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Self

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0
"""Seconds a tool may take for one verb."""


class CannotError(Exception):
    """The tool has no such thing."""


class FailedError(Exception):
    """The tool ended a verb with an error of its own."""


class GoneError(Exception):
    """The tool's process ended, or had to be ended."""


class Stub:
    """The counting model in a process of its own."""

    def __init__(self, milliseconds: float) -> None:
        command = [sys.executable, "-m", "benches.sync.stub", "--milliseconds", str(milliseconds)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def counts(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/counts", timeout=10) as answer:
            found: dict[str, int] = json.load(answer)
        return found

    def mood(self, mood: Literal["fine", "limited", "down"]) -> None:
        body = json.dumps({"mood": mood}).encode()
        urllib.request.urlopen(f"{self.url}/mood", body, timeout=10).close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Peer:
    """A tool's process. It leads a group of its own, so that a kill takes all of it."""

    def __init__(
        self, python: Path, module: str, root: Path, url: str, arguments: tuple[str, ...]
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        # A server may run as another user.
        root.chmod(0o755)
        self._log = (root / "log").open("ab")
        self._process = subprocess.Popen(
            [python, "-m", f"benches.sync.adapters.{module}", root, url, *arguments],
            cwd=root,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.servers: list[int] = []

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, verb: str, **words: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": verb, **words}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise GoneError("its process ended") from None

    def end(self, *, patience: float = PATIENCE) -> Any:
        """Return the answer to what was begun."""
        try:
            line = self._answers.get(timeout=patience)
        except queue.Empty:
            self.kill()
            raise GoneError(f"no answer in {patience:.0f} s") from None
        if not line:
            raise GoneError("its process ended")
        answer = json.loads(line)
        if "cannot" in answer:
            raise CannotError(answer["cannot"])
        if "error" in answer:
            raise FailedError(answer["error"])
        return answer["ok"]

    def do(self, verb: str, *, patience: float = PATIENCE, **words: Any) -> Any:
        self.begin(verb, **words)
        return self.end(patience=patience)

    def open(self) -> None:
        self.do("open")
        self.servers = self.do("servers")

    def close(self) -> None:
        """End the process and its servers, kindly if it still answers."""
        try:
            self.do("close", patience=30)
            self._process.wait(10)
        except (GoneError, FailedError, subprocess.TimeoutExpired):
            self.kill()
            for pid in self.servers:
                _signal(pid, signal.SIGQUIT)
        self._log.close()

    def kill(self) -> None:
        """`kill -9` to the process and all that it started, except servers apart from it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    @contextmanager
    def weighed(self) -> Iterator[list[float]]:
        """Yield a list that holds, in the end, the peak of resident megabytes meanwhile.

        It is the share of each page that is a process's own (PSS), over the tool's processes and
        its servers, looked at ten times a second.
        """
        peak, stop = [0.0], threading.Event()

        def watch() -> None:
            while True:
                peak[0] = max(peak[0], resident([self.pid, *self.servers]))
                if stop.wait(0.1):
                    return

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield peak
        finally:
            stop.set()
            watching.join()


def resident(roots: list[int]) -> float:
    """Return the megabytes of these processes and of all that come from them."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name in brackets may hold anything; what follows it does not.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children[int(fields[1])].append(int(entry.name))
    seen: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in seen:
            seen.add(pid)
            waiting += children[pid]
    return round(sum(map(_pss, seen)) / 1000, 1)


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _environment() -> dict[str, str]:
    # Nothing of the environment that runs the bench leaks into a tool's own.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def until(condition: Any, *, patience: float = PATIENCE) -> bool:
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True

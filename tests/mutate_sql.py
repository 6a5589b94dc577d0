"""Drop one condition, assignment or case of the SQL at a time; list what no test notices.

    python tests/mutate_sql.py                 all mutants, on two processors
    python tests/mutate_sql.py --sample 5      five of them
    python tests/mutate_sql.py --only claim    those of statements whose name contains `claim`
    python tests/mutate_sql.py --only stores   those of the store

Each mutant lives in a process of its own, forked when everything is imported, in which the statement
is replaced before the conformance suite runs against a database in memory. What is dropped still
mentions its parameters, so that no mutant dies of a wrong count of them.
"""

import argparse
import importlib
import multiprocessing
import os
import random
import re
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from evervec.sqlite.statements import statements

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Suite:
    """Files of SQL, and the tests that must notice every change of them."""

    package: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    chosen: str
    """Which of the tests, as `pytest -k` takes it: those that neither wait nor draw."""


SUITES = (
    Suite(
        "evervec.queues.sqlite",
        ("queue.sql", "control.sql"),
        ("tests/conformance/test_queue_sqlite.py",),
        "memory",
    ),
    Suite(
        "evervec.stores.sqlite",
        ("store.sql", "search.sql", "hidden.sql"),
        (
            "tests/conformance/test_store_sqlite.py",
            "tests/unit/test_search.py",
            "tests/unit/test_lexical.py",
            "tests/unit/test_index.py",
            "tests/unit/test_hidden.py",
        ),
        "not TestFile and not TestCoded and not any_order and not equals and (not test_index or swept_out)",
    ),
)
PRELOADED = (
    "apsw",
    "anyio.pytest_plugin",
    "evervec.queues.sqlite",
    "evervec.stores.sqlite",
    "evervec.testing.queue_suite",
    "evervec.testing.search_suite",
    "evervec.testing.store_suite",
)
PATIENCE = 60.0
"""Seconds until a suite that does not end counts as one that noticed."""

EQUIVALENT: dict[tuple[str, str], str] = {
    ("company", "state = 2"): "a living lease names held jobs only; the state selects the index",
    ("lanes", "state = 0 #2"): "a lane without ready jobs yields none and the walk goes on",
    ("lanes", "walk.lane is not null"): "ends the walk early; the limit would end it as well",
    ("quarantine", "state = 6"): "the only job of its lease was just made a suspect; for the index",
    ("depth_parked", "ended_at is not null"): "every parked job has ended; for the index",
    ("states", "id in (select value from carray(:ids))"): "reads more rows than are looked at",
    ("vectors", "digest in (select value from carray(:digests))"): "reads more rows, as above",
    ("chunks", "document in (select value from carray(:documents))"): "reads more rows, as above",
    ("chunks_of_vector", "vector = :vector"): "gives more chunks new numbers than need them",
    ("matching", "d.collection = :collection"): "chunks of others are in no ranking of this one",
    ("hidden", "h.collection = :collection"): "chunks of others are in no ranking of this one",
    ("matching", "d.deleted = 0"): "a deleted document has no chunks",
}
"""Mutants that change nothing that can be seen, each with the reason."""


@dataclass(frozen=True)
class Mutant:
    suite: Suite
    file: str
    statement: str
    dropped: str
    text: str

    @property
    def name(self) -> tuple[str, str]:
        return self.statement, self.dropped


def mutants() -> Iterator[Mutant]:
    for suite in SUITES:
        # First, or the import that looking for the file causes would fill another dict.
        importlib.import_module(suite.package)
        for file in suite.files:
            for name, text in statements(suite.package, file).items():
                seen: dict[str, int] = {}
                for at, old, new in [*conditions(text), *assignments(text)]:
                    mutated = text[:at] + new + text[at + len(old) :]
                    dropped = " ".join(old.split())
                    seen[dropped] = seen.get(dropped, 0) + 1
                    if seen[dropped] > 1:
                        dropped += f" #{seen[dropped]}"
                    yield Mutant(suite, file, name, dropped, mutated)


def conditions(statement: str) -> Iterator[tuple[int, str, str]]:
    """Yield each `where …`, `and …` and `when …`, with what makes it always true or never taken."""
    for found in re.finditer(r"^ *(where|and|when|on) (.+)$", statement, re.MULTILINE):
        word, condition = found.groups()
        if condition.endswith("in (") or word == "on":
            continue
        closing = re.search(r" then .*$", condition) if word == "when" else None
        core = condition[: closing.start()] if closing else condition
        always = f"(0 and ({core}))" if word == "when" else f"(1 or ({core}))"
        yield found.start(2), core, always


def assignments(statement: str) -> Iterator[tuple[int, str, str]]:
    """Yield each `column = value` of an update, with what leaves the column as it is."""
    found = re.search(r"\bset\b\s", statement)
    if found is None:
        return
    start = found.end()
    depth, at = 0, start
    for token in re.finditer(r"[(),]|\bcase\b|\bend\b|\bwhere\b|\breturning\b|\Z", statement):
        if token.start() < start:
            continue
        word = token.group()
        depth += (word in ("(", "case")) - (word in (")", "end"))
        if depth == 0 and word in (",", "where", "returning", ""):
            part = statement[at : token.start()].rstrip()
            lead = len(part) - len(part.lstrip())
            column, _, value = part.strip().partition(" = ")
            yield at + lead, part.strip(), f"{column} = iif(1, {column}, ({value}))"
            at = token.end()
            if word != ",":
                return


def judge(mutant: Mutant) -> None:
    """Run the suite with *mutant* in place; the exit code of this process is the suite's."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.chdir(ROOT)
    # A statement that never ends must end even if nobody is left to kill this process.
    resource.setrlimit(resource.RLIMIT_CPU, (int(PATIENCE), int(PATIENCE)))
    # Every user of the file holds this very dict.
    statements(mutant.suite.package, mutant.file)[mutant.statement] = mutant.text
    options = ["-x", "-q", "-k", mutant.suite.chosen, "-o", "timeout=15", "--assert=plain"]
    options += ["-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    code = 99  # a crash of the judge is no verdict
    try:
        code = pytest.main([*options, *mutant.suite.tests])
    finally:
        os._exit(code)


def verdicts(
    chosen: list[Mutant], jobs: int, *, until: float = float("inf")
) -> Iterator[tuple[Mutant, bool]]:
    """Yield of each of *chosen* whether it survived; begin none after *until*, a monotonic time."""
    for module in PRELOADED:
        importlib.import_module(module)
    controls = {mutant.file: mutant for mutant in chosen}.values()
    sound = [replace(mutant, text=_original(mutant)) for mutant in controls]
    broken = [replace(mutant, text="no statement") for mutant in controls]
    if any(survived != (mutant in sound) for mutant, survived in _judged(sound + broken, jobs)):
        raise RuntimeError(
            "the suite judges wrongly: what is whole must pass, what is broken must not"
        )
    yield from _judged(chosen, jobs, until)


def _original(mutant: Mutant) -> str:
    return statements(mutant.suite.package, mutant.file)[mutant.statement]


def _judged(
    chosen: list[Mutant], jobs: int, until: float = float("inf")
) -> Iterator[tuple[Mutant, bool]]:
    fork = multiprocessing.get_context("fork")
    waiting = list(reversed(chosen))
    running: dict[int, tuple[BaseProcess, Mutant, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            process: BaseProcess = fork.Process(target=judge, args=(mutant,))
            process.start()
            running[process.sentinel] = process, mutant, time.monotonic() + PATIENCE
        wait(list(running), timeout=1)
        for sentinel, (process, mutant, deadline) in list(running.items()):
            if process.is_alive():
                if time.monotonic() > deadline:
                    process.kill()
                continue
            del running[sentinel]
            if process.exitcode not in (0, 1, -9, -24):
                raise RuntimeError(f"the suite did not run: {mutant.name}: {process.exitcode}")
            yield mutant, process.exitcode == 0
        if time.monotonic() > until:
            waiting.clear()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, help="how many mutants, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of the package's and statement's name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin none after that")
    asked = parser.parse_args()
    chosen = [
        mutant for mutant in mutants() if asked.only in f"{mutant.suite.package}:{mutant.statement}"
    ]
    chosen = [mutant for mutant in chosen if mutant.name not in EQUIVALENT]
    if asked.sample:
        chosen = random.Random(asked.seed).sample(chosen, min(asked.sample, len(chosen)))
    judged, alive = 0, 0
    for mutant, survived in verdicts(chosen, asked.jobs, until=time.monotonic() + asked.seconds):
        judged += 1
        if survived:
            alive += 1
            print(f"survived: {mutant.statement}: {mutant.dropped}", flush=True)
    print(f"{judged - alive} of {judged} mutants noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())

"""Drop one condition, assignment or case of the queue's SQL at a time; list what no test notices.

    python tests/mutate_sql.py                 all mutants, on two processors
    python tests/mutate_sql.py --sample 5      five of them
    python tests/mutate_sql.py --only claim    those of statements whose name contains `claim`

Each mutant is a copy of the package in a folder of its own, against which the conformance suite runs.
What is dropped still mentions its parameters, so that no mutant dies of a wrong count of them.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SQL_FOLDER = Path("evervec/queues/sqlite")
TESTS = ("tests/conformance/test_queue_sqlite.py",)
FILES = ("queue.sql", "control.sql")

EQUIVALENT: dict[tuple[str, str], str] = {}
"""Mutants that change nothing that can be seen, each with the reason."""


@dataclass(frozen=True)
class Mutant:
    file: str
    statement: str
    dropped: str
    text: str
    """The whole file with the mutation in it."""

    @property
    def name(self) -> tuple[str, str]:
        return self.statement, self.dropped


def mutants() -> Iterator[Mutant]:
    for file in FILES:
        text = (ROOT / "src" / SQL_FOLDER / file).read_text(encoding="utf-8")
        starts = [found.start() for found in re.finditer(r"^-- name: ", text, re.MULTILINE)]
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            statement = text[start:end]
            name = statement.splitlines()[0].removeprefix("-- name: ")
            for at, old, new in [*conditions(statement), *assignments(statement)]:
                mutated = statement[:at] + new + statement[at + len(old) :]
                dropped = " ".join(old.split())
                yield Mutant(file, name, dropped, text[:start] + mutated + text[end:])


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


def survives(mutant: Mutant) -> bool:
    """Say whether the suite passes with *mutant* in place."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src/evervec", copy / "evervec", ignore=_heavy)
        for name in ("pyproject.toml", "tests/conftest.py", *TESTS):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        (copy / SQL_FOLDER / mutant.file).write_text(mutant.text, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-k", "not file", *TESTS]
        command += ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-o", "timeout=15"]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            run = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, timeout=120, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        if run.returncode not in (0, 1, 3):
            raise RuntimeError(f"the suite did not run: {run.stdout.decode()[-2000:]}")
        return run.returncode == 0


def _heavy(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in ("__pycache__", "embedders")]


def survivors(chosen: list[Mutant], jobs: int) -> list[Mutant]:
    """Return those of *chosen* that nothing notices and no reason excuses."""
    with ThreadPoolExecutor(jobs) as pool:
        alive = list(pool.map(survives, chosen))
    return [mutant for mutant, lives in zip(chosen, alive, strict=True) if lives]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, help="how many mutants, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a statement's name")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    chosen = [mutant for mutant in mutants() if asked.only in mutant.statement]
    chosen = [mutant for mutant in chosen if mutant.name not in EQUIVALENT]
    if asked.sample:
        chosen = random.Random(asked.seed).sample(chosen, min(asked.sample, len(chosen)))
    alive = survivors(chosen, asked.jobs)
    for mutant in alive:
        print(f"survived: {mutant.statement}: {mutant.dropped}")
    print(f"{len(chosen) - len(alive)} of {len(chosen)} mutants noticed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run schedules by hand: `python -m tests.simulation.run --schedules 1000000 --jobs 2`."""

import argparse
import gc
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.simulation import engine, protocol
from tests.simulation.harness import Report, World

WASTED = ("lease lost at settle", "verdict superseded", "handed back at settle", "paid for again")
"""What was done in vain: attempts whose end did not count, and texts the model saw once more."""

SCHEDULES = {"protocol": protocol.schedule, "engine": engine.schedule}


def one(seed: int, which: str = "protocol") -> Report:
    """Run the schedule that *seed* stands for."""
    return World(seed).run(SCHEDULES[which])


def replay(seed: int, which: str = "protocol") -> str:
    return f"python -m tests.simulation.run --world {which} --schedules 1 --seed {seed}"


SWEEP = 100
"""Schedules between two collections of garbage."""


@contextmanager
def _rarely_swept() -> Iterator[None]:
    # A schedule leaves cycles of tasks and errors, and little else: looking for them all the time
    # costs an eighth of the schedules.
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@_rarely_swept()
def many(
    first: int,
    schedules: int,
    *,
    which: str = "protocol",
    seconds: float | None = None,
    at_least: int = 0,
    stop_at_first: bool = False,
) -> dict[str, Any]:
    """Run *schedules* from seed *first* on, or as many as *seconds* allow; add them up.

    However little *seconds* allow, *at_least* so many are run.
    """
    started = time.monotonic()
    totals: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    rare: Counter[str] = Counter()
    violations: list[dict[str, Any]] = []
    for seed in range(first, first + schedules):
        report = one(seed, which)
        totals["schedules"] += 1
        if totals["schedules"] % SWEEP == 0:
            gc.collect()
        totals["steps"] += report.picks
        faults += report.faults
        rare += report.rare
        if report.violation:
            violations.append(
                {"seed": seed, "violation": report.violation, "replay": replay(seed, which)}
            )
            if stop_at_first:
                break
        over = seconds is not None and time.monotonic() - started > seconds
        if over and totals["schedules"] >= at_least:
            break
    return {
        **totals,
        "seconds": time.monotonic() - started,
        "crashes": faults["crash"],
        "faults": dict(faults),
        "rare": dict(rare),
        "wasted": {name: rare[name] for name in WASTED},
        "violations": violations,
    }


def _part(first: int, schedules: int, which: str) -> dict[str, Any]:
    return many(first, schedules, which=which)


def merge(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schedules": sum(part["schedules"] for part in parts),
        "steps": sum(part["steps"] for part in parts),
        "seconds": max(part["seconds"] for part in parts),
        "crashes": sum(part["crashes"] for part in parts),
        "faults": dict(sum((Counter(part["faults"]) for part in parts), Counter())),
        "rare": dict(sum((Counter(part["rare"]) for part in parts), Counter())),
        "wasted": dict(sum((Counter(part["wasted"]) for part in parts), Counter())),
        "violations": [one for part in parts for one in part["violations"]],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--world", choices=sorted(SCHEDULES), default="protocol")
    parser.add_argument("--digest", action="store_true", help="print the trace's digest alone")
    options = parser.parse_args()
    if options.digest:
        print(one(options.seed, options.world).digest)
        return 0
    if options.jobs == 1:
        result = many(options.seed, options.schedules, which=options.world)
    else:
        share = -(-options.schedules // (options.jobs * 8))
        starts = range(options.seed, options.seed + options.schedules, share)
        with ProcessPoolExecutor(options.jobs) as pool:
            parts = [pool.submit(_part, start, share, options.world) for start in starts]
            result = merge([part.result() for part in parts])
    print(json.dumps(result, indent=2))
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())

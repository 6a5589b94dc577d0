"""Kill processes as often as asked, by hand: `python -m tests.crash.run --kills 5000`.

Prints what happened as JSON; the exit code is 1 if a promise was broken.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.crash.chaos import chaos
from tests.crash.history import Server
from tests.crash.labels import kill_at

from evervec.faults import LABELS

BROKEN_MAX = 10


def histories(
    server: Server,
    folder: Path,
    *,
    seed: int = 0,
    kills: int = 1_000_000,
    seconds: float = 1e9,
    kills_least: int = 0,
    labels: bool = True,
) -> dict[str, Any]:
    """Live histories until *kills* or *seconds* are reached, and *kills_least* in any case.

    What broke is kept on the disk, and after ten of these there is no need for more.
    """
    deadline = time.monotonic() + seconds
    counts: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    broken: list[dict[str, Any]] = []
    while counts["kills"] < kills and len(broken) < BROKEN_MAX:
        if time.monotonic() > deadline and counts["kills"] >= kills_least:
            break
        place, label = folder / str(seed), LABELS[seed % len(LABELS)]
        try:
            if labels and seed % 3 == 0:
                label = LABELS[seed // 3 % len(LABELS)]
                reached, found = kill_at(server, place, label, seed)
                hits[label] += reached
                counts.update(kills=int(reached), histories=1)
            else:
                label = ""
                found = chaos(server, place, seed, counts)
        except AssertionError as error:
            found = [str(error)]
        if found:
            broken.append({"seed": seed, "label": label, "found": found, "folder": str(place)})
        else:
            shutil.rmtree(place)
        seed += 1
    return {**counts, "violations": broken, "labels": dict(hits)}


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=200)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--seconds", type=float, default=1e9)
    asked.add_argument("--folder", type=Path, help="where the files lie; kept if a promise broke")
    told = asked.parse_args()
    folder = told.folder or Path(tempfile.mkdtemp(prefix=f"evervec-crash-{os.getpid()}-"))
    with Server() as server:
        result = histories(server, folder, seed=told.seed, kills=told.kills, seconds=told.seconds)
    print(json.dumps(result, indent=1))
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    raise SystemExit(main())

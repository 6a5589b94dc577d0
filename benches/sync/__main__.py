"""How well tools keep vectors in sync: the same documents, the same changes, one judge.

    python -m benches.sync [--only evervec,langchain] [--keep FOLDER]

It makes the documents, starts a model that counts what it is asked, installs each tool into an
environment of its own, and plays every scenario with each: what it takes, what it asks of the model,
and what is lost, stale or orphaned in the end. docs/sync-bench.md tells what each scenario means. A
tool that cannot be installed is written down, and the rest goes on. With all tools it takes some
ten minutes; `--keep` keeps the environments for the next time.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benches.report import Line, report
from benches.sync.process import FailedError, GoneError, Stub
from benches.sync.scenarios import SCENARIOS, Bench, Result, Size, play
from benches.sync.tools import NotInstallableError, chosen, python_of

OURS = ("evervec-table", "evervec-folder")
TIMED = tuple(each for each in SCENARIOS if each != "latency")
"""Its times are of each edit and not of a run."""
COUNTED = tuple(each for each in SCENARIOS if each not in {"hot_key", "killed"})
"""Where what is necessary is known to the text: not where nobody says how many versions are worth it,
and not where a process is killed under it."""
EQUAL = 1.1
"""A time within a tenth of another, or within 20 ms, is equal to it: they vary by that much."""
EQUAL_SECONDS = 0.02

USUAL = Size()

Found = Mapping[str, Mapping[str, Result]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="tools, separated by commas")
    parser.add_argument("--keep", type=Path, help="folder for the environments, outside of here")
    parser.add_argument("--documents", type=int, default=USUAL.documents)
    parser.add_argument("--paragraphs", type=int, default=USUAL.paragraphs)
    parser.add_argument("--milliseconds", type=float, default=50.0, help="for each 128 texts")
    parser.add_argument("--trouble", type=float, default=USUAL.trouble)
    parser.add_argument("--edits", type=int, default=USUAL.edits)
    wanted = parser.parse_args()
    size = Size(wanted.documents, wanted.paragraphs, wanted.trouble, wanted.edits)
    with tempfile.TemporaryDirectory(prefix="evervec-bench-") as folder:
        # A server may run as another user.
        Path(folder).chmod(0o755)
        environments = wanted.keep or Path(folder) / "environments"
        found, about = measure(chosen(wanted.only), environments, Path(folder), size, wanted)
    present(found, about, size, wanted.milliseconds)


def measure(
    names: list[str], environments: Path, worlds: Path, size: Size, wanted: argparse.Namespace
) -> tuple[dict[str, dict[str, Result]], dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, Result]] = {}
    about: dict[str, dict[str, Any]] = {}
    for name in names:
        try:
            python = python_of(name, environments)
        except NotInstallableError as error:
            print(f"sync: {name} is not installable: {error}", file=sys.stderr)
            about[name] = {"name": name, "not_installable": str(error)}
            continue
        with Stub(wanted.milliseconds) as stub:
            bench = Bench(name, python, stub, worlds, size)
            try:
                found[name] = play(bench)
                about[name] = bench.about
            except (FailedError, GoneError) as error:
                about[name] = {"name": name, "not_installable": f"does not start: {error}"}
            finally:
                bench.end()
    return found, about


def present(
    found: Found, about: Mapping[str, Mapping[str, Any]], size: Size, milliseconds: float
) -> None:
    report(
        "sync",
        list(lines(found)),
        documents=size.documents,
        chunks=size.documents * size.paragraphs,
        milliseconds=milliseconds,
        trouble_seconds=size.trouble,
        tools=about,
        scenarios={
            name: {scenario: each.to_json() for scenario, each in results.items()}
            for name, results in found.items()
        },
    )


def lines(found: Found) -> list[Line]:
    """Return what we promise of ourselves: amplification 1.00, nothing wrong, nobody better."""
    ours = {name: found[name] for name in OURS if name in found}
    told: list[Line] = []
    for name, results in ours.items():
        counted = [results[each] for each in COUNTED]
        necessary = sum(each.necessary or 0 for each in counted)
        embedded = sum(each.embedded or 0 for each in counted)
        ratio = round(embedded / necessary, 4) if necessary else 0.0
        wrong = sum(not each.right for each in results.values())
        told += [
            Line(f"texts embedded ÷ necessary, {name}", ratio, "", 1.0),
            Line(f"scenarios with anything lost, stale or orphaned, {name}", wrong, "", 0.0),
        ]
    peers = {name: results for name, results in found.items() if name not in OURS}
    if not peers:
        return told
    for name, results in ours.items():
        behind = [each for each in TIMED if _behind(results[each], peers, each)]
        late = _behind_latency(results["latency"], peers)
        told.append(
            Line(f"scenarios in which a peer is faster than {name}", len(behind) + late, "", 0.0)
        )
        for each in ("resident_mb", "disk_mb"):
            best = min((r["backfill"].also.get(each, 0.0) for r in peers.values()), default=0.0)
            mine = results["backfill"].also.get(each, 0.0)
            told.append(
                Line(f"{each} of {name} ÷ the best peer", round(mine / best, 2) if best else 0.0)
            )
    return told


def _behind(mine: Result, peers: Found, scenario: str) -> bool:
    """Whether a peer that ended right was faster by more than times vary."""
    return any(
        theirs.right
        and theirs.seconds is not None
        and mine.seconds is not None
        and mine.seconds > theirs.seconds * EQUAL
        and mine.seconds > theirs.seconds + EQUAL_SECONDS
        for theirs in (results[scenario] for results in peers.values())
    )


def _behind_latency(mine: Result, peers: Found) -> int:
    """Count the quantiles in which a peer that ended right was faster by more than they vary."""
    right = [results["latency"].also for results in peers.values() if results["latency"].right]
    return sum(
        any(
            mine.also.get(each, 0.0) > max(theirs[each] * EQUAL, theirs[each] + 5)
            for theirs in right
        )
        for each in ("p50_ms", "p99_ms")
    )


if __name__ == "__main__":
    main()

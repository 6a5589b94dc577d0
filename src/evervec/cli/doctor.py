"""doctor: look at everything that can be wrong, and say the fix."""

import argparse
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from evervec.app import App
from evervec.cli.opening import looking, run, say, say_json
from evervec.errors import EvervecError
from evervec.parsing import ParserProcess
from evervec.sqlite.database import OLDEST_SQLITE

FREE_BYTES = 1_000_000_000
INOTIFY = Path("/proc/sys/fs/inotify/max_user_watches")
INOTIFY_LEAST = 8192


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    fine: bool
    what: str
    fix: str = ""


def doctor(asked: argparse.Namespace) -> int:
    return run(_doctor(asked))


async def _doctor(asked: argparse.Namespace) -> int:
    findings = [_sqlite(), _disk(), _watching(), _parsers()]
    try:
        async with looking(asked) as app:
            findings += [finding async for finding in _state(app)]
            if not asked.no_model:
                findings.append(await _model(app))
            findings += [finding async for finding in _sources(app)]
    except EvervecError as error:
        findings.append(_trouble("state", error))
    if asked.json:
        say_json(
            {
                "healthy": all(finding.fine for finding in findings),
                "findings": [
                    {"fine": finding.fine, "what": finding.what, "fix": finding.fix}
                    for finding in findings
                ],
            }
        )
    else:
        for finding in findings:
            say(f"{'ok ' if finding.fine else 'BAD'}  {finding.what}")
            if not finding.fine and finding.fix:
                say(f"     {finding.fix}")
    return 0 if all(finding.fine for finding in findings) else 3


def _sqlite() -> Finding:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    return Finding(
        version >= OLDEST_SQLITE,
        f"SQLite {apsw.sqlite_lib_version()}",
        "update it: pip install -U apsw",
    )


def _disk() -> Finding:
    free = shutil.disk_usage(Path()).free
    return Finding(
        free > FREE_BYTES, f"{free / 1e9:.1f} GB free on this disk", "free some space on it"
    )


def _watching() -> Finding:
    try:
        most = int(INOTIFY.read_text())
    except (OSError, ValueError):
        return Finding(fine=True, what="file watching: not limited here")
    return Finding(
        most >= INOTIFY_LEAST,
        f"file watching: {most:,} watches allowed",
        "raise it: sysctl fs.inotify.max_user_watches=524288",
    )


def _parsers() -> Finding:
    parsers = ParserProcess()
    try:
        told = parsers.protection()
    except EvervecError as error:
        return _trouble("parsers", error)
    finally:
        parsers.close()
    return Finding(
        fine=True,
        what=f"parsers: in a process of their own, network {told['network']}, memory {told['memory']}",
    )


async def _state(app: App) -> AsyncIterator[Finding]:
    state = app.state

    def check(connection: apsw.Connection) -> str:
        return str(connection.pragma("quick_check"))

    verdict = await state.database.read(check)
    yield Finding(
        verdict == "ok",
        f"state {state.settings.state}: {verdict}",
        "move it away and run again: the vectors are rebuilt from the source",
    )
    mode, held = await state.queue.mode()
    yield Finding(
        mode.value == "running", f"queue {mode.value}, {held} jobs held", "evervec stage resume"
    )
    depth = await state.queue.depth()
    parked = depth.failed + depth.quarantined
    yield Finding(
        not parked, f"{parked} failed jobs", "see why with `evervec failed ls`, then retry or drop"
    )


async def _model(app: App) -> Finding:
    try:
        began = time.perf_counter()
        await app.embedder.embed(["is the model there?"], kind="query")
        took = time.perf_counter() - began
    except EvervecError as error:
        return _trouble("model", error)
    # A model of the user's own says nothing about itself.
    about = getattr(app.embedder, "about", "")
    told = f"model {app.space.name}: first vector after {took:.2f} s"
    return Finding(fine=True, what=f"{told} ({about})" if about else told)


async def _sources(app: App) -> AsyncIterator[Finding]:
    for each in await app.collections():
        name = each.scope.collection
        try:
            async with app.opened(each.scope) as serving:
                await serving.source.scan(None, 1)
        except EvervecError as error:
            yield _trouble(f"collection {name!r}", error)
        else:
            yield Finding(fine=not each.halted, what=f"collection {name!r} {each.halted}".strip())


def _trouble(what: str, error: EvervecError) -> Finding:
    return Finding(fine=False, what=f"{what}: {error.args[0]}", fix=error.hint or "")

"""repair, force, cancel, jobs, failed, stage: what an operator does at three in the morning."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from typing import Any

from evervec.app import App
from evervec.cli.opening import columns, looking, run, say, say_json, seconds, unseen_words
from evervec.collection import Collection, Repair
from evervec.errors import ConfigError
from evervec.model import Mode, Plain, Scope, State, show_id
from evervec.ports import JobView
from evervec.status import CollectionStatus

PARKED = (State.FAILED, State.QUARANTINED, State.CANCELLED)
PAGE = 1000
DRAIN_LOOK_SECONDS = 0.2


def repair(asked: argparse.Namespace) -> int:
    return run(_repair(asked))


def force(asked: argparse.Namespace) -> int:
    return run(_force(asked))


def cancel(asked: argparse.Namespace) -> int:
    return run(_cancel(asked))


def jobs(asked: argparse.Namespace) -> int:
    return run(_jobs(asked))


def failed(asked: argparse.Namespace) -> int:
    return run(_failed(asked))


def stage(asked: argparse.Namespace) -> int:
    return run(_stage(asked))


async def _repair(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        if asked.collection:
            scopes = [(await app.find(asked.collection, tenant=asked.tenant)).scope]
        else:
            known = await app.collections()
            scopes = [
                each.scope for each in known if asked.every or each.scope.tenant == asked.tenant
            ]
        total = Repair(0, 0)
        for scope in scopes:
            left = asked.limit - total.queued
            if left < 1 and total.queued:
                break
            done = await Collection(app, scope).repair(left)
            total = Repair(total.discovered + done.discovered, total.queued + done.queued)
    if asked.json:
        say_json({"discovered": total.discovered, "queued": total.queued})
    elif not asked.quiet:
        say(f"{total.discovered:,} documents had drifted, {total.queued:,} are in the queue now.")
        if total.queued:
            say("A running `evervec up` or `evervec worker` mends them; so does `evervec sync`.")
    return 0


async def _force(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        registered = await app.find(asked.collection, tenant=asked.tenant)
        created = await Collection(app, registered.scope).force(typed_id(asked.id))
    if asked.json:
        say_json({"collection": asked.collection, "id": asked.id, "created": created})
    elif not asked.quiet:
        told = "is in the queue" if created else "waited in the queue already, and is forced now"
        say(f"{asked.collection} {asked.id} {told}.")
    return 0


async def _cancel(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        registered = await app.find(asked.collection, tenant=asked.tenant)
        was = await Collection(app, registered.scope).cancel(typed_id(asked.id))
    if asked.json:
        say_json({"collection": asked.collection, "id": asked.id, "cancelled": was})
    elif not asked.quiet:
        told = "is cancelled until it changes again" if was else "had nothing under way"
        say(f"{asked.collection} {asked.id} {told}.")
    return 0


async def _jobs(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        scope = Scope(asked.tenant, asked.collection) if asked.collection else None
        found = await app.state.queue.jobs(scope=scope, limit=asked.limit)
        now = app.state.clock.now()
        mine = [job for job in found if asked.every or job.key.tenant == asked.tenant]
        # Each source has to be looked at for this, so only where nothing else is told.
        unseen = [] if mine or asked.json else await _unseen(app, asked)
    if asked.json:
        say_json({"jobs": [job_json(job) for job in mine]})
    elif not mine:
        say("No job waits." if unseen else "Nothing waits: everything is in sync.")
        for each in unseen:
            say(unseen_words(each))
    else:
        say(columns([_HEADING, *[_row(job, now) for job in mine]]))
    return 0


async def _unseen(app: App, asked: argparse.Namespace) -> list[CollectionStatus]:
    return [
        each
        for each in await app.status(tenant=None if asked.every else asked.tenant)
        if each.unseen and asked.collection in {None, each.name}
    ]


async def _failed(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        if asked.action in {"ls", "show"}:
            return await _show_failed(asked, app)
        wanted = await _wanted(asked, app)
        queue = app.state.queue
        count = await (queue.replay if asked.action == "retry" else queue.drop)(wanted)
    if asked.json:
        say_json({asked.action: count})
    elif not asked.quiet:
        told = "are in the queue again" if asked.action == "retry" else "are forgotten"
        say(f"{count:,} jobs {told}.")
        if count < len(wanted):
            say(
                f"{len(wanted) - count:,} do not wait for a person; `evervec failed ls` has those that do."
            )
    return 0 if count == len(wanted) else 1


async def _wanted(asked: argparse.Namespace, app: App) -> Sequence[int]:
    if bool(asked.jobs) == asked.all:
        raise ConfigError(
            f"which jobs to {asked.action} is not said",
            hint="give their numbers from `evervec failed ls`, or --all",
        )
    if not asked.all:
        return list(asked.jobs)
    return [job.job for job in await _parked(app, asked)]


async def _show_failed(asked: argparse.Namespace, app: App) -> int:
    parked = await _parked(app, asked)
    if asked.action == "show" or asked.jobs:
        parked = [job for job in parked if job.job in asked.jobs]
    if asked.json:
        say_json({"jobs": [job_json(job) for job in parked]})
    elif not parked:
        say("No such job." if asked.jobs else "No job has failed.")
    elif asked.action == "ls":
        say(columns([_HEADING, *[_row(job, app.state.clock.now()) for job in parked]]))
        say("Details: `evervec failed show JOB`. Again: `evervec failed retry JOB`, or --all.")
    else:
        for job in parked:
            say(f"job {job.job} · {job.key.collection} {show_id(job.key.id)}")
            say(
                f"{job.state.name.lower()}, {job.kind}, after {job.attempts} attempts, {job.crashes} crashes"
            )
            say(job.reason)
            say(job.stack)
    return 0 if parked or asked.action == "ls" else 1


async def _parked(app: App, asked: argparse.Namespace) -> list[JobView]:
    found: list[JobView] = []
    after = 0
    while page := await app.state.queue.jobs(states=PARKED, after=after, limit=PAGE):
        after = page[-1].job
        found += [job for job in page if asked.every or job.key.tenant == asked.tenant]
    return found


async def _stage(asked: argparse.Namespace) -> int:
    modes = {"pause": Mode.PAUSED, "resume": Mode.RUNNING, "drain": Mode.DRAINING}
    async with looking(asked) as app:
        queue = app.state.queue
        if asked.action in modes:
            await queue.set_mode(modes[asked.action])
        if asked.action == "resume":
            for each in await app.collections():
                if each.halted:
                    await app.state.registry.resume(each.scope)
        mode, held = await queue.mode()
        while asked.action == "drain" and held and mode is Mode.DRAINING:
            if not asked.quiet and not asked.json:
                say(f"{held:,} jobs are still held …")
            await asyncio.sleep(DRAIN_LOOK_SECONDS)
            mode, held = await queue.mode()
    drained = mode is Mode.DRAINING and not held
    if asked.json:
        say_json({"mode": mode.value, "held": held, "drained": drained})
    elif not asked.quiet:
        told = "drained: nothing is held" if drained else f"{mode.value}, {held:,} jobs are held"
        say(f"The queue is {told}.")
    return 0


def typed_id(written: str) -> Plain:
    """Read an id as JSON, so that its type can be said; anything else is text."""
    try:
        value = json.loads(written)
    except json.JSONDecodeError:
        return written
    if isinstance(value, list):
        return tuple(value)
    return value if isinstance(value, (int, float, str)) else written


_HEADING = ("JOB", "COLLECTION", "DOCUMENT", "STATE", "ATTEMPTS", "AGE", "REASON")


def _row(job: JobView, now: int) -> tuple[str, ...]:
    state = "stale" if job.stale else job.state.name.lower()
    reason = job.reason.split("\n")[0]
    return (
        str(job.job),
        job.key.collection,
        show_id(job.key.id),
        state,
        str(job.attempts),
        seconds(max(0, now - job.since) / 1000),
        reason[:80],
    )


def job_json(job: JobView) -> dict[str, Any]:
    return {
        "job": job.job,
        "tenant": job.key.tenant,
        "collection": job.key.collection,
        "id": json.loads(job.key.id),
        "state": "stale" if job.stale else job.state.name.lower(),
        "lane": job.lane.name.lower(),
        "attempts": job.attempts,
        "crashes": job.crashes,
        "releases": job.releases,
        "since": job.since,
        "due": job.due,
        "holder": job.holder,
        "kind": job.kind,
        "reason": job.reason,
        "stack": job.stack,
    }

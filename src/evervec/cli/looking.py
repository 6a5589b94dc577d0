"""status, verify, events: commands that only look."""

import argparse
import asyncio

from evervec.cli.opening import columns, looking, percent, run, say, say_json, seconds, unseen_words
from evervec.collection import Collection
from evervec.model import show_id
from evervec.ports import Event
from evervec.status import CollectionStatus
from evervec.verify import Report


def status(asked: argparse.Namespace) -> int:
    return run(_status(asked))


def verify(asked: argparse.Namespace) -> int:
    return run(_verify(asked))


def events(asked: argparse.Namespace) -> int:
    return run(_events(asked))


async def _status(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        statuses = await app.status(tenant=None if asked.every else asked.tenant)
        mode, held = await app.state.queue.mode()
    health = _worst([each.health for each in statuses])
    if asked.json:
        say_json(
            {
                "health": health,
                "mode": mode.value,
                "held": held,
                "collections": [each.to_json() for each in statuses],
            }
        )
        return 0 if health == "HEALTHY" else 3
    if not statuses:
        say("Nothing is registered. Start with `evervec up FOLDER` or `evervec watch FILE TABLE`.")
        return 0
    say(columns([_HEADING, *[_row(each) for each in statuses]]))
    for each in statuses:
        if each.trouble:
            say(f"{each.name}: {each.trouble}")
        if each.unseen:
            say(unseen_words(each))
        for told in each.on_the_way():
            say(f"{each.name}: {told}")
    if mode.value != "running":
        say(f"The queue is {mode.value}, {held:,} jobs are held. `evervec stage resume` goes on.")
    say(f"health {health}")
    return 0 if health == "HEALTHY" else 3


_HEADING = (
    "COLLECTION",
    "DOCS",
    "CHUNKS",
    "FRESH",
    "LAG p50/p99",
    "BACKLOG",
    "OLDEST",
    "FAILED",
    "MODEL",
)


def _row(status: CollectionStatus) -> tuple[str, ...]:
    return (
        status.name,
        f"{status.documents:,}",
        f"{status.chunks:,}",
        percent(status.fresh),
        f"{seconds(status.lag_p50)} / {seconds(status.lag_p99)}",
        f"{status.backlog:,}" + (" +" if status.scanning else ""),
        seconds(status.oldest),
        f"{status.failed:,}",
        status.model,
    )


async def _verify(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        registered = [
            each
            for each in await app.collections()
            if (asked.every or each.scope.tenant == asked.tenant)
            and asked.collection in {None, each.scope.collection}
        ]
        if not registered:
            await app.find(asked.collection or "", tenant=asked.tenant)
        total = Report()
        for each in registered:
            report = await Collection(app, each.scope).verify()
            total += report
            if not asked.json and not asked.quiet:
                say(f"{each.scope.collection}: {report}")
    if asked.json:
        say_json(total.to_json())
    elif not asked.quiet:
        _say_drift(total)
    return 3 if total.drift else 0


def _say_drift(report: Report) -> None:
    for difference in report.examples[:10]:
        job = difference.job
        told = f"{job.state.name.lower()} in the queue" if job else "not in the queue"
        kind = difference.drift.value.replace("_", " ")
        say(f"  {kind}: {difference.key.collection} {show_id(difference.key.id)} ({told})")
    if report.drift:
        say(
            "`evervec sync` takes in what changed and works it off; what drifts on, `evervec repair`."
        )


async def _events(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        log = app.state.events
        await app.state.gather_facts()
        after = max(0, await log.last(asked.tenant) - asked.n)
        while True:
            await app.state.gather_facts()
            facts = await log.events(tenant=asked.tenant, after=after, limit=500)
            for fact in facts:
                _say_fact(fact, as_json=asked.json)
                after = fact.number
            if not facts and not asked.follow:
                return 0
            if not facts:
                await asyncio.sleep(0.2)


def _say_fact(fact: Event, *, as_json: bool) -> None:
    if as_json:
        say_json(
            {
                "number": fact.number,
                "type": fact.type,
                "collection": fact.collection,
                "document": fact.document,
                "at": fact.at,
                "data": fact.data,
            }
        )
        return
    document = show_id(fact.document) if fact.document is not None else ""
    told = (f"{name}={value}" for name, value in fact.data.items() if name != "stack")
    # A reason may have several lines; a fact has one.
    data = " ".join(" ".join(told).split())
    say(f"{fact.number:>8}  {fact.type:<22} {fact.collection} {document}  {data}".rstrip())


def _worst(healths: list[str]) -> str:
    order = ("HEALTHY", "DEGRADED", "CRITICAL")
    return max(healths, key=order.index, default="HEALTHY")

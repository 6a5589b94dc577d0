"""The smallest worker that keeps the protocol, over the real queue and the real store.

It proves the statements of queue and store apart from the engine's own worker: capture, reap,
claim, read, embed, keep, publish, settle, each in the order that the protocol asks for.
"""

import asyncio
from collections import defaultdict

from tests.simulation.harness import SPACE, World, digest, pieces, vector

from evervec.errors import EvervecError
from evervec.faults import reach
from evervec.model import (
    Change,
    Id,
    Job,
    Key,
    Lane,
    Lease,
    Mode,
    Publication,
    Scope,
    State,
    Stored,
    Verdict,
)
from evervec.outcome import Done, Fail, Outcome, Release, Retry
from evervec.queues.sqlite import SqliteQueue

LEASE_FOR = 30.0


class Worker:
    """One process: captures, reaps and works, one thing after the other."""

    def __init__(self, world: World, *, clean: bool = False) -> None:
        self.world = world
        self.clean = clean
        self.queue = world.queue()
        self.store = world.store()
        self.dice = world.dice
        self.holder = world.holder()
        self.barred: dict[Key, int] = {}

    async def run(self) -> None:
        while True:
            try:
                await self.turn()
            except EvervecError:
                # A source away, or a commit whose outcome is unknown: everything is idempotent.
                self.world.rare["went on after an error"] += 1

    async def turn(self) -> bool:
        """Do one round; False if there was nothing to do."""
        captured = False
        for table in self.world.tables:
            captured |= await self.capture(table.scope)
        if self.clean or self.dice.random() < 0.3:
            await self.queue.reap()
        lease = await self.queue.claim(
            self.dice.choice((1, 2, 4, 8)), holder=self.holder, lease_for=LEASE_FOR
        )
        if lease is None:
            await self.queue.wait(2.0)
            return captured
        await self.work(lease)
        return True

    async def capture(self, scope: Scope) -> bool:
        table = next(table for table in self.world.tables if table.scope == scope)
        source = self.world.source(table)
        captured = await source.changes(self.dice.choice((1, 3, 100)))
        if captured is None:
            return False
        reach("capture.read")
        lane = self.dice.choice((Lane.LIVE, Lane.LIVE, Lane.BACKFILL))
        changes = [Change(Key(scope.tenant, scope.collection, id_)) for id_ in captured.ids]
        await self.put_then_accept(source, captured, changes, lane)
        return True

    async def put_then_accept(self, source, captured, changes, lane) -> None:
        await self.queue.put(changes, lane=lane)
        reach("capture.put")
        await source.accept(captured)
        reach("capture.accepted")

    async def work(self, lease: Lease) -> None:
        outcomes = await self.attempt(lease)
        settled = await self.queue.settle(lease.fence, outcomes)
        if self.dice.random() < 0.15:
            again = await SqliteQueue.settle(self.queue, lease.fence, outcomes)
            assert not again.held & settled.ended, "S7: settled twice"

    async def attempt(self, lease: Lease) -> dict[int, Outcome]:
        by_scope: dict[Scope, list[Job]] = defaultdict(list)
        for job in lease.jobs:
            by_scope[job.key.scope].append(job)
        outcomes: dict[int, Outcome] = {}
        for scope, jobs in by_scope.items():
            outcomes |= await self.attempt_scope(lease.fence, scope, jobs)
        return outcomes

    async def attempt_scope(self, fence: int, scope: Scope, jobs: list[Job]) -> dict[int, Outcome]:
        table = next(table for table in self.world.tables if table.scope == scope)
        await self.dawdle()
        reading = await self.world.source(table).read([job.key.id for job in jobs])
        reach("attempt.read")
        stored = await self.store.look([job.key for job in jobs])
        publications = [
            self.publication(job.key, reading.version, reading.documents, stored.get(job.key))
            for job in jobs
        ]
        if not await self.embed(scope, publications):
            return {job.job: self.failure(job) for job in jobs}
        if not self.clean and self.dice.random() < 0.3:
            # The lease before this one is mostly another worker's: asking must not prolong it.
            fences = [fence, fence - 1]
            renewed = await self.queue.renew(fences, holder=self.holder, lease_for=LEASE_FOR)
            if fence not in renewed.held and self.dice.random() < 0.5:
                return {}
        await self.dawdle()
        verdicts = await self.store.publish(publications, fence=fence, space=SPACE)
        reach("attempt.published")
        return {
            job.job: Done() if verdict is Verdict.PUBLISHED else Release(reason=verdict)
            for job, verdict in zip(jobs, verdicts, strict=True)
        }

    async def dawdle(self) -> None:
        """Be slow now and then, so slow sometimes that the lease is over: a zombie."""
        world = self.world
        if world.chaos.on and self.dice.random() < world.slowness:
            await asyncio.sleep(self.dice.choice((0.5, 5.0, 20.0, 40.0)))

    def publication(self, key: Key, version: int, documents, stored: Stored | None) -> Publication:
        document = documents.get(key.id)
        if document is None:
            return Publication(key, version, b"", deleted=True)
        body = document.fields["body"]
        if stored is not None and not stored.deleted and stored.digest == digest(body):
            # In sync but for the version; whether it still is when this arrives, the store sees.
            return Publication(key, version, digest(body), touch=True)
        return Publication(key, version, digest(body), pieces(body))

    async def embed(self, scope: Scope, publications: list[Publication]) -> bool:
        """Pay for what is not known yet; False if the model refused the batch."""
        texts = {
            piece.digest: piece.chunk.embedded
            for publication in publications
            for piece in publication.pieces
        }
        known = await self.store.known(scope.tenant, SPACE, list(texts))
        missing = {name: text for name, text in texts.items() if name not in known}
        reach("attempt.embed")
        if not missing:
            return True
        await asyncio.sleep(self.dice.choice((0.01, 0.5, 4.0)) if not self.clean else 0.01)
        if not self.clean and self.dice.random() < 0.1:
            return False
        reach("attempt.embedded")
        await self.store.keep(
            scope.tenant, SPACE, {name: vector(text) for name, text in missing.items()}
        )
        return True

    def failure(self, job: Job) -> Outcome:
        if self.dice.random() < 0.4:
            return Fail("the model refused it", "Permanent")
        return Retry(self.dice.choice((0.0, 1.0, 60.0)), "the model was away", "Transient")


async def operate(world: World) -> None:
    """A person at the controls: pauses, cancels, replays, prunes."""
    queue, store, dice = world.queue(), world.store(), world.dice
    while True:
        await asyncio.sleep(dice.choice((0.5, 2.0, 10.0)))
        what = dice.choice(("pause", "resume", "resume", "cancel", "cancel", "replay", "prune"))
        try:
            await one_order(queue, store, world, what)
        except EvervecError:
            world.rare["an order's outcome was unknown"] += 1


async def one_order(queue, store, world: World, what: str) -> None:
    dice = world.dice
    if what == "pause":
        await queue.set_mode(dice.choice((Mode.PAUSED, Mode.DRAINING)))
    elif what == "resume":
        await queue.set_mode(Mode.RUNNING)
    elif what == "cancel":
        table = dice.choice(world.tables)
        key = Key(table.scope.tenant, table.scope.collection, Id(dice.choice(world.writer.ids)))
        held = await queue.jobs(states=(State.LEASED,))
        # Mostly what somebody works on at this moment: that is where it is delicate.
        keys = [view.key for view in held] if held and dice.random() < 0.7 else [key]
        fences = await queue.cancel(keys)
        await store.bar(fences)
    elif what == "replay":
        await replay(queue)
    else:
        await store.prune(unused_before=world.clock.now(), limit=5)


async def replay(queue: SqliteQueue) -> int:
    parked = await queue.jobs(states=(State.FAILED, State.QUARANTINED, State.CANCELLED))
    return await queue.replay([view.job for view in parked])


async def schedule(world: World) -> None:
    """Break things for a while, then let one worker finish."""

    async def worker(name: str) -> None:
        await Worker(world).run()

    async def operator(name: str) -> None:
        await operate(world)

    for number in range(world.dice.choice((1, 2, 2, 3))):
        world.start(f"worker{number}", worker)
    if not world.calm and world.dice.random() < 0.6:
        world.start("operator", operator)
    await world.faults_until(world.dice.choice((100, 200, 300, 500)))
    await drain(world)


async def drain(world: World) -> None:
    """L1: with the faults off, one worker empties everything in bounded steps."""
    for actor in world.chaos.victims:
        if actor.name == "operator":
            world.loop.kill(actor)
    ended = asyncio.Event()

    async def finish() -> None:
        worker = Worker(world, clean=True)
        await worker.queue.set_mode(Mode.RUNNING)
        while True:
            await replay(worker.queue)
            worked = await worker.turn()
            depth = await worker.queue.depth()
            parked = depth.failed + depth.cancelled + depth.quarantined
            read = all(table.consumed for table in world.tables)
            if not worked and not depth.backlog and not parked and read:
                # A lease whose jobs were all cancelled is there until it runs out.
                world.loop.jump(0.0 if world.calm else 60.0)
                await worker.queue.reap()
                return

    finisher = world.loop.spawn("finisher", finish())
    assert finisher.task is not None
    finisher.task.add_done_callback(lambda _: ended.set())
    await ended.wait()
    finisher.task.result()

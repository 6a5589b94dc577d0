"""Whole processes of the product in one simulated machine room: capture, worker, upkeep.

Only the ends are simulated: the table that others write to, the model, the clock and the loop. All
that lies between is the product's own code, wired as `evervec.serve` wires it.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random

from tests.simulation.harness import SPACE, World
from tests.simulation.protocol import operate, replay

from evervec.attempt import Attempts, Serving
from evervec.backoff import Policy
from evervec.capture import Capture, follow
from evervec.embedding import Embedding
from evervec.errors import Permanent, Transient, Unavailable
from evervec.keeper import Keeper, keep_beating
from evervec.loop import every, guarded
from evervec.model import Document, Id, Mode, Scope
from evervec.ports import Kind, Limits, Vectors
from evervec.recipe import Recipe
from evervec.settings import Retention
from evervec.sqlite.events import SqliteEvents
from evervec.testing.embedder import HashEmbedder
from evervec.testing.invariants import Expected, Violation
from evervec.testing.world import Notes, SimulatedSource, Table
from evervec.text.template import Template
from evervec.upkeep import Upkeep
from evervec.worker import Pace, Worker

LEASE_FOR = 30.0
TICK = 4.0
"""Seconds between looks for work and for the dead: coarser than in the product, for idle looks are
most of what a schedule costs, and prove nothing."""
RECIPE = Recipe(Template.parse("{body}"))
MODEL = HashEmbedder(dimension=8)


@cache
def expect(body: str) -> Expected:
    prepared = RECIPE.prepare(Document(Id("0"), {"body": body}), MODEL)
    return Expected(
        prepared.digest,
        tuple(
            (piece.chunk.text, MODEL.vector(piece.chunk.embedded).astype("<f4").tobytes())
            for piece in prepared.pieces
        ),
    )


class SimulatedModel(HashEmbedder):
    """The hash model, slow and troubled as the world wishes."""

    def __init__(self, world: World, asked: Counter[str]) -> None:
        super().__init__(dimension=8, limits=Limits(batch_texts_max=3, concurrency=2))
        self._world = world
        self._all_asked = asked

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:
        self._all_asked.update(texts)
        world = self._world
        if not world.chaos.on:
            await asyncio.sleep(0.01)
            return await super().embed(texts, kind=kind)
        dice = world.dice
        await asyncio.sleep(dice.choice((0.005, 0.005, 0.3, 5.0, 40.0)))
        if not world.calm and dice.random() < 0.2:
            world.rare["the model refused"] += 1
            raise dice.choice(
                (
                    Transient("the model stumbled"),
                    Unavailable("the model is away", after=dice.choice((0.0, 3.0))),
                    Permanent("the model refuses the request"),
                )
            )
        return await super().embed(texts, kind=kind)


class Process:
    """What one `evervec up` runs, but for the terminal."""

    def __init__(
        self, world: World, asked: Counter[str], *, model: HashEmbedder | None = None
    ) -> None:
        self.world = world
        self.queue, self.store = world.queue(), world.store()
        self.holder = world.holder()
        self.keeper = Keeper(world.clock, lease_for=LEASE_FOR)
        embedding = Embedding(model or SimulatedModel(world, asked), self.store, space=SPACE)
        self.servings = {
            table.scope: Serving(table.scope, world.source(table), RECIPE, embedding)
            for table in world.tables
        }
        policy = Policy(base=1.0, cap=20.0, attempts_max=3)
        attempts = Attempts(self.store, self.servings, policy, Random(world.dice.random()))
        pace = Pace(
            claim=world.dice.choice((1, 3, 8, 20)), slots=world.dice.choice((1, 2)), poll=TICK
        )
        self.worker = Worker(
            self.queue, attempts, keeper=self.keeper, holder=self.holder, pace=pace
        )
        events = SqliteEvents(world.database)
        retention = Retention(finished=60_000, unused=world.dice.choice((0, 60_000)))
        self.upkeep = Upkeep(
            self.queue, self.queue, self.store, events, retention, world.clock, self.registered
        )

    async def registered(self) -> frozenset[Scope]:
        return frozenset(table.scope for table in self.world.tables)

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until *stopping*, then let what runs end."""
        duties = [asyncio.create_task(self.follow(table)) for table in self.world.tables]
        duties += [
            asyncio.create_task(every(TICK, self.upkeep.reap, name="reap")),
            asyncio.create_task(every(30.0, self.upkeep.prune, name="prune")),
            asyncio.create_task(keep_beating(self.keeper, self.queue, self.holder)),
        ]
        await self.worker.work(stopping)
        for duty in duties:
            duty.cancel()
        await asyncio.gather(*duties, return_exceptions=True)

    async def follow(self, table: Table) -> None:
        source: SimulatedSource = self.world.source(table)
        notes = Notes(table)
        capture = Capture(table.scope, source, self.queue, self.queue, self.store, notes)

        async def forever() -> None:
            await capture.open(scan=True)
            await follow(capture)

        while True:
            await guarded(forever, name="follow", again=5.0)
            await asyncio.sleep(5.0)


async def schedule(world: World) -> None:
    """Run one to three processes through faults, then let a last one finish."""
    world.expect = expect
    world.trusts_in_time = True
    world.loses_logs = not world.calm and world.dice.random() < 0.3
    asked: Counter[str] = Counter()

    async def process(name: str) -> None:
        stopping = asyncio.Event()
        if not world.calm and world.dice.random() < 0.2:
            # Somebody presses Ctrl-C after a while.
            asyncio.get_running_loop().call_later(world.dice.choice((1.0, 9.0)), stopping.set)
        await Process(world, asked).run(stopping)
        world.rare["drained in order"] += 1

    async def operator(name: str) -> None:
        await operate(world)

    processes = world.dice.choice((1, 2, 2, 3))
    for number in range(processes):
        world.start(f"process{number}", process)
    if not world.calm and world.dice.random() < 0.6:
        world.start("operator", operator)
    await world.faults_until(world.dice.choice((200, 500, 900)))
    await drain(world, asked)
    if world.calm and processes == 1:
        check_paid_once(world, asked)


def check_paid_once(world: World, asked: Counter[str]) -> None:
    """G3: without faults a text is sent once a tenant."""
    twice = {text: times for text, times in asked.items() if times > len(world.tables)}
    if twice:
        raise Violation(f"Q2: sent more than once: {twice}")


async def drain(world: World, asked: Counter[str]) -> None:
    """L1: with the faults off, a process empties everything in bounded time."""
    for actor in world.chaos.victims:
        if actor.name == "operator":
            world.loop.kill(actor)
    empty = asyncio.Event()

    async def finish() -> None:
        # The last one needs no help, but others may still be there, zombies among them.
        serving = asyncio.create_task(Process(world, asked).run(asyncio.Event()))
        queue = world.queue()
        await queue.set_mode(Mode.RUNNING)
        for _ in range(2000):
            await asyncio.sleep(TICK)
            if serving.done():
                await serving
            await replay(queue)
            if await all_done(world, queue):
                # A lease whose jobs were all cancelled is there until it runs out.
                world.loop.jump(0.0 if world.calm else 60.0)
                await queue.reap()
                empty.set()
                return
        raise Violation(f"L1: not drained: {await queue.depth()}")

    finisher = world.loop.spawn("finisher", finish())
    assert finisher.task is not None
    finisher.task.add_done_callback(lambda _: empty.set())
    await empty.wait()
    if any(actor.alive for actor in world.chaos.victims):
        # What zombies still have under way comes late, and must change nothing.
        await asyncio.sleep(45.0)
    if finisher.task.done():
        finisher.task.result()


async def all_done(world: World, queue) -> bool:
    depth = await queue.depth()
    parked = depth.failed + depth.cancelled + depth.quarantined
    read = all(table.consumed and not table.lost for table in world.tables)
    return bool(not depth.backlog and not parked and read)

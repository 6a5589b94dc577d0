"""The running parts: one capture a collection, a worker, its heartbeat, and the upkeep.

What is registered in the state is the truth. The engine compares it with what it serves, at once
when this process changed it and every second otherwise, so a collection that another process adds,
changes or removes is picked up while everything runs.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evervec.attempt import Attempts, Serving
from evervec.backoff import Policy
from evervec.capture import Capture, follow
from evervec.embedding import Embedding
from evervec.errors import ConfigError, EvervecError
from evervec.holder import this_process
from evervec.keeper import Heartbeat, Keeper
from evervec.loop import every, guarded
from evervec.model import Id, Scope, Space
from evervec.ports import Embedder, Registered
from evervec.recipe import Recipe
from evervec.specs import from_json, lists_itself, open_source, place, row_vectors
from evervec.state import State, another_queue
from evervec.upkeep import PRUNE_SECONDS, REAP_SECONDS, Upkeep
from evervec.worker import Pace, Worker

log = logging.getLogger("evervec.serve")

REFRESH_SECONDS = 1.0
FACTS_SECONDS = 1.0
SOURCE_RETRY_SECONDS = 5.0


@dataclass(slots=True)
class Served:
    """A collection that this process serves."""

    registered: Registered
    capture: Capture
    serving: Serving
    following: asyncio.Task[None] | None = None


class Engine:
    """Serves every registered collection whose model this process has."""

    def __init__(self, state: State, embedder: Embedder) -> None:
        self.state = state
        self.embedder = embedder
        self.stopping = asyncio.Event()
        self.troubles: dict[Scope, str] = {}
        """Why a registered collection is not served now."""
        self._served: dict[Scope, Served] = {}
        self._servings: dict[Scope, Serving] = {}
        self._embedding: Embedding | None = None
        self._keeper = Keeper(state.clock, lease_for=state.settings.worker.lease)
        self._refreshing = asyncio.Lock()
        self._duties: set[asyncio.Task[None]] = set()
        self._heartbeat: Heartbeat | None = None
        self._working: asyncio.Task[None] | None = None
        self._follows = False
        self.serving = False

    @property
    def captures(self) -> list[Capture]:
        return [served.capture for served in self._served.values()]

    async def start(self, *, follows: bool = True, works: bool = True) -> None:
        """Begin to serve. With *follows*, sources are captured until the end."""
        self._follows = follows
        self.serving = True
        await self.refresh()
        if works and self.state.settings.worker.enabled:
            self._begin_work()
        upkeep = Upkeep(
            self.state.queue,
            self.state.queue,
            self.state.store,
            self.state.events,
            self.state.settings.retention,
            self.state.clock,
            self._registered,
        )
        for seconds, duty, name in (
            (REAP_SECONDS, upkeep.reap, "taking back lost leases"),
            (PRUNE_SECONDS, upkeep.prune, "deleting what is over"),
            (REFRESH_SECONDS, self.refresh, "looking for registered collections"),
            (FACTS_SECONDS, self.state.gather_facts, "gathering the queue's facts"),
        ):
            self._duties.add(asyncio.create_task(every(seconds, duty, name=name)))

    async def stop(self) -> None:
        """Let go: the worker finishes what it holds, captures end, nothing is left half done."""
        self.stopping.set()
        if self._working:
            await asyncio.gather(self._working, return_exceptions=True)
        for task in self._duties:
            task.cancel()
        await asyncio.gather(*self._duties, return_exceptions=True)
        self._duties.clear()
        for served in list(self._served.values()):
            await self._close(served)
        if self._heartbeat:
            await asyncio.to_thread(self._heartbeat.stop)

    async def refresh(self) -> None:
        """Serve exactly what is registered now; nothing, where the state is only looked at."""
        if not self.serving:
            return
        async with self._refreshing:
            registered = {each.scope: each for each in await self.state.registry.collections()}
            for scope, served in list(self._served.items()):
                if registered.get(scope) != served.registered:
                    await self._close(served)
            for scope, each in registered.items():
                if scope not in self._served:
                    await self._open(each)
            for scope in self.troubles.keys() - registered.keys():
                del self.troubles[scope]

    async def prepare(self, registered: Registered, *, rescan: bool) -> None:
        """Make a collection's source ready at once, so that what is wrong with it is said now."""
        capture = await self._wired(registered)
        try:
            await capture.open(scan=not lists_itself(from_json(registered.source)))
            if rescan:
                await capture.rescan()
        finally:
            await capture.source.close()

    async def lent(self, registered: Registered) -> Serving:
        """Wire a collection for reading alone; the caller closes its source."""
        await self.check_space(registered)
        capture = await self._wired(registered, watched=False)
        return Serving(
            registered.scope,
            capture.source,
            Recipe.from_json(registered.recipe),
            self._embedding_for(registered.space),
            rows=row_vectors(from_json(registered.source), capture.source),
        )

    async def unseen(self, registered: Registered, limit: int) -> Sequence[Id] | None:
        """Ask a source what nobody has taken from it; here it is taken at once where it is followed."""
        if registered.scope in self._served:
            return ()
        capture = await self._wired(registered, watched=False)
        try:
            return await capture.source.unseen(limit)
        finally:
            await capture.source.close()

    async def remove(self, scope: Scope) -> None:
        """Stop serving a collection and leave no trace of it: not in the source, not in the state."""
        registered = await self.state.registry.find(scope)
        if registered is None:
            raise ConfigError(f"no collection {scope.collection!r} is registered")
        capture = await self._wired(registered)
        await self.state.registry.unregister(scope)
        await self.refresh()
        try:
            await capture.source.remove()
        finally:
            await capture.source.close()
        await self.state.queue.forget(scope)
        await self.state.store.forget(scope)

    async def token(self, registered: Registered) -> str:
        return f"{await self.state.identity()}{registered.number}"

    async def _registered(self) -> frozenset[Scope]:
        return frozenset(each.scope for each in await self.state.registry.collections())

    async def _open(self, registered: Registered) -> None:
        try:
            await self.check_space(registered)
            capture = await self._wired(registered)
            await capture.open(scan=not lists_itself(from_json(registered.source)))
        except EvervecError as error:
            if self.troubles.get(registered.scope) != str(error):
                log.warning("collection %r waits: %s", registered.scope.collection, error)
            self.troubles[registered.scope] = str(error)
            return
        self.troubles.pop(registered.scope, None)
        recipe = Recipe.from_json(registered.recipe)
        serving = Serving(
            registered.scope,
            capture.source,
            recipe,
            self._embedding_for(registered.space),
            registered.halted,
            row_vectors(from_json(registered.source), capture.source),
        )
        served = Served(registered, capture, serving)
        self._served[registered.scope] = served
        self._servings[registered.scope] = serving
        if self._follows:
            served.following = asyncio.create_task(self._follow(capture))

    async def _follow(self, capture: Capture) -> None:
        async def forever() -> None:
            await follow(capture)

        name = f"following {capture.scope.collection!r}"
        while True:
            await guarded(forever, name=name, again=SOURCE_RETRY_SECONDS)
            await asyncio.sleep(SOURCE_RETRY_SECONDS)

    async def _close(self, served: Served) -> None:
        scope = served.registered.scope
        del self._served[scope]
        del self._servings[scope]
        if served.following:
            served.following.cancel()
            await asyncio.gather(served.following, return_exceptions=True)
        await served.capture.source.close()

    async def _wired(self, registered: Registered, *, watched: bool = True) -> Capture:
        notebook = self.state.registry.notebook(registered.number)
        source = open_source(
            from_json(registered.source),
            Recipe.from_json(registered.recipe),
            token=await self.token(registered),
            notebook=notebook,
            watched=watched,
        )
        state = self.state
        return Capture(registered.scope, source, state.queue, state.queue, state.store, notebook)

    async def check_space(self, registered: Registered) -> None:
        wanted, mine = await self.state.registry.space(registered.space), space_of(self.embedder)
        if wanted != mine:
            raise ConfigError(
                f"collection {registered.scope.collection!r} at "
                f"{place(from_json(registered.source))} is embedded with {wanted.name}, "
                f"and this process has {mine.name}",
                hint="name the same one with --model, EVERVEC_MODEL or in evervec.toml "
                "(`evervec model ls` lists them), or serve it from a program that gives App the "
                "same model",
            )

    def _embedding_for(self, space: int) -> Embedding:
        if self._embedding is None or self._embedding.space != space:
            self._embedding = Embedding(
                self.embedder,
                self.state.store,
                space=space,
                stopping=self.stopping.is_set,
                answered=self._keeper.went_on,
            )
        return self._embedding

    def _begin_work(self) -> None:
        settings = self.state.settings.worker
        holder = this_process("worker")
        self._heartbeat = Heartbeat(self._keeper, lambda: another_queue(self.state), holder)
        self._heartbeat.start()
        policy = Policy(
            base=settings.backoff,
            factor=settings.backoff_factor,
            cap=settings.backoff_cap,
            jitter=settings.backoff_jitter,
            attempts_max=settings.attempts,
        )
        attempts = Attempts(self.state.store, self._servings, policy, halt=self._halt)
        worker = Worker(
            self.state.queue,
            attempts,
            keeper=self._keeper,
            holder=holder,
            pace=Pace(claim=settings.claim, slots=settings.slots, poll=settings.poll),
        )
        self._working = asyncio.create_task(self._work(worker))

    async def _work(self, worker: Worker) -> None:
        async def until_stopping() -> None:
            await worker.work(self.stopping)

        while not self.stopping.is_set():
            await guarded(until_stopping, name="working", again=0)

    def _halt(self, scope: Scope, reason: str) -> None:
        serving = self._servings.get(scope)
        if serving:
            self._servings[scope] = replace(serving, halted=reason)
        self._duties.add(asyncio.create_task(self.state.registry.halt(scope, reason)))


def space_of(embedder: Embedder) -> Space:
    return Space(embedder.model, embedder.revision, embedder.dimension)

"""The composition root: settings and a model become running parts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evervec.attempt import Serving
from evervec.capture import Capture
from evervec.clock import SYSTEM, Clock
from evervec.collection import Collection, Declaration, SearchMode
from evervec.embedders import as_embedder
from evervec.errors import ConfigError, EvervecError, SourceError
from evervec.model import LOCAL, Hit, Id, Key, Recall, Scope, Space, encode_id
from evervec.ports import K_MAX, Embedder, Query, Registered
from evervec.recipe import Recipe
from evervec.rerank import Judge, Rerank, reranked
from evervec.serve import Engine, space_of
from evervec.settings import Settings, load
from evervec.specs import Folder, Spec, refuse_unknown_fields, to_json
from evervec.state import State, open_state
from evervec.status import CollectionStatus, status_of
from evervec.text.chunk import ChunkRecipe
from evervec.text.template import Template

log = logging.getLogger("evervec.app")

SYNC_POLL_SECONDS = 0.5


class App:
    """Collections that stay in sync while it runs.

    `async with app:` opens the state, captures and works in this process until the end of the
    block. Any number of processes may do so on one state at the same time.
    """

    def __init__(
        self,
        state: str | Path | None = None,
        *,
        model: object = None,
        queue: str | Path | None = None,
        settings: Settings | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        given = settings or load()
        if state is not None:
            given = replace(given, state=str(state))
        if queue is not None:
            given = replace(given, queue=str(queue))
        self.settings = given
        self._clock = clock
        self._model = given.model if model is None else model
        self._embedder: Embedder | None = None
        self._declared: dict[Scope, Declaration] = {}
        self._state: State | None = None
        self._engine: Engine | None = None
        self._registering = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        self._refused: list[EvervecError] = []

    @property
    def state(self) -> State:
        if self._state is None:
            raise ConfigError(
                "the app is not running", hint="use it inside `async with app:` (or `with app:`)"
            )
        return self._state

    @property
    def embedder(self) -> Embedder:
        if self._embedder is None:
            self._embedder = as_embedder(self._model)
        return self._embedder

    @property
    def space(self) -> Space:
        """The space that this app's model embeds into."""
        return space_of(self.embedder)

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(self.state, self.embedder)
        return self._engine

    def collection(
        self,
        name: str,
        *,
        source: Spec,
        text: str | Template | None = None,
        tenant: str = LOCAL,
        chunk: ChunkRecipe | None = None,
        normalise: bool = False,
        metadata: Sequence[str] = (),
        change: bool = False,
    ) -> Collection:
        """Declare a collection; idempotent, also while the app runs.

        *text* is a template over the source's fields, `{title} {body}`. A collection that
        exists with another recipe or source is refused unless *change* says so; one that exists
        with another model always is, because vectors of two models cannot be compared. While the
        app runs, what is refused is raised by the next call that is awaited.
        """
        if not name or name != name.strip():
            raise ConfigError(f"{name!r} is no name for a collection", hint="give it a plain word")
        scope = Scope(tenant, name)
        recipe = Recipe(
            _template(text, source),
            chunk or ChunkRecipe(),
            normalise,
            tuple(metadata),
            # A table's own column named `kind` must not decide how its text is cut.
            kind="auto" if isinstance(source, Folder) else "plain",
        )
        self._declared[scope] = Declaration(scope, source, recipe, change)
        if self._state is not None:
            task = asyncio.get_running_loop().create_task(self._register_declared())
            self._background.add(task)
            task.add_done_callback(self._background.discard)
        return Collection(self, scope)

    async def open(self, *, create: bool = True) -> None:
        """Open the state without serving anything: for looking and for registering."""
        if self._state is None:
            self._state = await asyncio.to_thread(
                open_state, self.settings, clock=self._clock, create=create
            )
            await self._state.mend_queue()
            await self._register()

    async def close(self) -> None:
        """Stop what runs and let go of everything."""
        # What was declared a moment ago is registered all the same.
        await asyncio.gather(*self._background, return_exceptions=True)
        for error in self._refused:
            log.error("%s", error)
        self._refused.clear()
        if self._engine is not None:
            await self._engine.stop()
            self._engine = None
        if self._state is not None:
            await self._state.close()
            self._state = None
        if self._embedder is not None and self._embedder is not self._model:
            await self._embedder.close()
            self._embedder = None

    async def __aenter__(self) -> Self:
        try:
            await self.open()
            await self.engine.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def collections(self) -> Sequence[Registered]:
        """Return what is registered in the state."""
        await self._register()
        return await self.state.registry.collections()

    async def find(self, name: str, *, tenant: str = LOCAL) -> Registered:
        """Return a registered collection. Raises ConfigError naming those that exist."""
        known = [each for each in await self.collections() if each.scope.tenant == tenant]
        for each in known:
            if each.scope.collection == name:
                return each
        names = ", ".join(repr(each.scope.collection) for each in known)
        raise ConfigError(
            f"no collection {name!r} is registered",
            hint=f"registered: {names}" if names else "none is; start with `evervec watch`",
        )

    async def remove(self, collection: Collection) -> None:
        """Stop following a collection's source and forget all of it."""
        await self._register()
        self._declared.pop(collection.scope, None)
        await self.engine.remove(collection.scope)

    async def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: SearchMode = "hybrid",
        where: Mapping[str, Any] | None = None,
        collections: Sequence[str] | None = None,
        tenant: str = LOCAL,
        explain: bool = False,
        rerank: Rerank | Judge | None = None,
    ) -> Sequence[Hit]:
        """Search several collections of one tenant at once; all of them if none is named.

        With *explain*, each hit says why it is there. With *rerank*, the best hits are ordered by
        another judge, if it answers in time.
        """
        asked = await self._asked(collections, tenant)
        if not query.strip():
            raise ConfigError("the query is empty", hint="ask in words: a question, or a few terms")
        if not asked:
            return []
        refuse_unknown_fields(asked, where or {})
        vector = None
        if mode != "lexical":
            for each in asked:
                await self.engine.check_space(each)
            vector = (await self.embedder.embed([query], kind="query"))[0]
        given = rerank if rerank is None or isinstance(rerank, Rerank) else Rerank(rerank)
        depth = max(k, min(given.depth, K_MAX)) if given else k
        scopes = tuple(each.scope for each in asked)
        hits = await self.state.store.search(
            Query(query, vector, scopes, depth, mode, where or {}, explain)
        )
        if given:
            hits = await reranked(hits, query, given, k)
        return await self._with_freshness(hits, tenant)

    async def check_recall(
        self,
        samples: int = 100,
        *,
        collections: Sequence[str] | None = None,
        tenant: str = LOCAL,
    ) -> Sequence[Recall]:
        """Compare searches with exact ones, by *samples* stored vectors of each collection."""
        if samples < 1:
            raise ConfigError(f"{samples} samples tell nothing", hint="give 1 or more")
        found = [
            await self.state.store.recall(each.scope, samples)
            for each in await self._asked(collections, tenant)
        ]
        return [recall for recall in found if recall is not None]

    async def status(self, *, tenant: str | None = None) -> Sequence[CollectionStatus]:
        """Return how fresh each collection is."""
        return [
            await status_of(self.engine, each)
            for each in await self.collections()
            if tenant is None or each.scope.tenant == tenant
        ]

    async def synced(
        self, scopes: Sequence[Scope] | None = None, *, all_served: bool = True
    ) -> None:
        """Return when all that the sources hold now is searchable or has failed.

        Works by itself where nothing follows the sources; otherwise it only waits. Raises at the
        end if a collection could not be served, unless *all_served* is not asked for.
        """
        await self._register()
        if not self.engine.serving:
            raise ConfigError(
                "the app is open and does not run, so nothing would ever be synced",
                hint="use it inside `async with app:` (or `with app:`)",
            )
        await self.engine.refresh()
        wanted = [c for c in self.engine.captures if scopes is None or c.scope in scopes]
        for capture in wanted:
            await self._captured(capture)
        for capture in wanted:
            while (await self.state.queue.depth(capture.scope)).backlog:
                await self.state.queue.wait(SYNC_POLL_SECONDS)
        for scope, trouble in self.engine.troubles.items():
            if all_served and (scopes is None or scope in scopes):
                raise SourceError(f"collection {scope.collection!r} is not in sync: {trouble}")

    async def _captured(self, capture: Capture) -> None:
        await capture.source.look_again()
        while True:
            while await capture.step():
                pass
            if not await capture.scanning():
                return
            if not await capture.scan_step():
                await self.state.queue.wait(SYNC_POLL_SECONDS)

    @asynccontextmanager
    async def opened(self, scope: Scope) -> AsyncIterator[Serving]:
        """Lend a collection's source, recipe and space, whether or not it is served here."""
        registered = await self.find(scope.collection, tenant=scope.tenant)
        serving = await self.engine.lent(registered)
        try:
            yield serving
        finally:
            await serving.source.close()

    async def _asked(self, names: Sequence[str] | None, tenant: str) -> Sequence[Registered]:
        if names is not None:
            return [await self.find(name, tenant=tenant) for name in dict.fromkeys(names)]
        return [each for each in await self.collections() if each.scope.tenant == tenant]

    async def _register(self) -> None:
        """Register what was declared. Raises what was refused since the last call."""
        await self._register_declared()
        if self._refused:
            raise self._refused.pop(0)

    async def _register_declared(self) -> None:
        async with self._registering:
            if not self._declared:
                return
            while self._declared:
                scope, declaration = next(iter(self._declared.items()))
                del self._declared[scope]
                try:
                    await self._register_one(declaration)
                except EvervecError as error:
                    # The others are registered all the same; whoever awaits next hears of it.
                    self._refused.append(error)
            if self._engine is not None:
                await self._engine.refresh()

    async def _register_one(self, declaration: Declaration) -> None:
        if self.state.holds(declaration.spec.path):
            raise ConfigError(
                f"{declaration.spec.path!r} is evervec's own state, which is no source",
                hint="keep what is to be searched in a database of its own",
            )
        registry = self.state.registry
        known = await registry.find(declaration.scope)
        registered = await registry.register(
            declaration.scope,
            source=to_json(declaration.spec),
            recipe=declaration.recipe.to_json(),
            space=self.space,
            change=declaration.change,
        )
        try:
            await self.engine.prepare(registered, rescan=known not in (None, registered))
        except ConfigError:
            # What cannot be watched is not left behind in the state.
            if known is None:
                await registry.unregister(declaration.scope)
            raise

    async def _with_freshness(self, hits: Sequence[Hit], tenant: str) -> Sequence[Hit]:
        keys: dict[tuple[str, Id], Key] = {}
        for hit in hits:
            id_ = encode_id(hit.id)
            keys[hit.collection, id_] = Key(tenant, hit.collection, id_)
        dirty = await self.state.queue.find(list(keys.values()))
        return [
            replace(hit, fresh=keys[hit.collection, encode_id(hit.id)] not in dirty) for hit in hits
        ]


def _template(text: str | Template | None, source: Spec) -> Template:
    if isinstance(text, Template):
        return text
    if text is None and isinstance(source, Folder):
        return Template.parse("{text}")
    if text is None:
        raise ConfigError(
            "which columns make a document's text is not said",
            hint="give text='{title}\\n\\n{body}' with the table's own columns",
        )
    return Template.parse(text)

"""The same surface without `await`: for scripts, notebooks, Flask and Django.

The event loop runs in a thread of its own, so this works where a loop is already running, as in a
notebook. A test keeps the two surfaces in step.
"""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from evervec import app as asynchronous
from evervec.collection import Collection as AsyncCollection
from evervec.collection import Repair, SearchMode
from evervec.model import LOCAL, Hit, Plain, Recall, Scope
from evervec.ports import Registered
from evervec.rerank import Judge, Rerank
from evervec.settings import Settings
from evervec.specs import Spec
from evervec.status import CollectionStatus
from evervec.text.chunk import ChunkRecipe
from evervec.text.template import Template
from evervec.verify import Report

T = TypeVar("T")


class _Portal:
    """A thread with an event loop in it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="evervec", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Collection:
    """What `evervec.Collection` is, without `await`."""

    def __init__(self, portal: _Portal, collection: AsyncCollection) -> None:
        self._portal = portal
        self._collection = collection

    @property
    def name(self) -> str:
        return self._collection.name

    @property
    def scope(self) -> Scope:
        return self._collection.scope

    def __repr__(self) -> str:
        return repr(self._collection)

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: SearchMode = "hybrid",
        where: Mapping[str, Any] | None = None,
        explain: bool = False,
        rerank: Rerank | Judge | None = None,
    ) -> Sequence[Hit]:
        return self._portal.run(
            self._collection.search(
                query, k, mode=mode, where=where, explain=explain, rerank=rerank
            )
        )

    def verify(self) -> Report:
        return self._portal.run(self._collection.verify())

    def repair(self, limit: int = 10) -> Repair:
        return self._portal.run(self._collection.repair(limit))

    def force(self, id_: Plain) -> bool:
        return self._portal.run(self._collection.force(id_))

    def cancel(self, id_: Plain) -> bool:
        return self._portal.run(self._collection.cancel(id_))

    def synced(self) -> None:
        self._portal.run(self._collection.synced())

    def remove(self) -> None:
        self._portal.run(self._collection.remove())


class App:
    """What `evervec.App` is, without `await`: `with App(…) as app:`."""

    def __init__(
        self,
        state: str | Path | None = None,
        *,
        model: object = None,
        queue: str | Path | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._portal = _Portal()
        self._app = asynchronous.App(state, model=model, queue=queue, settings=settings)

    def __enter__(self) -> Self:
        self._portal.run(self._app.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self, *, create: bool = True) -> None:
        self._portal.run(self._app.open(create=create))

    def close(self) -> None:
        self._portal.run(self._app.close())
        self._portal.close()

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
        async def declare() -> AsyncCollection:
            return self._app.collection(
                name,
                source=source,
                text=text,
                tenant=tenant,
                chunk=chunk,
                normalise=normalise,
                metadata=metadata,
                change=change,
            )

        return Collection(self._portal, self._portal.run(declare()))

    def collections(self) -> Sequence[Registered]:
        return self._portal.run(self._app.collections())

    def find(self, name: str, *, tenant: str = LOCAL) -> Registered:
        return self._portal.run(self._app.find(name, tenant=tenant))

    def remove(self, collection: Collection) -> None:
        collection.remove()

    def search(
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
        return self._portal.run(
            self._app.search(
                query,
                k,
                mode=mode,
                where=where,
                collections=collections,
                tenant=tenant,
                explain=explain,
                rerank=rerank,
            )
        )

    def check_recall(
        self,
        samples: int = 100,
        *,
        collections: Sequence[str] | None = None,
        tenant: str = LOCAL,
    ) -> Sequence[Recall]:
        return self._portal.run(
            self._app.check_recall(samples, collections=collections, tenant=tenant)
        )

    def status(self, *, tenant: str | None = None) -> Sequence[CollectionStatus]:
        return self._portal.run(self._app.status(tenant=tenant))

    def synced(self, scopes: Sequence[Scope] | None = None, *, all_served: bool = True) -> None:
        self._portal.run(self._app.synced(scopes, all_served=all_served))

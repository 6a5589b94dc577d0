"""A collection as its user sees it: search it, verify it, repair it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evervec.errors import ConfigError
from evervec.model import Change, Hit, Key, Plain, Scope, encode_id
from evervec.recipe import Recipe
from evervec.rerank import Judge, Rerank
from evervec.specs import Spec
from evervec.verify import Report, can_be_mended, differing, verify

if TYPE_CHECKING:
    from evervec.app import App

SearchMode = Literal["hybrid", "dense", "lexical"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """What was asked for, before it is registered."""

    scope: Scope
    spec: Spec
    recipe: Recipe
    change: bool


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair found and put in the queue."""

    discovered: int
    queued: int

    def __str__(self) -> str:
        return f"discovered {self.discovered} · queued {self.queued}"


class Collection:
    """One tenant's collection in a running App."""

    def __init__(self, app: "App", scope: Scope) -> None:
        self._app = app
        self.scope = scope

    @property
    def name(self) -> str:
        return self.scope.collection

    def __repr__(self) -> str:
        tenant = f", tenant={self.scope.tenant!r}" if self.scope.tenant else ""
        return f"<collection {self.name!r}{tenant}>"

    async def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: SearchMode = "hybrid",
        where: Mapping[str, Any] | None = None,
        explain: bool = False,
        rerank: Rerank | Judge | None = None,
    ) -> Sequence[Hit]:
        """Return the *k* best documents for *query*, from what is published at this moment."""
        return await self._app.search(
            query,
            k,
            mode=mode,
            where=where,
            collections=[self.name],
            tenant=self.scope.tenant,
            explain=explain,
            rerank=rerank,
        )

    async def verify(self) -> Report:
        """Compare every document in source, state and store; all counts are zero when in sync."""
        async with self._app.opened(self.scope) as serving:
            return await verify(serving, self._app.state.store, self._app.state.queue)

    async def repair(self, limit: int = 10) -> Repair:
        """Put up to *limit* documents that drifted back in the queue.

        Those which wait there already, or have failed and wait for a person, are passed over: they
        never keep a repair from reaching the others. Stops reading at the limit.
        """
        if limit < 1:
            raise ConfigError(f"a repair of {limit} documents does nothing", hint="give 1 or more")
        state = self._app.state
        changes: list[Change] = []
        async with self._app.opened(self.scope) as serving:
            async for _, differences in differing(serving, state.store, state.queue):
                changes += [
                    Change(each.key, force=each.damaged)
                    for each in differences
                    if can_be_mended(each)
                ]
                if len(changes) >= limit:
                    break
        put = await state.queue.put(changes[:limit])
        return Repair(min(len(changes), limit), put.created + put.merged)

    async def force(self, id_: Plain) -> bool:
        """Embed one document again though nothing changed. Return False if it waited already.

        Raises ConfigError if the source does not have it.
        """
        document = encode_id(id_)
        async with self._app.opened(self.scope) as serving:
            reading = await serving.source.read([document])
        if document not in reading.documents:
            raise ConfigError(
                f"collection {self.name!r} has no document {id_!r}",
                hint="ids keep their type: 1 and '1' differ",
            )
        put = await self._app.state.queue.put(
            [Change(Key(self.scope.tenant, self.name, document), force=True)]
        )
        return put.created == 1

    async def cancel(self, id_: Plain) -> bool:
        """Stop what is under way for a document until it changes again; True if something was."""
        state = self._app.state
        fences = await state.queue.cancel([Key(self.scope.tenant, self.name, encode_id(id_))])
        await state.store.bar(fences)
        return bool(fences)

    async def synced(self) -> None:
        """Return when everything the source holds now is searchable or has failed."""
        await self._app.synced([self.scope])

    async def remove(self) -> None:
        """Stop following the source and forget everything; no trace stays, there or here."""
        await self._app.remove(self)

"""One process's door to a model: each text is sent once, live edits first, every answer checked.

A text is *known* when its vector is in the store, *under way* when another attempt of this process
has sent it, and sent otherwise. Vectors are kept after each request, before any document uses
them: that is the ledger which a crash leaves behind. No more requests are sent and not kept yet
than the model has places for, and one: so no more are repeated after a crash.
"""

import asyncio
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from evervec.batch import batches, halves
from evervec.errors import EvervecError, Permanent, Transient, Unavailable
from evervec.faults import reach
from evervec.gate import Gate
from evervec.ledger import Ledger
from evervec.model import Lane
from evervec.ports import Embedder, Store, Vectors

AWAY_SECONDS = 5.0
"""For how long a model that was away is not asked again, unless it said when."""

Want: TypeAlias = tuple[str, bytes]
"""A tenant and the digest of a text: vectors are never shared between tenants."""


@dataclass(slots=True)
class Ensured:
    """What became of the texts that were wanted."""

    embedded: set[Want] = field(default_factory=set)
    reused: set[Want] = field(default_factory=set)
    refused: dict[Want, EvervecError] = field(default_factory=dict)


class Embedding:
    """Sees to it that texts have vectors in one space."""

    def __init__(
        self,
        embedder: Embedder,
        store: Store,
        *,
        space: int,
        stopping: Callable[[], bool] = lambda: False,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self.embedder = embedder
        self.space = space
        self._store = store
        self._stopping = stopping
        self._answered = answered
        places = max(1, embedder.limits.concurrency)
        self._gate = Gate(places)
        # While one answer is kept, another request keeps its place at the model busy.
        self._unkept = Gate(places + 1)
        self._ledger = Ledger(store, space)
        self._under_way: dict[Want, asyncio.Future[None]] = {}
        self._away_until = 0.0
        self._away = ""

    @property
    def hungry(self) -> bool:
        """Whether the model will have nothing to do when it has answered what it is asked now."""
        return not self._gate.waited_for()

    async def ensure(
        self,
        wanted: Mapping[Want, str],
        *,
        lane: Lane,
        force: bool = False,
        together: int | None = None,
    ) -> Ensured:
        """Return when each text's vector is durably in the store, or why it is not.

        With *force* the model is asked again even for texts that are known. With *together*, no
        request holds more texts than that.
        """
        others = {want: self._under_way[want] for want in wanted if want in self._under_way}
        mine = {want: text for want, text in wanted.items() if want not in others}
        turn = asyncio.get_running_loop().create_future()
        self._under_way.update(dict.fromkeys(mine, turn))
        try:
            ensured = await self._ensure(mine, lane=lane, force=force, together=together)
        finally:
            for want in mine:
                del self._under_way[want]
            turn.set_result(None)
        if not others:
            return ensured
        # Waited for, not awaited: cancelling this attempt must not cancel the other's turn.
        await asyncio.wait(set(others.values()))
        # Whoever had sent them may have been refused: what is not known now is asked for again.
        again = {want: wanted[want] for want in others}
        rest = await self.ensure(again, lane=lane, together=together)
        ensured.embedded |= rest.embedded
        ensured.reused |= rest.reused
        ensured.refused |= rest.refused
        return ensured

    async def _ensure(
        self, wanted: Mapping[Want, str], *, lane: Lane, force: bool, together: int | None
    ) -> Ensured:
        ensured = Ensured()
        if not force:
            ensured.reused = await self.known(wanted)
        send = [(want, text) for want, text in wanted.items() if want not in ensured.reused]
        if not send:
            return ensured
        loop = asyncio.get_running_loop()
        texts = [text for _, text in send]
        counts = await loop.run_in_executor(None, self.embedder.count_tokens, texts)
        limits = self.embedder.limits
        if together is not None:
            limits = replace(limits, batch_texts_max=min(together, limits.batch_texts_max))
        async with asyncio.TaskGroup() as group:
            for batch in batches(counts, limits=limits):
                part = [send[place] for place in batch]
                group.create_task(self._send(part, ensured, lane))
        return ensured

    async def known(self, wanted: Iterable[Want]) -> set[Want]:
        """Return those whose vectors the store has."""
        by_tenant: dict[str, list[bytes]] = {}
        for tenant, digest in wanted:
            by_tenant.setdefault(tenant, []).append(digest)
        known: set[Want] = set()
        for tenant, digests in by_tenant.items():
            found = await self._store.known(tenant, self.space, digests)
            known.update((tenant, digest) for digest in found)
        return known

    async def _send(self, part: Sequence[tuple[Want, str]], ensured: Ensured, lane: Lane) -> None:
        """Embed and keep one request; halve a refused one until the guilty text is alone."""
        # Without this gate a slow disk would let answers pile up that a crash pays for again.
        async with self._unkept.place(lane):
            refusal = await self._sent(part, ensured, lane)
        if refusal is None:
            return
        if isinstance(refusal, Permanent) and len(part) > 1:
            for half in halves(part):
                await self._send(half, ensured, lane)
            return
        ensured.refused.update((want, refusal) for want, _ in part)

    async def _sent(
        self, part: Sequence[tuple[Want, str]], ensured: Ensured, lane: Lane
    ) -> EvervecError | None:
        """Ask the model and keep its answer durably, or return why there is none."""
        try:
            async with self._gate.place(lane):
                vectors = await self._asked([text for _, text in part])
        except EvervecError as error:
            return error
        await self._ledger.keep({want: vectors[row] for row, (want, _) in enumerate(part)})
        ensured.embedded.update(want for want, _ in part)
        return None

    async def _asked(self, texts: Sequence[str]) -> Vectors:
        if self._stopping():
            raise Unavailable("this worker is stopping", after=0.0)
        if (left := self._away_until - asyncio.get_running_loop().time()) > 0:
            # All that waits would ask within a moment, again and again: a storm when it comes back.
            raise Unavailable(self._away, after=left)
        reach("attempt.embed")
        try:
            vectors = await self.embedder.embed(texts, kind="document")
        except Unavailable as error:
            raise self._gone(error) from error
        except EvervecError:
            raise
        except Exception as error:
            # An adapter that lets a foreign error through has a defect; its user still gets
            # the whole story, and the job its attempts.
            raise Transient(
                f"model {self.embedder.model!r} raised {error!r}",
                hint="".join(traceback.format_exception(error)),
            ) from error
        reach("attempt.embedded")
        self._answered()
        return checked(vectors, len(texts), self.embedder)

    def _gone(self, error: Unavailable) -> Unavailable:
        after = AWAY_SECONDS if error.after is None else error.after
        self._away, self._away_until = str(error), asyncio.get_running_loop().time() + after
        return Unavailable(str(error), after=after)


def checked(vectors: Vectors, count: int, embedder: Embedder) -> Vectors:
    """Return *vectors* if they are what was asked for: nothing else is ever stored."""
    wanted = (count, embedder.dimension)
    if vectors.shape != wanted:
        raise Permanent(
            f"model {embedder.model!r} answered {vectors.shape} numbers for {wanted}",
            hint="the model does not have the dimension it says it has",
        )
    if not np.isfinite(vectors).all():
        raise Permanent(f"model {embedder.model!r} answered numbers that are not finite")
    return vectors

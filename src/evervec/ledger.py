"""Keeps what a model answered, at once: what a crash finds here is not paid for again."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from evervec.ports import Store, Vector


@dataclass(slots=True, eq=False)
class _Answer:
    vectors: Mapping[tuple[str, bytes], Vector]
    kept: bool = False


class Ledger:
    """Vectors of one space. Answers that come while others are being kept share the next commit."""

    def __init__(self, store: Store, space: int) -> None:
        self._store = store
        self._space = space
        self._answers: list[_Answer] = []
        self._turn = asyncio.Lock()

    async def keep(self, vectors: Mapping[tuple[str, bytes], Vector]) -> None:
        """Return when *vectors*, each by its tenant and its text's digest, are durable."""
        mine = _Answer(vectors)
        self._answers.append(mine)
        try:
            async with self._turn:
                if not mine.kept:
                    await self._keep_all()
        finally:
            # If it came to grief, the others try for themselves.
            self._answers.remove(mine)

    async def _keep_all(self) -> None:
        together = [answer for answer in self._answers if not answer.kept]
        by_tenant: dict[str, dict[bytes, Vector]] = {}
        for answer in together:
            for (tenant, digest), vector in answer.vectors.items():
                by_tenant.setdefault(tenant, {})[digest] = vector
        for tenant, theirs in by_tenant.items():
            await self._store.keep(tenant, self._space, theirs)
        for answer in together:
            answer.kept = True

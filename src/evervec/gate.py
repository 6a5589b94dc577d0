"""A gate with a few places, through which live edits go ahead of backfill."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from evervec.model import Lane


class Gate:
    """At most *places* inside at one time; whoever waits for a live edit is let in first."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[Lane, deque[asyncio.Future[None]]] = {lane: deque() for lane in Lane}

    def waited_for(self) -> bool:
        """Say whether somebody waits for a place."""
        return any(self._waiting.values())

    @asynccontextmanager
    async def place(self, lane: Lane) -> AsyncIterator[None]:
        await self._enter(lane)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, lane: Lane) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting[lane].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place was handed over in the very moment of the cancellation.
                self._leave()
            raise

    def _leave(self) -> None:
        for lane in Lane:
            while self._waiting[lane]:
                turn = self._waiting[lane].popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1

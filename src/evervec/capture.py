"""Source changes into the queue; and everything a source holds, behind live edits.

A change is accepted in the source only after its job is durable in the queue. Both steps repeat
harmlessly, so a crash between them costs nothing. A gap (the source lost changes on the way) is
answered by a scan of everything that exists in the source and everything that is stored: what is
unchanged is noticed by its digest and costs no embedding.
"""

import asyncio
import json
import random
from dataclasses import dataclass, field, replace

from evervec.faults import reach
from evervec.model import Captured, Change, Id, Key, Lane, Scope
from evervec.ports import Notebook, Queue, QueueControl, Source, Store

CHANGES = 2000
PAGE = 2000
BACKLOG_MAX = 20_000
"""A scan stops feeding the queue above this: memory and disk stay flat for any source."""

WAIT_SECONDS = 1.0

SCAN = "scan"
"""What the names of the notes of all scans begin with."""


@dataclass(frozen=True, slots=True)
class Scan:
    """How far a scan has come: the source first, then what is stored."""

    stored: bool = False
    after: Id | None = None
    both: bool = True
    """False: nothing was stored when it began, so what is stored came from the source."""

    def to_bytes(self) -> bytes:
        return json.dumps([self.stored, self.after, self.both]).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> "Scan":
        # Notes of earlier versions have two parts.
        stored, after, *both = json.loads(value)
        return cls(stored, None if after is None else Id(after), *both)

    def behind(self, page: list[Id]) -> "Scan | None":
        """Return what is left of it after *page*; None at its end."""
        if page:
            return replace(self, after=page[-1])
        return Scan(stored=True) if self.both and not self.stored else None


def new_scan(*, both: bool = True) -> dict[str, bytes]:
    """Return the note that begins a scan, under a name of its own.

    Another process may be in the middle of an older scan. Were it the same note, its next page
    would be written over the new beginning, and what lies before that page would not be scanned.
    """
    return {f"{SCAN}/{random.getrandbits(64):016x}": Scan(both=both).to_bytes()}


@dataclass(frozen=True)
class Capture:
    """Follows one collection's source."""

    scope: Scope
    source: Source
    queue: Queue
    control: QueueControl
    store: Store
    notebook: Notebook
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Following and `synced` may both step. One at a time, or each would put the same changes: the
    second put comes when the first is being worked on, and the work is done once more."""

    async def open(self, *, scan: bool) -> None:
        """Make the source ready. A collection seen for the first time is scanned, if *scan*."""
        await self.source.open()
        notes = await self.notebook.load("opened")
        if not notes:
            first: dict[str, bytes] = {}
            if scan:
                # The changes are logged by now. So nothing can be stored of a document that is
                # gone without its deletion being captured, unless it was there before.
                stored = await self.store.documents(self.scope, None, 1)
                first = new_scan(both=bool(stored))
            await self.notebook.save({"opened": b"1", **first})

    async def step(self) -> bool:
        """Move one batch of changes into the queue. False: there are none now."""
        async with self._turn:
            return await self._step()

    async def _step(self) -> bool:
        captured = await self.source.changes(CHANGES)
        if captured is None:
            return False
        reach("capture.read")
        if captured.gap:
            await self.rescan()
        if captured.ids:
            await self._put(captured)
        reach("capture.put")
        await self.source.accept(captured)
        reach("capture.accepted")
        return True

    async def rescan(self) -> None:
        """Begin a scan of everything, durably."""
        await self.notebook.save(new_scan())

    async def scanning(self) -> bool:
        return bool(await self.notebook.load(SCAN))

    async def scan_step(self) -> bool:
        """Move one page of a scan into the queue. False: nothing to do now."""
        async with self._turn:
            return await self._scan_step()

    async def _scan_step(self) -> bool:
        notes = await self.notebook.load(SCAN)
        if not notes:
            return False
        name = min(notes)
        if (await self.control.depth(self.scope)).backlog > BACKLOG_MAX:
            return False
        scan = Scan.from_bytes(notes[name])
        page = await self._page(scan)
        if await self.notebook.load(name) != {name: notes[name]}:
            # Another process has put this very page. Once more would be harmless, and cost each of
            # its documents a second look.
            return True
        await self.queue.put([Change(self._key(id_)) for id_ in page], lane=Lane.BACKFILL)
        left = scan.behind(page)
        await self.notebook.save({name: left.to_bytes() if left else None})
        return True

    async def _page(self, scan: Scan) -> list[Id]:
        if scan.stored:
            stored = await self.store.documents(self.scope, scan.after, PAGE)
            return [id_ for id_, _ in stored]
        return list(await self.source.scan(scan.after, PAGE))

    async def _put(self, captured: Captured) -> None:
        await self.queue.put(
            [Change(self._key(id_), at=captured.at) for id_ in captured.ids], lane=captured.lane
        )

    def _key(self, id_: Id) -> Key:
        return Key(self.scope.tenant, self.scope.collection, id_)


async def follow(capture: Capture) -> None:
    """Capture for ever: every change at once, a scan's pages in between."""
    while True:
        while await capture.step():
            pass
        waits = 0.0 if await capture.scan_step() else WAIT_SECONDS
        await capture.source.wait(waits)

"""A folder, or one file, as a source.

What is durable: for each file that was handed over, its signature (size, times, inode), in the
notebook. A look compares the folder with it, without opening any file. A full look is taken at
the start and from time to time; hints of the operating system make small ones in between.

A file that is moved is one deleted and one new; its text is known by its digest, so it costs no
embedding. A folder that is not there (an unmounted disk) is an error and deletes nothing; one that
is there and empty has no documents, unless it lies on another device than before: that is the
empty place where a disk was mounted.
"""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from evervec.clock import SYSTEM, Clock
from evervec.errors import SourceError
from evervec.model import Captured, Id, Lane, Reading
from evervec.parsing import ParserProcess
from evervec.ports import Notebook
from evervec.sources.files.content import read_documents
from evervec.sources.files.known import BYTES, FILE, Known, Signed, oldest
from evervec.sources.files.look import Lookout
from evervec.sources.files.root import find_tree, refuse_unmounted
from evervec.sources.files.tree import PATTERNS, Tree, id_of, join, order_of, path_of
from evervec.sources.files.watcher import Watcher

T = TypeVar("T")

FILE_BYTES_MAX = 200_000_000
WALK_EVERY = 60.0
"""Seconds between two full walks while hints come."""
POLL_EVERY = 2.0
"""Seconds between two full walks while they do not come, or more where a walk takes long."""
RETRY_EVERY = 1.0
"""Seconds until `wait` comes back to a root that could not be read."""
FRESH_AFTER = 0.15
"""Seconds until files that were just written are looked at once more."""

ROOT = "root"
FIRST = "first"


class FolderSource:
    """Captures the files below *root* that match *patterns* and no rule of an ignore file."""

    def __init__(
        self,
        root: str | Path,
        *,
        notebook: Notebook,
        patterns: Sequence[str] = PATTERNS,
        ignore: Sequence[str] = (),
        file_bytes_max: int = FILE_BYTES_MAX,
        walk_every: float = WALK_EVERY,
        clock: Clock = SYSTEM,
        parsers: ParserProcess | None = None,
    ) -> None:
        self.root = os.path.abspath(root)  # noqa: PTH100 - Path.resolve would follow links
        self._notebook = notebook
        self._patterns = tuple(patterns)
        self._ignore = tuple(ignore)
        self._bytes_max = file_bytes_max
        self._walk_every = walk_every
        self._clock = clock
        self._parsers = parsers or ParserProcess()
        self._closed = False
        self._tree: Tree | None = None
        self._known: Known | None = None
        self._watcher: Watcher | None = None
        self._device: int | None = None
        """Where the root lay when it was last seen with documents, as noted."""
        self._first_done = False
        self._walk_due = 0
        self._walk_now = True
        """Whatever the time: nothing was walked yet, or the last look came to grief."""
        self._fresh_due: int | None = None
        self._lookout: Lookout | None = None
        self._listing: tuple[Id | None, Iterator[Id]] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._woken = asyncio.Event()
        self._walker = ThreadPoolExecutor(1, thread_name_prefix="evervec-walk")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="evervec-files")

    @property
    def watching(self) -> bool:
        """Tell whether hints come (or would, if the system did not refuse them)."""
        return self._watcher is not None and self._watcher.ready.is_set()

    async def open(self) -> None:
        """Start to watch. Raises ConfigError for a path that never was, SourceError for one that went."""
        await self._watch(await self._prepare())

    async def _watch(self, tree: Tree) -> None:
        if self._watcher is not None:
            if self._watcher.root == tree.root:
                return
            await self._on(self._walker, self._watcher.close)
        loop = asyncio.get_running_loop()

        def wake() -> None:
            # The loop may be closed while the last hints arrive.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._woken.set)

        self._watcher = Watcher(tree.root, recursive=tree.only is None, fits=tree.fits, wake=wake)

    async def look_again(self) -> None:
        """Walk at the next look: a watcher tells of a change a moment after it happened."""
        self._walk_now = True

    async def changes(self, limit: int) -> Captured | None:
        async with self._one_at_a_time:
            self._woken.clear()
            tree = await self._followed()
            known = await self._load()
            device = await self._on(self._walker, lambda: self._look(tree, known))
            batch, lane = known.next(limit)
            notes = known.claim(batch)
            if device is not None and device != self._device:
                notes[ROOT] = _root_note(tree, device)
                self._device = device
            await self._note(notes)
            if not batch:
                await self._end_first(known, {})
                return None
            at = oldest(batch) if lane is Lane.LIVE else None
            return Captured(
                tuple(id_of(path) for path, _ in batch),
                tuple(batch),
                lane,
                at=None if at is None else min(at, self._clock.now()),
            )

    async def accept(self, captured: Captured) -> None:
        async with self._one_at_a_time:
            known = await self._load()
            batch: Sequence[Signed] = captured.mark
            notes = known.accept(batch)
            await self._end_first(known, notes)

    async def scan(self, after: Id | None, limit: int) -> Sequence[Id]:
        tree = await self._prepare()
        return await self._on(self._walker, lambda: self._page(tree, after, limit))

    async def read(self, ids: Sequence[Id]) -> Reading:
        """Read files as they are now. One that is left out by a rule does not exist."""
        tree = await self._prepare()
        reading = await self._on(
            self._reader,
            lambda: read_documents(tree, ids, bytes_max=self._bytes_max, parse=self._parsers.parse),
        )
        if len(reading.documents) + len(reading.broken) < len(set(ids)):
            # Nothing may be taken for deleted because its disk is gone.
            await self._refuse_vanished(tree)
        return reading

    async def _refuse_vanished(self, tree: Tree) -> None:
        device = await self._on(self._reader, tree.device)
        if self._device is not None and device != self._device:
            # Another process may have noted meanwhile where the root lies now.
            self._device = (await self._noted()).get("device")
            await self._on(
                self._reader, lambda: refuse_unmounted(tree, noted=self._device, device=device)
            )

    async def _noted(self) -> dict[str, Any]:
        noted = (await self._notebook.load(ROOT)).get(ROOT)
        note: dict[str, Any] = json.loads(noted) if noted else {}
        return note

    async def wait(self, timeout: float) -> None:
        due = self._walk_due if self._fresh_due is None else min(self._walk_due, self._fresh_due)
        left = max(0.0, (due - self._clock.boot()) / 1000)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), min(timeout, left))

    async def unseen(self, limit: int) -> Sequence[Id] | None:
        async with self._one_at_a_time:
            tree, known = await self._followed(), await self._load()
            await self._on(self._walker, lambda: self._look(tree, known))
            return tuple(id_of(path) for path in known.unseen(limit))

    async def close(self) -> None:
        self._closed = True

        def end() -> None:
            if self._watcher is not None:
                self._watcher.close()
            self._parsers.close()
            self._walker.shutdown()
            self._reader.shutdown()

        await asyncio.get_running_loop().run_in_executor(None, end)
        self._watcher = None

    async def remove(self) -> None:
        """Forget the files that were seen. In the folder itself there is nothing to remove."""
        async with self._one_at_a_time:
            notes = await self._notebook.load()
            mine = {
                note: None
                for note in notes
                if note in {ROOT, FIRST} or note.startswith((FILE, BYTES))
            }
            await self._notebook.save(mine)
            self._known, self._device, self._first_done = None, None, False

    async def _on(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        if self._closed:
            # Whoever still works with a source that was closed or replaced tries again later.
            raise SourceError(f"the watch on {self.root!r} was closed meanwhile")
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    async def _prepare(self) -> Tree:
        if self._tree is None:
            note = await self._noted()
            self._device = note.get("device")
            self._tree = await self._on(
                self._walker,
                lambda: find_tree(
                    self.root, kind=note.get("kind"), patterns=self._patterns, ignore=self._ignore
                ),
            )
        return self._tree

    async def _followed(self) -> Tree:
        """Return the tree; another one, watched anew, if the root's link leads elsewhere now."""
        tree = await self._prepare()
        if self._walk_now or self._clock.boot() >= self._walk_due:
            root = self.root if tree.only is None else os.path.dirname(self.root)  # noqa: PTH120 - beside realpath
            if await self._on(self._walker, lambda: os.path.realpath(root)) != tree.root:
                self._tree = self._lookout = self._listing = None
                self._walk_now = True
                tree = await self._prepare()
        if self._watcher is not None:
            await self._watch(tree)
        return tree

    async def _load(self) -> Known:
        if self._known is None:
            notes = await self._notebook.load(FILE) | await self._notebook.load(BYTES)
            self._first_done = FIRST in await self._notebook.load(FIRST)
            self._known = Known(notes)
            self._lookout = None
            self._walk_now = True
        return self._known

    async def _end_first(self, known: Known, notes: dict[str, bytes | None]) -> None:
        # Saved with the last batch of the first walk: what comes later is live.
        if not self._first_done and not self._walk_now and not known.is_pending(Lane.BACKFILL):
            notes[FIRST] = b"1"
            self._first_done = True
        await self._note(notes)

    async def _note(self, notes: dict[str, bytes | None]) -> None:
        try:
            if notes:
                await self._notebook.save(notes)
        except BaseException:
            # What is in memory is ahead of what is durable: begin again from the notes.
            self._known = None
            raise

    def _look(self, tree: Tree, known: Known) -> int | None:
        """Bring *known* up to date as far as is due; return the root's device after a full walk."""
        touched, everything = self._watcher.take() if self._watcher else (set[str](), False)
        now = self._clock.boot()
        if self._fresh_due is not None and now >= self._fresh_due:
            touched |= known.fresh
        try:
            due = everything or self._walk_now or now >= self._walk_due
            self._lookout = lookout = self._lookout or Lookout(tree, known)
            if due or not lookout.look_at(touched):
                return self._walk(tree, known, lookout)
        except BaseException:
            # The hints are taken and their work is not done.
            self._walk_now, self._walk_due = True, now + int(RETRY_EVERY * 1000)
            raise
        finally:
            if not known.fresh:
                self._fresh_due = None
            elif self._fresh_due is None or now >= self._fresh_due:
                self._fresh_due = now + int(FRESH_AFTER * 1000)
        return None

    def _walk(self, tree: Tree, known: Known, lookout: Lookout) -> int:
        began = self._clock.boot()
        device = tree.device()
        if len(known):
            refuse_unmounted(tree, noted=self._device, device=device)
        lane = Lane.LIVE if self._first_done else Lane.BACKFILL
        lookout.see_below("", lane)
        took = (self._clock.boot() - began) / 1000
        watched = self._watcher is not None and not self._watcher.failed
        every = self._walk_every if watched else max(POLL_EVERY, 20 * took)
        self._walk_due = self._clock.boot() + int(min(every, self._walk_every) * 1000)
        self._walk_now = False
        return device

    def _page(self, tree: Tree, after: Id | None, limit: int) -> list[Id]:
        # A caller who goes through page by page continues one walk.
        at, walk = self._listing or (None, None)
        if walk is None or after is None or at != after:
            walk = _ids(tree, after)
        self._listing = None
        page = list(islice(walk, limit))
        if page:
            self._listing = page[-1], walk
        return page


def _ids(tree: Tree, after: Id | None) -> Iterator[Id]:
    path = path_of(after) if after is not None else None
    behind = order_of(path) if path is not None else None
    for folder in tree.walk():
        for name in folder.files or ():
            inside = join(folder.path, name)
            if behind is None or order_of(inside) > behind:
                yield id_of(inside)


def _root_note(tree: Tree, device: int) -> bytes:
    kind = "folder" if tree.only is None else "file"
    return json.dumps({"kind": kind, "device": device}).encode()

"""What every source promises. An adapter's test class inherits `SourceSuite` and makes a world.

class TestMine(SourceSuite):
    @pytest.fixture
    async def world(self, tmp_path):
        world = MyWorld(tmp_path)
        yield world
        await world.close()
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from evervec.model import Id
from evervec.ports import Source

PATIENCE_SECONDS = 10.0


class World(Protocol):
    """A real place with documents, and somebody who edits them as other programs would."""

    versioned: bool
    """Whether the source has a counter of its own; without one, versions are 0."""

    @property
    def source(self) -> Source:
        """The source under test, opened."""

    def id(self, number: int) -> Id:
        """Return the id that the source gives the document *number*."""

    def insert(self, number: int, text: str) -> None: ...

    def update(self, number: int, text: str) -> None: ...

    def delete(self, number: int) -> None: ...

    def lose(self) -> None:
        """Do what makes changes unrecoverable: overflow the log, replace the file.

        The documents stay. A source that cannot lose changes does nothing.
        """

    def traces(self) -> object:
        """Return what else than documents lies in the place, to be compared."""

    def text_of(self, fields: object) -> str:
        """Return the text among a document's fields."""

    async def reopen(self) -> None:
        """Close the source and open a new one on the same place with the same notes."""


class SourceSuite:
    """The conformance tests; `world` is a fixture that yields a `World`."""

    loses = True
    """Whether `lose` makes this source report a gap."""

    async def test_nothing_has_changed_at_first(self, world: World) -> None:
        assert await world.source.changes(10) is None

    async def test_an_insert_an_update_and_a_delete_are_seen(self, world: World) -> None:
        world.insert(1, "one")
        assert await drained(world.source) == {world.id(1)}
        world.update(1, "one, edited")
        assert await drained(world.source) == {world.id(1)}
        world.delete(1)
        assert await drained(world.source) == {world.id(1)}

    async def test_a_change_comes_again_until_it_is_accepted(self, world: World) -> None:
        world.insert(1, "one")
        first = await changed(world.source, {world.id(1)})
        again = await world.source.changes(10)
        assert again is not None
        assert set(again.ids) == {world.id(1)}
        await world.reopen()
        assert first <= await changed(world.source, {world.id(1)})
        assert await drained(world.source) == {world.id(1)}
        assert await world.source.changes(10) is None

    async def test_what_was_accepted_does_not_come_again_after_a_restart(
        self, world: World
    ) -> None:
        world.insert(1, "one")
        await drained(world.source)
        await world.reopen()
        assert await world.source.changes(10) is None

    async def test_a_change_while_nobody_looks_is_seen_after_a_restart(self, world: World) -> None:
        world.insert(1, "one")
        world.insert(2, "two")
        await drained(world.source)
        world.update(1, "one, edited")
        world.delete(2)
        await world.reopen()
        assert await drained(world.source) == {world.id(1), world.id(2)}

    async def test_what_nobody_accepted_can_be_told_without_taking_it(self, world: World) -> None:
        await world.reopen()
        assert await world.source.unseen(10) == ()
        for number in range(3):
            world.insert(number, f"text {number}")
        before = world.traces()
        for _ in range(2):
            assert set(await told(world.source, 3)) == {world.id(number) for number in range(3)}
        assert world.traces() == before
        assert len(await drained(world.source)) == 3
        assert await world.source.unseen(10) == ()

    async def test_a_batch_names_a_document_once_and_keeps_to_its_limit(self, world: World) -> None:
        for number in range(20):
            world.insert(number, f"text {number}")
            world.update(number, f"text {number}, edited")
        seen: set[Id] = set()
        for _ in range(200):
            captured = await world.source.changes(7)
            if captured is None and len(seen) == 20:
                break
            if captured is None:
                await world.source.wait(0.1)
                continue
            assert len(set(captured.ids)) == len(captured.ids) <= 7
            seen |= set(captured.ids)
            await world.source.accept(captured)
        assert seen == {world.id(number) for number in range(20)}

    async def test_a_read_returns_what_exists_and_only_that(self, world: World) -> None:
        world.insert(1, "one")
        world.insert(2, "two")
        world.delete(2)
        reading = await world.source.read([world.id(1), world.id(2), world.id(3)])
        assert set(reading.documents) == {world.id(1)}
        assert world.text_of(reading.documents[world.id(1)].fields) == "one"

    async def test_versions_grow_in_commit_order(self, world: World) -> None:
        """A source without a counter of its own says 0, always."""
        versions = []
        for text in ("one", "two", "three"):
            (world.insert if text == "one" else world.update)(1, text)
            versions.append((await world.source.read([world.id(1)])).version)
        if not world.versioned:
            assert versions == [0, 0, 0]
            return
        assert versions == sorted(set(versions))
        await world.reopen()
        assert (await world.source.read([world.id(1)])).version >= versions[-1]

    async def test_a_scan_is_complete_ordered_and_paged(self, world: World) -> None:
        for number in range(25):
            world.insert(number, f"text {number}")
        first = await scanned(world.source, 4)
        assert len(first) == len(set(first))
        assert set(first) == {world.id(number) for number in range(25)}
        assert await scanned(world.source, 1000) == first

    async def test_a_scan_goes_on_behind_a_document_that_was_deleted(self, world: World) -> None:
        for number in range(10):
            world.insert(number, f"text {number}")
        order = await scanned(world.source, 100)
        gone = next(number for number in range(10) if world.id(number) == order[4])
        world.delete(gone)
        assert list(await world.source.scan(order[4], 100)) == order[5:]

    async def test_a_loss_is_reported_as_a_gap_until_accepted(self, world: World) -> None:
        if not self.loses:
            return
        world.insert(1, "one")
        before = (await world.source.read([world.id(1)])).version
        world.lose()
        for _ in range(2):
            captured = await world.source.changes(10)
            assert captured is not None
            assert captured.gap
        assert captured is not None
        await world.source.accept(captured)
        assert await world.source.changes(10) is None
        assert (await world.source.read([world.id(1)])).version >= before
        world.update(1, "one, edited")
        assert await drained(world.source) == {world.id(1)}

    async def test_an_edit_ends_the_waiting(self, world: World) -> None:
        world.insert(1, "one")
        await drained(world.source)
        waiting = asyncio.ensure_future(world.source.wait(PATIENCE_SECONDS))
        begun = time.monotonic()
        world.update(1, "one, edited")
        await waiting
        assert time.monotonic() - begun < PATIENCE_SECONDS / 2
        assert await changed(world.source, {world.id(1)})

    async def test_opening_twice_changes_nothing(self, world: World) -> None:
        world.insert(1, "one")
        traces = world.traces()
        await world.source.open()
        assert world.traces() == traces
        assert await drained(world.source) == {world.id(1)}

    async def test_removing_leaves_no_trace(self, world: World) -> None:
        world.insert(1, "one")
        await drained(world.source)
        await world.source.remove()
        assert not world.traces()
        await world.source.remove()


async def changed(source: Source, expected: set[Id]) -> set[Id]:
    """Return the ids of the next batch that names all *expected* ones, without accepting it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        captured = await source.changes(1000)
        if captured is not None and expected <= set(captured.ids):
            return set(captured.ids)
        await source.wait(0.1)
    raise AssertionError(f"{expected} never came")


async def told(source: Source, count: int) -> Sequence[Id]:
    """Wait until *count* documents are told that nobody accepted."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        ids = await source.unseen(10)
        if ids is not None and len(ids) >= count:
            return ids
        await source.wait(0.1)
    raise AssertionError("the changes are not told")


async def drained(source: Source) -> set[Id]:
    """Wait for a change, accept until there is none, and return all ids that came."""
    until = time.monotonic() + PATIENCE_SECONDS
    ids: set[Id] = set()
    while time.monotonic() < until:
        captured = await source.changes(1000)
        if captured is None:
            if ids:
                return ids
            await source.wait(0.1)
            continue
        assert not captured.gap
        ids |= set(captured.ids)
        await source.accept(captured)
    raise AssertionError("no change came")


async def scanned(source: Source, limit: int) -> list[Id]:
    """Return all ids, in pages of at most *limit*."""
    ids: list[Id] = []
    while page := await source.scan(ids[-1] if ids else None, limit):
        assert isinstance(page, Sequence)
        assert len(page) <= limit
        ids += page
    return ids

"""The small parts that the engine is made of: gate, keeper, loop, portions, freshness."""

import asyncio
import logging

import pytest

from evervec.errors import LeaseLost, SourceError, StateError
from evervec.gate import Gate
from evervec.holder import this_process
from evervec.keeper import Keeper
from evervec.loop import every, guarded
from evervec.model import TEXT_BYTES, Chunk, Id, Job, Key, Lane, Piece, Stored
from evervec.plan import Work, is_stored, portions
from evervec.ports import Renewed
from evervec.recipe import Prepared
from evervec.status import freshness
from evervec.testing.clock import VirtualClock

pytestmark = pytest.mark.anyio
ME = this_process("test")


async def settled():
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


class Visitors:
    """Tasks that want to pass a gate; each waits inside until it is told to leave."""

    def __init__(self, gate):
        self.gate = gate
        self.inside = []
        self.tasks = {}
        self.leave = {}

    def come(self, name, lane):
        self.leave[name] = asyncio.Event()

        async def visit():
            async with self.gate.place(lane):
                self.inside.append(name)
                await self.leave[name].wait()

        self.tasks[name] = asyncio.create_task(visit())


async def test_a_gate_lets_in_as_many_as_it_has_places():
    visitors = Visitors(Gate(2))
    for name in "abc":
        visitors.come(name, Lane.BACKFILL)
    await settled()
    assert visitors.inside == ["a", "b"]
    visitors.leave["a"].set()
    await settled()
    assert visitors.inside == ["a", "b", "c"]
    for event in visitors.leave.values():
        event.set()
    await asyncio.gather(*visitors.tasks.values())


async def test_a_gate_tells_whether_somebody_waits():
    gate = Gate(1)
    visitors = Visitors(gate)
    visitors.come("first", Lane.BACKFILL)
    await settled()
    assert not gate.waited_for()
    visitors.come("second", Lane.BACKFILL)
    await settled()
    assert gate.waited_for()
    for event in visitors.leave.values():
        event.set()
    await asyncio.gather(*visitors.tasks.values())
    assert not gate.waited_for()


async def test_a_live_edit_passes_the_gate_before_a_backfill_that_came_earlier():
    visitors = Visitors(Gate(1))
    visitors.come("first", Lane.BACKFILL)
    await settled()
    visitors.come("backfill", Lane.BACKFILL)
    visitors.come("live", Lane.LIVE)
    await settled()
    visitors.leave["first"].set()
    await settled()
    assert visitors.inside == ["first", "live"]
    for event in visitors.leave.values():
        event.set()
    await asyncio.gather(*visitors.tasks.values())


async def test_who_gives_up_waiting_takes_no_place_along():
    """Also when it is cancelled in the very moment that a place is handed to it."""
    visitors = Visitors(Gate(1))
    visitors.come("first", Lane.LIVE)
    await settled()
    visitors.come("gives up", Lane.LIVE)
    visitors.come("gives up late", Lane.LIVE)
    visitors.come("patient", Lane.LIVE)
    await settled()
    visitors.tasks["gives up"].cancel()
    await settled()
    visitors.leave["first"].set()
    while not visitors.tasks["first"].done():
        await asyncio.sleep(0)
        # Its place may be handed over by now, but it has not entered yet.
        if "gives up late" not in visitors.inside:
            visitors.tasks["gives up late"].cancel()
    await settled()
    assert visitors.inside == ["first", "patient"]
    visitors.leave["patient"].set()
    await asyncio.gather(*visitors.tasks.values(), return_exceptions=True)
    visitors.come("later", Lane.BACKFILL)
    await settled()
    assert visitors.inside[-1] == "later"
    visitors.leave["later"].set()
    await visitors.tasks["later"]


class Renewals:
    """A queue of which only `renew` is asked: it confirms what it is told to."""

    def __init__(self, held, stopped=()):
        self.held = frozenset(held)
        self.stopped = frozenset(stopped)
        self.asked = []

    async def renew(self, fences, *, holder, lease_for):
        self.asked.append(list(fences))
        return Renewed(self.held, self.stopped)


@pytest.mark.accepts("001-39", "000-29")
async def test_a_lease_is_not_trusted_to_its_very_end():
    """It is counted from before it was asked for, and its last fifth is left alone."""
    clock = VirtualClock()
    keeper = Keeper(clock, lease_for=100)
    sent = keeper.sent()
    clock.advance(10)  # the claim took its time
    keeper.add(7, sent)
    clock.advance(69)
    assert keeper.held(7) == frozenset()
    clock.advance(1)
    with pytest.raises(LeaseLost, match="lease 7"):
        keeper.held(7)


async def test_setting_the_wall_clock_changes_no_trust():
    clock = VirtualClock()
    keeper = Keeper(clock, lease_for=100)
    keeper.add(7, keeper.sent())
    clock.set_back(100_000)
    assert keeper.held(7) == frozenset()


@pytest.mark.accepts("001-39", "001-08")
async def test_a_confirmed_renewal_extends_the_trust():
    clock = VirtualClock()
    keeper = Keeper(clock, lease_for=100)
    keeper.add(7, keeper.sent())
    clock.advance(79)
    await keeper.beat(Renewals([7]), ME)
    clock.advance(79)
    assert keeper.held(7) == frozenset()
    clock.advance(1)
    with pytest.raises(LeaseLost):
        keeper.held(7)


async def test_what_a_renewal_does_not_confirm_is_lost_at_once():
    clock = VirtualClock()
    keeper = Keeper(clock, lease_for=100)
    for fence in (7, 8):
        keeper.add(fence, keeper.sent())
    await keeper.beat(Renewals([8]), ME)
    assert keeper.held(8) == frozenset()
    with pytest.raises(LeaseLost):
        keeper.held(7)


async def test_a_renewal_tells_which_jobs_were_taken_back():
    clock = VirtualClock()
    keeper = Keeper(clock, lease_for=100)
    keeper.add(7, keeper.sent())
    await keeper.beat(Renewals([7], stopped=[3]), ME)
    await keeper.beat(Renewals([7], stopped=[4]), ME)
    assert keeper.held(7) == {3, 4}


async def test_a_lease_that_was_dropped_during_a_renewal_is_finished_not_lost():
    clock = VirtualClock()
    keeper = Keeper(clock, lease_for=100)

    class Drops(Renewals):
        async def renew(self, fences, *, holder, lease_for):
            keeper.drop(7)
            return await super().renew(fences, holder=holder, lease_for=lease_for)

    keeper.add(7, keeper.sent())
    await keeper.beat(Drops([7]), ME)
    assert keeper.fences() == []


async def test_without_a_lease_nothing_is_renewed():
    queue = Renewals([])
    await Keeper(VirtualClock(), lease_for=1).beat(queue, ME)
    assert queue.asked == []


async def test_a_failed_renewal_leaves_the_trust_as_it_was():
    """Trouble is not loss: the lease still runs."""
    clock = VirtualClock()
    keeper = Keeper(clock, lease_for=100)

    class Fails(Renewals):
        async def renew(self, fences, *, holder, lease_for):
            raise StateError("the disk is full")

    keeper.add(7, keeper.sent())
    with pytest.raises(StateError):
        await keeper.beat(Fails([]), ME)
    assert keeper.held(7) == frozenset()


async def test_a_duty_survives_its_own_trouble(caplog):
    """What went wrong is logged with the duty's name, and the duty is done again."""
    turns: list[int] = []
    done = asyncio.Event()

    async def duty():
        turns.append(len(turns))
        if len(turns) == 1:
            raise SourceError("the cable is out")
        if len(turns) == 2:
            raise ZeroDivisionError
        done.set()

    with caplog.at_level(logging.WARNING, logger="evervec"):
        task = asyncio.create_task(every(0.001, duty, name="testing"))
        async with asyncio.timeout(10):
            await done.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    first, second = caplog.records[:2]
    assert "testing: the cable is out" in first.getMessage()
    assert first.exc_info is None
    assert "testing went wrong" in second.getMessage()
    assert second.exc_info is not None


async def test_a_cancelled_duty_is_cancelled():
    async def duty():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await guarded(duty, name="testing", again=1)


def work(number, pieces):
    job = Job(number, Key("", "c", Id(str(number))), Lane.LIVE, 1, 0, False, 0)
    piece = Piece(Chunk("x", 0, 1), b"d")
    return Work(job, None if pieces is None else Prepared(b"", (piece,) * pieces, {}), 1)


def sizes(works, most):
    return [[each.job.job for each in portion] for portion in portions(works, most)]


@pytest.mark.parametrize(
    ("pieces", "cut"),
    [
        ([], []),
        ([1, 1, 1], [[0, 1, 2]]),
        ([4, 4, 4], [[0, 1], [2]]),
        ([4, 6, 1], [[0, 1], [2]]),
        ([1, 50, 1], [[0], [1], [2]]),
        ([None, 0, 10, None], [[0, 1, 2, 3]]),
    ],
)
def test_a_batch_is_cut_into_portions_of_a_size_in_its_order(pieces, cut):
    """A larger document is its own portion; a deletion takes no room."""
    assert sizes([work(number, size) for number, size in enumerate(pieces)], 10) == cut


@pytest.mark.accepts("R-01")
def test_a_text_is_stored_if_it_is_in_the_same_space_and_not_deleted():
    digest, other_metadata = b"d" * TEXT_BYTES + b"1", b"d" * TEXT_BYTES + b"2"
    stored = Stored(1, 1, digest, 1, deleted=False, space=1)
    assert is_stored(digest, stored, 1)
    assert is_stored(other_metadata, stored, 1)
    assert not is_stored(b"e" * TEXT_BYTES, stored, 1)
    assert not is_stored(digest, stored, 2)
    assert not is_stored(digest, None, 1)
    assert not is_stored(digest, Stored(1, 1, digest, 1, deleted=True, space=1), 1)


@pytest.mark.parametrize(
    ("documents", "unsynced", "stored_share", "share"),
    [
        (0, 0, 0.0, 1.0),
        (10, 0, 1.0, 1.0),
        (10, 1, 1.0, 0.9),
        (0, 5, 0.0, 0.0),
        (0, 5, 1.0, 0.0),
        (5, 5, 0.0, 0.5),
        (10, 10, 0.5, 1 / 3),
        (5, 10, 1.0, 0.0),
    ],
)
def test_freshness_is_the_share_of_documents_whose_newest_text_is_searchable(
    documents, unsynced, stored_share, share
):
    """A job is for a stored document, whose text is old, or for one that is not counted yet."""
    assert freshness(documents, unsynced, stored_share) == pytest.approx(share)

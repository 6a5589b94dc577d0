"""The power goes at any moment; what was reported done is there when it is back.

Random verbs of the real queue and the real store run on a disk that keeps, drops or tears what was
not synced. Life after life of the same database: each ends in a cut, some while the last one is
still being recovered from. What is found must be, row by row, what the last reported commit left,
or that plus the one commit that was under way.
"""

import random
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from tests.simulation.budget import PARTS, seconds
from tests.simulation.harness import SPACE, digest, expect, pieces, vector
from tests.simulation.recorded import Content, State, closing_loop

from evervec.errors import StateError
from evervec.model import Change, Holder, Key, Lane, Lease, Mode, Publication, encode_id
from evervec.model import State as JobState
from evervec.outcome import Done, Fail, Outcome, Release, Retry
from evervec.testing.clock import VirtualClock
from evervec.testing.invariants import books_agree, no_orphans
from evervec.testing.powerloss import Disk

CUTS = 200
LIVES = 5
"""Cuts that one database sees, one after the other."""
SECONDS = seconds(0.05, at_least=0.0)

TENANTS = ("one", "two")
KEYS = [Key(tenant, "docs", encode_id(n)) for tenant in TENANTS for n in range(6)]
TEXTS = [
    f"{a} of the {b}\n\nand {a}" for a in ("lease", "fence") for b in ("queue", "store", "log")
]


@dataclass(slots=True)
class Told:
    """What callers were told was done: the promises, in the words of the ports."""

    fence: int = 0
    ended: set[int] = field(default_factory=set)
    kept: set[tuple[str, bytes]] = field(default_factory=set)
    wanted: dict[Key, str] = field(default_factory=dict)
    """The text that each document should have, or must be asked for again."""
    published: dict[Key, int] = field(default_factory=dict)
    version: int = 0


class Caller:
    """One process that uses queue and store as workers and operators do, in random order."""

    def __init__(self, state: State, told: Told, dice: random.Random, name: str) -> None:
        self.state, self.queue, self.store = state, state.queue, state.store
        self.told, self.dice = told, dice
        self.holder = Holder("worker", "host", 1, 1, name)
        self.leases: list[Lease] = []

    async def act(self) -> None:
        self.state.clock.advance(self.dice.choice((0.001, 0.1, 3.0, 40.0)))
        verbs = (self.put, self.put, self.claim, self.claim, self.work, self.work, self.work)
        await self.dice.choice((*verbs, self.renew, self.cancel, self.prune, self.order))()

    async def put(self) -> None:
        keys = self.dice.sample(KEYS, self.dice.randrange(1, 6))
        changes = [Change(key, force=self.dice.random() < 0.1) for key in keys]
        await self.queue.put(changes, lane=self.dice.choice(list(Lane)))
        self.told.wanted.update((key, self.dice.choice(TEXTS)) for key in keys)

    async def claim(self) -> None:
        lease = await self.queue.claim(
            self.dice.choice((1, 4, 20)), holder=self.holder, lease_for=30.0
        )
        if lease is not None:
            assert lease.fence > self.told.fence, "a fence was given twice"
            assert not {job.job for job in lease.jobs} & self.told.ended, "a settled job came back"
            self.told.fence = lease.fence
            self.leases.append(lease)

    async def work(self) -> None:
        """Keep, publish and settle what a lease holds."""
        if not self.leases:
            return await self.claim()
        lease = self.leases.pop()
        self.told.version += 1
        made = [self.publication(job.key) for job in lease.jobs]
        for tenant in TENANTS:
            texts = {
                piece.digest: piece.chunk.embedded
                for one in made
                if one.key.tenant == tenant
                for piece in one.pieces
            }
            await self.store.keep(
                tenant, SPACE, {name: vector(text) for name, text in texts.items()}
            )
            self.told.kept.update((tenant, name) for name in texts)
        verdicts = await self.store.publish(made, fence=lease.fence, space=SPACE)
        for publication, verdict in zip(made, verdicts, strict=True):
            if verdict == "published":
                self.told.published[publication.key] = publication.version
        outcomes = {job.job: self.outcome() for job in lease.jobs}
        settled = await self.queue.settle(lease.fence, outcomes)
        gone = {job for job, outcome in outcomes.items() if isinstance(outcome, Done)}
        self.told.ended |= settled.ended & gone
        return None

    def publication(self, key: Key) -> Publication:
        if self.dice.random() < 0.2:
            return Publication(key, self.told.version, b"", deleted=True)
        text = self.told.wanted.get(key, TEXTS[0])
        return Publication(key, self.told.version, digest(text), pieces(text))

    def outcome(self) -> Outcome:
        others = (Fail("it cannot be", "Permanent"), Release(0.0, "again"), Retry(1.0, "no", "T"))
        return self.dice.choice((Done(), Done(), Done(), *others))

    async def renew(self) -> None:
        fences = [lease.fence for lease in self.leases]
        renewed = await self.queue.renew(fences, holder=self.holder, lease_for=30.0)
        self.leases = [lease for lease in self.leases if lease.fence in renewed.held]
        await self.queue.reap()

    async def cancel(self) -> None:
        await self.store.bar(await self.queue.cancel(self.dice.sample(KEYS, 2)))

    async def order(self) -> None:
        await self.queue.set_mode(self.dice.choice((Mode.PAUSED, Mode.RUNNING, Mode.RUNNING)))
        parked = (JobState.FAILED, JobState.CANCELLED, JobState.QUARANTINED)
        views = await self.queue.jobs(states=parked)
        await self.queue.replay([view.job for view in views[::2]])
        await self.queue.drop([view.job for view in views[1::2]])

    async def prune(self) -> None:
        now = self.state.clock.now()
        # What is pruned is forgotten in the same breath, whether or not it is reported.
        self.told.kept.clear()
        await self.store.prune(unused_before=now - 1000, limit=3)
        await self.queue.prune(finished_before=now - 1000, parked_before=None, limit=3)
        if self.dice.random() < 0.2:
            scope = self.dice.choice(KEYS).scope
            self.told.published.clear()
            await self.queue.forget(scope)
            await self.store.forget(scope)


@cache
def _template() -> bytes:
    """Return the file of a state whose tables are made: most lives begin there."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        with closing_loop(0) as loop:
            state = State(loop, str(path), clock=VirtualClock())
            state.run(state.open())
            state.close()
        return path.read_bytes()


def check(state: State, told: Told, allowed: list[Content]) -> None:
    """Check what is found after a cut against what was committed and what was told."""
    database = state.database
    assert database.read_now(lambda connection: connection.pragma("integrity_check")) == "ok"
    found = database.look()
    assert found in allowed, "neither as before nor as after the commit under way"
    database.committed = database.pending = found
    state.run(state.open())
    jobs = {view.job for view in state.run(state.queue.jobs(limit=1000))}
    assert not jobs & told.ended, "what was settled is not settled"
    for tenant in TENANTS:
        names = [name for of, name in told.kept if of == tenant]
        known = state.run(state.store.known(tenant, SPACE, names))
        assert known == set(names), "a text would be paid for again"
    stored = state.run(state.store.look(list(told.published)))
    for key, version in told.published.items():
        assert stored[key].version >= version, f"{key} went back"
    # The leases of another boot are void; what was half forgotten is swept. Then the books agree.
    state.run(state.queue.reap())
    state.run(state.store.prune(unused_before=0, limit=1))
    database.write_now(lambda connection: no_orphans(connection, (), expect))
    database.write_now(lambda connection: books_agree(connection, (), expect))


def live(
    state: State, disk: Disk, told: Told, allowed: list[Content], dice: random.Random
) -> list[Content]:
    """Recover, check and work until the power goes; return what may be found afterwards."""
    caller = Caller(state, told, dice, state.boot)
    database = state.database
    with suppress(StateError):
        if allowed:
            check(state, told, allowed)
        else:
            database.committed = database.pending = database.look()
            state.run(state.open())
        while True:
            state.run(caller.act())
    assert disk.is_off, "an error while the power was on"
    found = [database.committed, database.pending]
    # If it went before anything was looked at, nothing was changed either.
    return found if any(found) or not allowed else allowed


def cut_again_and_again(seed: int, folder: Path, *, synchronous: str = "full") -> int:
    """Run one database through its lives; return how many cuts hit work that was under way."""
    folder.mkdir()
    dice = random.Random(seed)
    here, hits = folder / "0", 0
    here.mkdir()
    if seed % 5:
        (here / "state.db").write_bytes(_template())
    told, clock = Told(), VirtualClock()
    allowed: list[Content] = []
    with closing_loop(seed) as loop:
        for life in range(1, LIVES + 1):
            disk = Disk()
            disk.cut_at = 1 + dice.randrange(dice.choice((10, 60, 300, 900)))
            state = State(loop, disk.uri(here / "state.db"), clock=clock, boot=f"boot{life}")
            try:
                with suppress(StateError):
                    state.database.set("synchronous", synchronous)
                    state.database.set("wal_autocheckpoint", str(dice.choice((4, 20, 1000))))
                allowed = live(state, disk, told, allowed, dice)
                hits += allowed[0] != allowed[-1]
                here = folder / str(life)
                disk.lose_power(here, dice)
            finally:
                with suppress(apsw.Error):  # it would checkpoint, but the machine is off
                    state.close()
        last = State(loop, str(here / "state.db"), clock=clock, boot="last")
        try:
            check(last, told, allowed)
        finally:
            last.close()
    return hits


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_what_was_reported_done_survives_every_cut(part: int, tmp_path: Path) -> None:
    """No put, fence, settlement, vector or publication is lost, and nothing is half there."""
    started, cuts, hits = time.monotonic(), 0, 0
    for seed in range(part, 1_000_000, PARTS):
        folder = tmp_path / str(seed)
        try:
            hits += cut_again_and_again(seed, folder)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        shutil.rmtree(folder)
        cuts += LIVES
        if cuts >= CUTS / PARTS and time.monotonic() - started > SECONDS:
            break
    # A cut between two commits proves little: many must hit one.
    assert hits > cuts / 3


def test_a_database_that_syncs_less_is_caught(tmp_path: Path) -> None:
    """The control: without a sync at each commit, what was reported is found missing."""

    def many() -> None:
        for seed in range(1, 30):
            cut_again_and_again(seed, tmp_path / str(seed), synchronous="normal")

    with pytest.raises(AssertionError, match=r"neither|settled|paid|back"):
        many()

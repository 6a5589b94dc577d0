"""Builds a world from a seed: tables, writers, the real queue and store, faults, and checks."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any, TypeVar

import apsw
import numpy as np

from evervec import faults
from evervec.errors import EvervecError
from evervec.model import Chunk, Holder, Lane, Lease, Piece, Publication, Scope, Verdict
from evervec.outcome import Outcome
from evervec.ports import Renewed, Settled, Vector
from evervec.queues.sqlite import SqliteQueue
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.testing.chaos import Chaos, Faults, LoopClock
from evervec.testing.invariants import Audit, Expect, Expected, Violation, at_rest, owed
from evervec.testing.simulation import Actor, SimulatedLoop
from evervec.testing.world import SimulatedSource, Table, Writer

T = TypeVar("T")

BOOT = "simulated-boot"
SPACE = 1
DIMENSION = 8


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


@cache
def vector(text: str) -> np.ndarray:
    raw = np.frombuffer(blake2b(text.encode(), digest_size=DIMENSION * 2).digest(), "<u2")
    values = raw.astype(np.float32) - 32768
    return values / np.float32(np.linalg.norm(values))


@cache
def pieces(body: str) -> tuple[Piece, ...]:
    """Cut at empty lines: a chunker that is easy to see through."""
    cut, start = [], 0
    for part in body.split("\n\n"):
        if part:
            cut.append(Piece(Chunk(part, start, start + len(part)), digest(part)))
        start += len(part) + 2
    return tuple(cut)


@cache
def expect(body: str) -> Expected:
    chunks = tuple(
        (piece.chunk.text, vector(piece.chunk.embedded).astype("<f4").tobytes())
        for piece in pieces(body)
    )
    return Expected(digest(body), chunks)


class WatchedDatabase(Database):
    """Knows what it is doing, and looks at the world after each commit."""

    doing = ""
    after_commit: Callable[[str, apsw.Connection], None] | None = None

    @cached_property
    def connection(self) -> apsw.Connection:
        """The only one there is: all runs on one thread."""
        return self.read_now(lambda connection: connection)

    def write_now(self, work: Callable[[apsw.Connection], T], label: str = "") -> T:
        self.doing = label
        try:
            answer = super().write_now(work, label)
        finally:
            # Also when the answer is lost: what is committed must be right.
            if self.after_commit is not None:
                self.after_commit(label, self.connection)
            self.doing = ""
        return answer


async def _tick() -> None:
    # Time goes on even when everybody is dead or waits.
    for _ in range(100_000):
        await asyncio.sleep(1.0)


class _Room:
    """One database for world after world: emptied, because preparing statements anew is slow."""

    def __init__(self) -> None:
        self.database = WatchedDatabase("file:/evervec-simulation?vfs=memdb")
        SqliteQueue(self.database).open()
        loop = SimulatedLoop(0)
        loop.run_until_complete(SqliteStore(self.database).open())
        loop.dispose()
        self.connection = self.database.connection
        self.world: World | None = None
        self.audit = Audit(self.connection, may_settle=self._may_settle, may_reap=self._may_reap)
        tables = self.connection.execute(
            "select name from pragma_table_list where schema = 'main' and type = 'table'"
            " and name not in ('sqlite_schema', 'evervec_schema')"
        )
        self._tables = [name for (name,) in tables.fetchall()]
        self._first = {
            name: rows
            for name in self._tables
            if (rows := self.connection.execute(f"select * from {name}").fetchall())
        }

    def _may_settle(self, fence: int) -> bool:
        return self.world is None or self.world.may_settle(fence)

    def _may_reap(self, pid: int, expires: int) -> bool:
        return self.world is None or self.world.may_reap(pid, expires)

    def empty(self) -> None:
        run = self.connection.execute
        for name in self._tables:
            run(f"delete from {name}")
        for name, rows in self._first.items():
            self.connection.executemany(
                f"insert into {name} values ({', '.join('?' * len(rows[0]))})", rows
            )
        run("insert into store_text (store_text) values ('delete-all')")
        run("delete from temp.audit")
        run("delete from temp.rare")


@cache
def _room() -> _Room:
    return _Room()


class WatchedQueue(SqliteQueue):
    """Tells the world which leases its process was given, and what became of them."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.database, clock=world.clock, boot=BOOT, alive=world.is_alive)
        self._world = world

    async def claim(
        self, limit: int, *, holder: Holder, lease_for: float, lane: Lane | None = None
    ) -> Lease | None:
        sent = self._world.clock.boot()
        lease = await super().claim(limit, holder=holder, lease_for=lease_for, lane=lane)
        if lease is not None:
            self._world.ends[lease.fence] = sent + int(lease_for * 1000)
            self._world.fences.setdefault(self._world.me, set()).add(lease.fence)
        return lease

    async def renew(self, fences: Sequence[int], *, holder: Holder, lease_for: float) -> Renewed:
        sent = self._world.clock.boot()
        renewed = await super().renew(fences, holder=holder, lease_for=lease_for)
        self._world.ends.update(dict.fromkeys(renewed.held, sent + int(lease_for * 1000)))
        self._world.check_strangers(renewed.held)
        self._world.rare["lease lost at renewal"] += len(set(fences) - renewed.held)
        return renewed

    async def settle(self, fence: int, outcomes: Mapping[int, Outcome]) -> Settled:
        settled = await super().settle(fence, outcomes)
        self._world.rare["handed back at settle"] += len(settled.again)
        self._world.rare["lease lost at settle"] += len(outcomes.keys() - settled.held)
        return settled


class WatchedStore(SqliteStore):
    """Counts verdicts, and publications under leases that are lost."""

    def __init__(self, world: "World") -> None:
        # In some worlds every document is a large one.
        large = 0 if world.seed % 4 == 3 else None
        super().__init__(world.database, clock=world.clock, large=large)
        self._world = world

    async def publish(
        self, publications: Sequence[Publication], *, fence: int, space: int
    ) -> Sequence[Verdict]:
        self._world.publishing[self._world.me] = fence
        self._world.check_trust(fence)
        verdicts = await super().publish(publications, fence=fence, space=space)
        self._world.rare.update(f"verdict {verdict}" for verdict in verdicts)
        return verdicts

    async def keep(self, tenant: str, space: int, vectors: Mapping[bytes, Vector]) -> None:
        kept = {(tenant, digest) for digest in vectors}
        self._world.rare["paid for again"] += len(kept & self._world.ever_kept)
        self._world.ever_kept |= kept
        await super().keep(tenant, space, vectors)

    async def known(self, tenant: str, space: int, digests: Sequence[bytes]) -> frozenset[bytes]:
        known = await super().known(tenant, space, digests)
        if any((tenant, digest) not in self._world.ever_kept for digest in known):
            self._world.violate(f"S12: tenant {tenant!r} was told what another one has")
        return known


class _Defects(logging.Handler):
    """Collects what the product logs as an error that it never meant to happen."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, EvervecError) and not _only_trouble(error):
            self.found.append(f"{record.getMessage()}: {error!r}")


def _only_trouble(error: BaseException | None) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(_only_trouble(part) for part in error.exceptions)
    return isinstance(error, EvervecError)


@dataclass(slots=True)
class Report:
    """What a schedule did. Equal seeds give equal reports, digest included."""

    seed: int
    picks: int = 0
    digest: str = ""
    violation: str = ""
    faults: Counter[str] = field(default_factory=Counter)
    rare: Counter[str] = field(default_factory=Counter)


class World:
    """One schedule: everything in it follows from the seed."""

    def __init__(self, seed: int, *, calm: bool = False) -> None:
        self.seed = seed
        self.calm = calm
        self.loop = SimulatedLoop(seed, picks_max=60_000)
        self.dice = self.loop.random
        # Product code may draw delays of its own.
        random.seed(seed)
        self.clock = LoopClock(self.loop)
        self.tables = [Table(Scope("one", "docs")), Table(Scope("two", "docs"))]
        self.writer = Writer(self.tables, self.dice, documents=self.dice.choice((2, 4, 8)))
        self.chaos = Chaos(self.loop, Faults() if calm else self._draw_faults(), clock=self.clock)
        self.trouble = 0.0 if calm else self.dice.choice((0.0, 0.0, 0.02, 0.1))
        self.slowness = 0.0 if calm else self.dice.choice((0.0, 0.0, 0.1, 0.4))
        room = _room()
        room.empty()
        self.database = room.database
        self.connection = room.connection
        self.audit = room.audit
        room.world = self
        self.database.after_commit = self._after_commit
        self.rare: Counter[str] = Counter()
        self.fences: dict[Actor, set[int]] = {}
        self.publishing: dict[Actor, int] = {}
        self.ends: dict[int, int] = {}
        """Until when a lease may be trusted at most, as its holder was told."""
        self.trusts_in_time = False
        """Whether workers promise to publish only while their lease lasts."""
        self.ever_kept: set[tuple[str, bytes]] = set()
        self.holders: dict[int, Actor] = {}
        self.commits = 0
        self.write_rate = self.dice.choice((0.01, 0.03, 0.1))
        self.expect: Expect = expect
        self.loses_logs = False
        self.writes_left = self.dice.choice((5, 20, 40))
        self.restart: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {}
        self._violation: BaseException | None = None
        self._restarts: list[tuple[int, str]] = []
        self._active: dict[str, Actor] = {}
        self._faults_end = 0
        self._faults_over = asyncio.Event()
        self._faults_over.set()

    def _draw_faults(self) -> Faults:
        # Swarm testing: each world has its own mixture, so that rare ones meet long calm.
        dice = self.dice
        return Faults(
            crash=dice.choice((0.0, 0.002, 0.01)),
            freeze=dice.choice((0.0, 0.005, 0.02)),
            jump=dice.choice((0.0, 0.003, 0.01)),
            at_label=dice.choice((0.0, 0.0, 0.03, 0.1)),
            unknown=dice.choice((0.0, 0.0, 0.03, 0.1)),
        )

    # Parts, one set a process

    def queue(self) -> "WatchedQueue":
        return WatchedQueue(self)

    def store(self) -> "WatchedStore":
        return WatchedStore(self)

    def source(self, table: Table) -> SimulatedSource:
        return SimulatedSource(table, trouble=self.trouble if self.chaos.on else 0.0, patience=8.0)

    def holder(self) -> Holder:
        """Describe the process that asks, so that others can see whether it lives."""
        actor = self.me
        self.holders[actor.number] = actor
        return Holder(actor.name, "host", actor.number, actor.number, BOOT)

    @property
    def me(self) -> Actor:
        actor = self.loop.current
        assert actor is not None
        return actor

    def is_alive(self, holder: Holder) -> bool:
        actor = self.holders.get(holder.pid)
        return actor is not None and actor.alive

    def may_settle(self, fence: int) -> bool:
        if self.database.doing != "queue.settle" or self.loop.current is None:
            return True
        return fence in self.fences.get(self.loop.current, set())

    def may_reap(self, pid: int, expires: int) -> bool:
        actor = self.holders.get(pid)
        return expires <= self.clock.boot() or actor is None or not actor.alive

    def violate(self, what: str) -> None:
        self._violation = self._violation or Violation(what)

    def check_strangers(self, held: frozenset[int]) -> None:
        """S7: check that nobody renews what was given to another process."""
        given = {
            fence for actor, mine in self.fences.items() if actor is not self.me for fence in mine
        }
        if held & given:
            self.violate(f"S7: leases {sorted(held & given)} were renewed by a stranger")

    def check_trust(self, fence: int) -> None:
        """S5: between asking whether the lease lasts and publishing, no time passes."""
        if self.trusts_in_time and self.clock.boot() >= self.ends[fence]:
            self.violate(f"S5: a worker went to publish under lease {fence}, which was over")

    # Processes that are started again when they die

    def start(self, name: str, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self.restart[name] = work
        actor = self.loop.spawn(name, work(name))
        self._active[name] = actor
        self.chaos.victims.append(actor)

    def _start_again(self) -> None:
        for name, actor in self._active.items():
            task = actor.task
            if actor.alive and task is not None and task.done() and not task.cancelled():
                error = task.exception()
                if error is not None:
                    raise error
                # It ended in order, as told.
                self.loop.kill(actor)
            if not actor.alive and actor in self.chaos.victims:
                self.chaos.victims.remove(actor)
                self._restarts.append((self.loop.picks + self.dice.randrange(40), name))
        due = [name for pick, name in self._restarts if pick <= self.loop.picks]
        if due:
            self._restarts = [one for one in self._restarts if one[1] not in due]
            for name in due:
                self.start(name, self.restart[name])

    # Between steps

    def _before_pick(self) -> None:
        if self._violation is not None:
            raise self._violation
        if self._faults_over.is_set():
            return
        self.chaos.between_picks()
        self._start_again()
        if self.writes_left and self.dice.random() < self.write_rate:
            self.writes_left -= 1
            self.writer.act()
            if self.loses_logs and self.dice.random() < 0.02:
                self.dice.choice(self.tables).lose_log()
                self.rare["a log lost its past"] += 1
        if self.loop.picks >= self._faults_end:
            self._faults_over.set()

    def _after_commit(self, label: str, connection: apsw.Connection) -> None:
        self.commits += 1
        try:
            self.audit.check()
            if self.commits % 4 == 0:
                owed(connection, self.tables, self.expect)
        except Violation as violation:
            self._violation = self._violation or violation
        fence = self.publishing.get(self.loop.current) if self.loop.current else None
        if label == "store.stage":
            self.rare["published in parts"] += 1
        if label == "store.publish" and fence is not None:
            held = connection.execute("select 1 from lease where fence = ?", (fence,)).get
            if held is None:
                self.rare["published after the lease was lost"] += 1

    # The whole schedule

    async def faults_until(self, picks: int) -> None:
        """Let everything run and break for about so many picks, then stop breaking it."""
        self._faults_end = self.loop.picks + picks
        self._faults_over = asyncio.Event()
        clockwork = asyncio.create_task(_tick())
        await self._faults_over.wait()
        clockwork.cancel()
        self.chaos.on = False
        self.trouble = 0.0
        self.loop.thaw()
        if not self.calm and self.dice.random() < 0.75:
            for actor in self.chaos.victims:
                self.loop.kill(actor)

    def run(self, schedule: Callable[["World"], Coroutine[Any, Any, None]]) -> Report:
        report = Report(self.seed)
        faults.hook = self.chaos.at_label
        defects = _Defects()
        log = logging.getLogger("evervec")
        log.addHandler(defects)
        log.propagate = False
        self.loop.before_pick = self._before_pick
        try:
            self.loop.run_until_complete(schedule(self))
            owed(self.connection, self.tables, self.expect)
            at_rest(self.connection, self.tables, self.expect)
            if self.loop.errors:
                report.violation = "; ".join(self.loop.errors)
        except Exception as error:  # noqa: BLE001 - whatever broke is the schedule's result
            report.violation = f"{type(error).__name__}: {error}"
        finally:
            faults.hook = None
            if defects.found and not report.violation:
                report.violation = "; ".join(defects.found)
            self.rare.update(self.audit.reached())
            report.picks = self.loop.picks
            for row in self.connection.execute(
                "select id, version, fence, digest, deleted from store_document order by 1, 2, 3"
            ):
                self.loop.note(repr(row))
            report.digest = self.loop.digest
            report.faults.update(self.chaos.counts)
            report.rare.update(self.rare)
            self.database.after_commit = None
            # What is unwound now may complain, to nobody.
            self.loop.dispose()
            log.removeHandler(defects)
            log.propagate = True
        return report

"""The queue against a small model of what it promises, over random histories."""

import asyncio
import uuid
from collections import Counter
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from evervec.model import Lane, Mode, State
from evervec.outcome import Done, Fail, Release, Retry
from evervec.queues.sqlite import SqliteQueue
from evervec.sqlite.database import Database
from evervec.testing.clock import VirtualClock
from evervec.testing.queue_suite import BOOT, alive, changes, holder, key

DOCUMENTS = st.integers(0, 5)
OUTCOMES = st.sampled_from(
    [Done(), Retry(0, "r", "E"), Retry(9, "r", "E"), Fail("f", "E"), Release(), Release(9)]
)
PARKED = (State.FAILED, State.QUARANTINED, State.CANCELLED)


@dataclass
class Row:
    state: State = State.READY
    want: int = 1
    took: int = 0
    attempts: int = 0
    crashes: int = 0
    fence: int = 0
    number: int = 0

    @property
    def dirty(self):
        return self.want > self.took


class Model(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.clock = VirtualClock()
        self.database = Database(f"file:/{uuid.uuid4().hex}?vfs=memdb")
        self.queue = SqliteQueue(self.database, clock=self.clock, boot=BOOT, alive=alive)
        self.queue.open()
        self.loop = asyncio.new_event_loop()
        self.rows: dict[object, Row] = {}
        self.leases: list[tuple[int, int, str, list[object]]] = []
        self.numbers: dict[tuple[int, object], int] = {}
        self.open: dict[int, str] = {}
        self.mode = Mode.RUNNING

    def teardown(self):
        self.loop.run_until_complete(self.queue.close())
        self.database.close_now()
        self.loop.close()

    def do(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    @rule(documents=st.lists(DOCUMENTS, min_size=1, max_size=4), lane=st.sampled_from(Lane))
    def put(self, documents, lane):
        new = {key(document) for document in documents} - self.rows.keys()
        put = self.do(self.queue.put(changes(documents), lane=lane))
        assert (put.created, put.merged) == (len(new), len(documents) - len(new))
        for each in {key(document) for document in documents}:
            row = self.rows.get(each)
            if row is None:
                self.rows[each] = Row()
            else:
                row.want += 1
                if row.state in PARKED:
                    row.state, row.attempts, row.crashes = State.READY, 0, 0

    @rule(limit=st.integers(1, 9), name=st.sampled_from(["w1", "dead"]))
    def claim(self, limit, name):
        lease = self.do(self.queue.claim(limit, holder=holder(name), lease_for=60))
        claimable = {State.READY, State.SUSPECT, State.DELAYED}
        if lease is None:
            waiting = {row.state for row in self.rows.values()}
            # A suspect that has to be alone waits until its process holds nothing else.
            busy = name in self.open.values()
            ready = waiting & {State.READY, State.SUSPECT}
            assert self.mode is not Mode.RUNNING or not ready or busy
            return
        assert self.mode is Mode.RUNNING
        assert 0 < len(lease.jobs) <= limit
        assert all(lease.fence > row.fence for row in self.rows.values())
        for job in lease.jobs:
            row = self.rows[job.key]
            self.numbers[lease.fence, job.key] = job.job
            assert row.state in claimable
            assert (job.took, job.attempts) == (row.want, row.attempts)
            row.state, row.took, row.fence, row.number = (
                State.LEASED,
                row.want,
                lease.fence,
                job.job,
            )
        taken = [job.key for job in lease.jobs]
        self.open[lease.fence] = name
        self.leases.append((lease.fence, self.clock.boot() + 60_000, name, taken))

    @rule(pick=st.randoms(use_true_random=False), outcome=OUTCOMES)
    def settle(self, pick, outcome):
        if not self.leases:
            return
        fence, _, _, taken = pick.choice(self.leases)
        chosen = [each for each in taken if pick.random() < 0.7]
        held = {
            each: self.rows[each].number
            for each in chosen
            if each in self.rows
            and (self.rows[each].state, self.rows[each].fence) == (State.LEASED, fence)
        }
        numbers = {self.numbers[fence, each]: outcome for each in chosen}
        settled = self.do(self.queue.settle(fence, numbers))
        assert settled.held == set(held.values())
        for each, number in held.items():
            assert (number in settled.again) == self.rows[each].dirty
            self.end(each, self.rows[each], outcome)
        if not any((row.state, row.fence) == (State.LEASED, fence) for row in self.rows.values()):
            self.open.pop(fence, None)

    def end(self, each, row, outcome):
        if isinstance(outcome, Release):
            row.state = State.DELAYED if outcome.after else State.READY
        elif row.dirty:
            row.state, row.attempts = State.DELAYED, 0
            row.crashes = 0 if isinstance(outcome, Done) else row.crashes
        elif isinstance(outcome, Done):
            del self.rows[each]
        else:
            row.attempts += 1
            row.state = State.FAILED if isinstance(outcome, Fail) else State.DELAYED

    @rule(seconds=st.sampled_from([0.06, 5, 61]))
    def pass_time(self, seconds):
        self.clock.advance(seconds)

    @rule()
    def reap(self):
        now = self.clock.boot()
        gone = {
            fence: taken
            for fence, expires, name, taken in self.leases
            if fence in self.open and (expires <= now or name == "dead")
        }
        expected = set()
        names = Counter(self.open.values())
        for fence, taken in gone.items():
            for each in taken:
                row = self.rows.get(each)
                if row and (row.state, row.fence) == (State.LEASED, fence):
                    expected.add(each)
                    alone = len(taken) == 1 and names[self.open[fence]] == 1
                    row.crashes += alone
                    killer = alone and row.crashes >= 3 and not row.dirty
                    row.state = State.QUARANTINED if killer else State.SUSPECT
        assert set(self.do(self.queue.reap())) == expected
        self.open = {fence: name for fence, name in self.open.items() if fence not in gone}

    @rule(document=DOCUMENTS)
    def cancel(self, document):
        row = self.rows.get(key(document))
        fences = self.do(self.queue.cancel([key(document)]))
        assert bool(fences) == bool(row and row.state not in PARKED)
        if row and fences:
            assert fences[key(document)] > row.fence
            row.state = State.CANCELLED

    @rule(document=DOCUMENTS, drop=st.booleans())
    def replay_or_drop(self, document, drop):
        found = self.do(self.queue.find([key(document)]))
        numbers = [view.job for view in found.values()]
        row = self.rows.get(key(document))
        verb = self.queue.drop if drop else self.queue.replay
        assert self.do(verb(numbers)) == int(bool(row and row.state in PARKED))
        if row and row.state in PARKED:
            if drop:
                del self.rows[key(document)]
            else:
                row.state, row.attempts, row.crashes = State.READY, 0, 0

    @rule(mode=st.sampled_from(Mode))
    def set_mode(self, mode):
        self.do(self.queue.set_mode(mode))
        self.mode = mode

    @invariant()
    def rows_are_as_the_model_says(self):
        found = {view.key: view for view in self.do(self.queue.jobs())}
        assert found.keys() == self.rows.keys()
        for each, row in self.rows.items():
            view = found[each]
            if (view.state, row.state) == (State.READY, State.DELAYED):
                row.state = State.READY  # a claim promoted it
            assert view.state is row.state
            assert (view.attempts, view.crashes) == (row.attempts, row.crashes)
            assert not (row.state is State.FAILED and row.dirty), "S10"
        held = sum(row.state is State.LEASED for row in self.rows.values())
        assert self.do(self.queue.mode()) == (self.mode, held)


Model.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestQueueModel = Model.TestCase

"""The SQLite queue, in a file and in memory."""

import asyncio
import os
import sys
import threading
import uuid
from asyncio.subprocess import PIPE
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest

from evervec.clock import SYSTEM
from evervec.holder import this_process
from evervec.model import Change, Mode, State
from evervec.outcome import Done, Fail, Retry
from evervec.queues.sqlite import SqliteQueue
from evervec.sqlite.database import Database
from evervec.sqlite.events import SqliteEvents
from evervec.testing.clock import VirtualClock
from evervec.testing.queue_suite import (
    BOOT,
    QueueSuite,
    alive,
    all_of,
    changes,
    holder,
    key,
    take,
    view,
)


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture(params=["file", "memory"])
def database(request, tmp_path):
    in_file = request.param == "file"
    path = tmp_path / "state.db" if in_file else f"file:/{uuid.uuid4().hex}?vfs=memdb"
    database = Database(path)
    yield database
    database.close_now()


@pytest.fixture
async def queue(database, clock):
    queue = SqliteQueue(database, clock=clock, boot=BOOT, alive=alive)
    queue.open()
    yield queue
    await queue.close()


class TestSqliteQueue(QueueSuite):
    pass


async def test_who_counted_before_the_last_job_ended_does_not_sleep_through_its_end(queue):
    """A claim in between looks for work, and hears nothing for those who wait for the end."""
    await queue.put(changes([1]))
    lease = await take(queue)
    await queue.wait(0.01)
    assert (await queue.depth()).backlog == 1

    async def work():
        await queue.settle(lease.fence, all_of(lease, Done()))
        assert await queue.claim(1, holder=holder(), lease_for=9) is None

    await asyncio.create_task(work())
    async with asyncio.timeout(5):
        await queue.wait(30)
    assert (await queue.depth()).backlog == 0


@pytest.mark.parametrize("looks", ["claim", "depth"])
async def test_what_was_due_at_the_last_look_does_not_end_the_next_wait(queue, clock, looks):
    """A queue that is paused, or whose writer is busy, is not asked again without a pause."""
    await queue.put([*changes([1, 2]), Change(key(3), priority=1)])
    lease = await take(queue, 3)
    first, second, held = lease.jobs
    retries = {first.job: Retry(1, "no", "E"), second.job: Retry(90, "no", "E")}
    await queue.settle(lease.fence, retries)
    await queue.set_mode(Mode.PAUSED)
    clock.advance(59.999)
    await queue.wait(0.01)

    async def look():
        if looks == "claim":
            assert await queue.claim(1, holder=holder(), lease_for=9) is None
        else:
            assert (await queue.depth()).backlog == 3

    async def wait_often():
        # Some of what was just written may still be news.
        for _ in range(20):
            await look()
            await queue.wait(30)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wait_often(), 0.3)
    assert held.key == key(3)
    await look()
    clock.advance(30.1)
    async with asyncio.timeout(5):
        await queue.wait(30)


async def facts(database):
    return [
        (event.type, event.document)
        for event in await SqliteEvents(database).events(tenant="", after=0, limit=100)
    ]


async def test_what_happens_to_jobs_is_in_the_event_log(database, queue):
    await queue.put(changes([1, 2, 3]))
    lease = await take(queue)
    one, two, three = sorted(lease.jobs, key=lambda job: job.key)
    await queue.settle(
        lease.fence, {one.job: Done(), two.job: Retry(0, "r", "E"), three.job: Fail("f", "E")}
    )
    await queue.replay([three.job])
    await queue.cancel([key(3)])
    for _ in range(3):
        await take(queue, by=holder("dead"))
        await queue.reap()
    assert await facts(database) == [
        ("job.retry_scheduled", "2"),
        ("job.failed", "3"),
        ("job.replayed", "3"),
        ("job.cancelled", "3"),
        ("lease.expired", None),
        ("lease.expired", None),
        ("lease.expired", None),
        ("job.quarantined", "2"),
    ]


@pytest.mark.accepts("000-09")
async def test_everything_survives_a_restart(tmp_path, clock):
    for _ in range(2):
        database = Database(tmp_path / "state.db")
        queue = SqliteQueue(database, clock=clock, boot=BOOT, alive=alive)
        queue.open()
        await queue.put(changes(range(10)))
        await queue.close()
        await database.close()
    database = Database(tmp_path / "state.db")
    queue = SqliteQueue(database, clock=clock, boot=BOOT, alive=alive)
    lease = await take(queue)
    assert {job.took for job in lease.jobs} == {2}
    assert len((await queue.settle(lease.fence, all_of(lease, Done()))).ended) == 10
    await queue.close()
    await database.close()


@pytest.mark.accepts("R-06")
async def test_twenty_claimers_never_hold_a_job_twice(tmp_path):
    """In one process, each with its own connections, finishing and claiming at once."""
    path = tmp_path / "state.db"
    databases = [Database(path) for _ in range(20)]
    queues = [SqliteQueue(database) for database in databases]
    queues[0].open()
    await queues[0].put(changes(range(1000)))
    taken: list[int] = []

    async def work(queue, number):
        while lease := await queue.claim(7, holder=this_process(f"w{number}"), lease_for=60):
            taken.extend(job.job for job in lease.jobs)
            settled = await queue.settle(lease.fence, all_of(lease, Done()))
            assert len(settled.ended) == len(lease.jobs)

    await asyncio.gather(*(work(queue, number) for number, queue in enumerate(queues)))
    assert len(taken) == len(set(taken)) == 1000
    for queue, database in zip(queues, databases, strict=True):
        await queue.close()
        await database.close()


def test_processes_that_make_the_same_new_state_at_once_all_succeed(tmp_path):
    """Each has connections of its own; here they are threads, so that they truly meet."""
    for number in range(10):
        path = tmp_path / f"{number}.db"
        start = threading.Barrier(6)

        def begin(path=path, start=start):
            database = Database(path)
            start.wait()
            try:
                database.migrate("events", "evervec.sqlite.schema")
            finally:
                database.close_now()

        with ThreadPoolExecutor(6) as threads:
            for each in [threads.submit(begin) for _ in range(6)]:
                each.result()
        assert [each.name for each in tmp_path.glob(f"{number}.db*")] == [path.name]


CLAIMERS = """
import asyncio, sys
from evervec.holder import this_process
from evervec.outcome import Done, Retry
from evervec.queues.sqlite import SqliteQueue
from evervec.sqlite.database import Database

async def work(path, name):
    database = Database(path)
    queue = SqliteQueue(database)
    taken = []
    while lease := await queue.claim(7, holder=this_process(name), lease_for=60):
        taken.append(lease)
    for lease in taken:
        outcomes = {job.job: Done() if job.job % 10 else Retry(3600, "no", "E") for job in lease.jobs}
        assert len((await queue.settle(lease.fence, outcomes)).ended) == len(lease.jobs)
    await queue.close()
    await database.close()
    return [job.job for lease in taken for job in lease.jobs]

async def main(path):
    parts = await asyncio.gather(*(work(path, f"w{number}") for number in range(5)))
    print(*(job for part in parts for job in part))

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.accepts("R-06", "R-26", "001-73", "002-09", "002-28")
async def test_twenty_claimers_in_four_processes_never_hold_a_job_twice(tmp_path):
    """Nothing is settled before all is held, so a job in two answers was held twice at one time.

    Each process lives in a time zone of its own; what they delay is due at the same time for all.
    """
    path = tmp_path / "state.db"
    database = Database(path)
    queue = SqliteQueue(database)
    queue.open()
    await queue.put(changes(range(1000)))
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CLAIMERS,
            path,
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, "TZ": zone},
        )
        for zone in ("UTC", "Asia/Tokyo", "Pacific/Kiritimati", "America/New_York")
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    began = SYSTEM.now()
    answers = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    ended = SYSTEM.now()

    taken = [int(job) for answer, _ in answers for job in answer.split()]
    assert sorted(taken) == sorted(set(taken)) == list(range(1, 1001))
    delayed = await queue.jobs(limit=1000)
    assert {job.job for job in delayed} == set(range(10, 1001, 10))
    assert all(began <= job.due - 3_600_000 <= ended for job in delayed)
    assert await queue.claim(1, holder=this_process("late"), lease_for=60) is None
    await queue.close()
    await database.close()


@pytest.mark.accepts("R-26")
async def test_reapers_that_meet_hand_each_job_back_once(tmp_path, clock):
    databases = [Database(tmp_path / "state.db") for _ in range(4)]
    queues = [SqliteQueue(each, clock=clock, boot=BOOT, alive=alive) for each in databases]
    queues[0].open()
    await queues[0].put(changes(range(100)))
    for _ in range(10):
        await take(queues[0], 10, by=holder("dead"))
    reaped = await asyncio.gather(*(queue.reap() for queue in queues))
    back = [each for part in reaped for each in part]
    assert len(back) == 100
    assert set(back) == {key(document) for document in range(100)}
    jobs = await queues[0].jobs(limit=200)
    assert [(job.state, job.crashes) for job in jobs] == [(State.SUSPECT, 0)] * 100
    for queue, database in zip(queues, databases, strict=True):
        await queue.close()
        await database.close()


async def test_a_mode_that_is_set_again_is_no_news(database, queue):
    for mode in (Mode.RUNNING, Mode.PAUSED, Mode.PAUSED, Mode.RUNNING):
        await queue.set_mode(mode)
    assert await facts(database) == [("queue.paused", None), ("queue.resumed", None)]


async def test_fences_go_on_above_whatever_was_seen(queue):
    """A store may remember fences of a queue that is lost."""
    await queue.put(changes([1, 2, 3]))
    first = await take(queue, 1)
    assert not await queue.raise_fence(first.fence - 1)
    assert (await take(queue, 1)).fence == first.fence + 1
    seen = first.fence + 5 * 2**40
    assert await queue.raise_fence(seen)
    third = await take(queue, 1)
    assert third.fence > seen
    assert not await queue.raise_fence(seen), "once is enough"


async def test_waiting_in_memory_lasts_while_the_only_job_is_held():
    """Nothing comes due, so whoever waits does not look again and again."""
    database = Database(f"file:/{uuid.uuid4().hex}?vfs=memdb")
    queue = SqliteQueue(database)
    queue.open()
    await queue.put(changes([1]))
    assert await queue.claim(1, holder=this_process("w"), lease_for=60) is not None
    assert await queue.claim(1, holder=this_process("w"), lease_for=60) is None
    loop = asyncio.get_running_loop()
    began = loop.time()
    await queue.wait(0.05)
    assert loop.time() - began >= 0.04
    await queue.close()
    await database.close()


@asynccontextmanager
async def blocked(database):
    """Hold the write lock: what is asked for meanwhile waits until the block ends."""
    gate = threading.Event()
    first = asyncio.create_task(database.write(lambda _: gate.wait()))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        gate.set()
        await first


async def test_a_renewal_that_waited_too_long_comes_too_late(database, queue, clock):
    await queue.put(changes([1]))
    lease = await take(queue)
    async with blocked(database):
        renewal = asyncio.create_task(queue.renew([lease.fence], holder=holder(), lease_for=60))
        await asyncio.sleep(0)
        clock.advance(60)
    assert not (await renewal).held


async def test_a_claim_that_waited_takes_what_is_due_by_then_for_the_whole_time(
    database, queue, clock
):
    await queue.put(changes([1]))
    lease = await take(queue)
    await queue.settle(lease.fence, all_of(lease, Retry(5, "no", "E")))
    async with blocked(database):
        claim = asyncio.create_task(queue.claim(1, holder=holder(), lease_for=60))
        await asyncio.sleep(0)
        clock.advance(70)
    lease = await claim
    assert lease is not None
    clock.advance(59.999)
    assert not await queue.reap()


async def test_what_waited_to_be_written_is_dated_when_it_is_written(database, queue, clock):
    await queue.put(changes([1, 2, 3]))
    lease = await take(queue)
    retry, fail, _ = lease.jobs
    outcomes = {retry.job: Retry(5, "no", "E"), fail.job: Fail("no", "E")}
    async with blocked(database):
        asked = [
            asyncio.create_task(queue.settle(lease.fence, outcomes)),
            asyncio.create_task(queue.put(changes([4]))),
        ]
        await asyncio.sleep(0)
        clock.advance(60)
    await asyncio.gather(*asked)
    views = await queue.find([retry.key, key(4)])
    assert views[retry.key].due == clock.now() + 5_000
    assert views[key(4)].since == clock.now()
    assert await queue.prune(finished_before=0, parked_before=clock.now(), limit=9) == 0
    assert len(await queue.reap()) == 1
    assert (await view(queue, key(3))).state is State.SUSPECT


async def test_a_put_elsewhere_wakes_who_waits_here(tmp_path):
    mine, theirs = Database(tmp_path / "state.db"), Database(tmp_path / "state.db")
    here, there = SqliteQueue(mine), SqliteQueue(theirs)
    here.open()
    assert await here.claim(1, holder=this_process("w"), lease_for=1) is None
    await here.wait(0)  # begins to watch
    assert await here.claim(1, holder=this_process("w"), lease_for=1) is None
    waiting = asyncio.create_task(here.wait(30))
    await there.put(changes([1]))
    async with asyncio.timeout(5):
        await waiting
    assert await here.claim(1, holder=this_process("w"), lease_for=1) is not None
    for queue, database in ((here, mine), (there, theirs)):
        await queue.close()
        await database.close()


@pytest.mark.accepts("002-08")
async def test_an_operator_can_read_the_queue_with_plain_sql(database, queue):
    await queue.put(changes([1, 2, 3]))
    lease = await take(queue, 2)
    await queue.settle(lease.fence, {lease.jobs[0].job: Fail("no vector", "Bad")})
    found = database.read_now(
        lambda connection: connection.execute(
            "select document, state, attempts, reason, kind from job order by job"
        ).fetchall()
    )
    assert found == [
        ("1", State.FAILED, 1, "no vector", "Bad"),
        ("2", State.LEASED, 0, "", ""),
        ("3", State.READY, 0, "", ""),
    ]

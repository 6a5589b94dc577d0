"""Whoever waits for a commit is woken by it, soon, and by nothing else for long."""

import asyncio
import logging
import sqlite3
import subprocess
import sys
import threading
import time

import apsw
import pytest

from evervec.sources.sqlite.connection import connect
from evervec.sqlite import wake
from evervec.sqlite.wake import FileWake, Inotify, Native, Polling

PATIENCE = 10.0


@pytest.fixture(params=["wal", "delete", "truncate"])
def writer(request, tmp_path):
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None, check_same_thread=False)
    connection.execute(f"pragma journal_mode = {request.param}")
    connection.execute("create table t (x)")
    yield connection
    connection.close()


@pytest.fixture(params=[Inotify, Native, Polling])
def watcher(request, monkeypatch):
    kind = request.param
    monkeypatch.setattr(
        wake, "_watch", lambda folder, names: kind() if kind is Polling else kind(folder, names)
    )
    return kind


@pytest.fixture
def waking(tmp_path, writer):
    made = FileWake(tmp_path / "a.db", connect=connect)
    yield made
    made.close()


async def calm(waking, quiet=0.4):
    """Wait until what happened before is over with; return the count to go on from."""
    while True:
        count = waking.count
        if not await waking.wait(quiet, after=count):
            return count


async def test_every_commit_ends_a_wait(watcher, writer, waking):
    for turn in range(5):
        count = waking.count
        writer.execute("insert into t values (?)", (turn,))
        assert await waking.wait(PATIENCE, after=count)


async def test_nothing_happens_when_nothing_is_committed(watcher, writer, waking):
    await calm(waking)
    assert not await waking.wait(0.05)


@pytest.mark.accepts("000-06")
async def test_a_commit_is_noticed_within_milliseconds(writer, waking):
    """The middle one of many; a busy machine may be late now and then."""
    late = []
    await calm(waking)
    for turn in range(15):
        count = waking.count
        writer.execute("insert into t values (?)", (turn,))
        committed = time.perf_counter()
        assert await waking.wait(PATIENCE, after=count)
        late.append(time.perf_counter() - committed)
    assert sorted(late)[7] < 0.05


async def test_another_process_is_noticed(tmp_path, writer, waking):
    count = await calm(waking)
    code = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute('insert into t values (1)'); c.commit()"
    program = [sys.executable, "-c", code, str(tmp_path / "a.db")]
    await asyncio.to_thread(subprocess.run, program, check=True)
    assert await waking.wait(PATIENCE, after=count)


async def test_a_commit_long_after_its_writes_is_noticed(tmp_path):
    """A transaction that spilled to the log a while ago shows nothing until it commits."""
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute("create table t (x)")
    writer.execute("pragma cache_size = 1")
    waking = FileWake(tmp_path / "a.db", connect=connect)
    await calm(waking)
    writer.execute("begin")
    writer.execute(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)"
        " insert into t select randomblob(1000) from n"
    )
    count = waking.count
    assert not await waking.wait(0.5, after=count)
    writer.execute("commit")
    assert await waking.wait(PATIENCE, after=count)
    waking.close()
    writer.close()


async def test_all_who_wait_are_woken_on_whatever_loop(writer, waking):
    await calm(waking)
    count = waking.count
    answers = []
    ready = threading.Barrier(3)

    async def elsewhere():
        ready.wait()
        answers.append(await waking.wait(PATIENCE, after=count))

    threads = [threading.Thread(target=asyncio.run, args=(elsewhere(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting = [asyncio.ensure_future(waking.wait(PATIENCE, after=count)) for _ in range(3)]
    await asyncio.to_thread(ready.wait)
    writer.execute("insert into t values (1)")
    assert all(await asyncio.gather(*waiting))
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert answers == [True, True]


async def test_a_commit_before_the_wait_is_not_slept_through(writer, waking):
    count = await calm(waking)
    writer.execute("insert into t values (1)")
    assert await waking.wait(PATIENCE, after=count)
    assert await waking.wait(PATIENCE, after=count)


async def test_a_replaced_file_is_noticed_and_followed(tmp_path, writer, waking):
    count = await calm(waking)
    fresh = sqlite3.connect(tmp_path / "b.db", isolation_level=None)
    fresh.execute("create table t (x)")
    fresh.close()
    (tmp_path / "b.db").rename(tmp_path / "a.db")
    assert await waking.wait(PATIENCE, after=count)
    count = await calm(waking)
    with sqlite3.connect(tmp_path / "a.db") as fresh:
        fresh.execute("insert into t values (1)")
    fresh.close()
    assert await waking.wait(PATIENCE, after=count)


async def test_a_file_that_appears_later_is_noticed(tmp_path):
    waking = FileWake(tmp_path / "later.db")
    count = waking.count
    connection = apsw.Connection(str(tmp_path / "later.db"))
    connection.execute("create table t (x)")
    assert await waking.wait(PATIENCE, after=count)
    connection.close()
    waking.close()


async def test_without_notification_it_says_so_once_and_looks(tmp_path, monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(24, "no more watches")

    monkeypatch.setattr(wake, "Inotify", full)
    monkeypatch.setattr(wake, "Native", full)
    writer = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    writer.execute("create table t (x)")
    with caplog.at_level(logging.WARNING):
        waking = FileWake(tmp_path / "a.db", connect=connect)
    assert "no more watches" in caplog.text
    assert len(caplog.records) == 1
    count = await calm(waking)
    writer.execute("insert into t values (1)")
    assert await waking.wait(PATIENCE, after=count)
    waking.close()
    writer.close()


async def test_closing_ends_the_thread_and_may_be_repeated(writer, waking):
    waking.close()
    waking.close()
    assert "evervec-wake" not in {thread.name for thread in threading.enumerate()}
    assert not await waking.wait(0.01)


async def test_idling_costs_next_to_nothing(writer, waking):
    await calm(waking, quiet=1.2)
    begun = time.process_time()
    assert not await waking.wait(1.0)
    assert time.process_time() - begun < 0.05

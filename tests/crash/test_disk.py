"""Trouble with the state's file: said in one clear error, with nothing lost once it is over."""

import os
import resource
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.crash.check import violations
from tests.crash.history import History, Server, until

from evervec.errors import StateError
from evervec.sqlite import database

UNREACHABLE = 4


def edit(history: History, id_: int, title: str, body: str = "") -> None:
    with closing(sqlite3.connect(history.place, timeout=30)) as shop:
        shop.execute(
            "insert or replace into article (id, title, body) values (?, ?, ?)", (id_, title, body)
        )
        shop.commit()


def evervec(history: History, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evervec", *words, "--state", str(history.state)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def in_words(answer: subprocess.CompletedProcess[str], *words: str) -> None:
    """One clear error: exit code 4, what happened, and no traceback."""
    assert answer.returncode == UNREACHABLE, answer
    assert "Traceback" not in answer.stderr
    for word in words:
        assert word in answer.stderr


@pytest.fixture
def history(server: Server, tmp_path: Path) -> History:
    synced = History(server, tmp_path / "history")
    assert not violations(synced)
    return synced


@pytest.mark.heavy
@pytest.mark.accepts("000-59")
def test_a_full_disk_stops_the_work_and_loses_nothing(history: History) -> None:
    """The worker goes on where it was when there is room again."""
    worker = history.start()
    with history:
        history.until_up(worker)
        # Neither the state's file nor its log may grow: every write is answered as on a full disk.
        limit = history.state.stat().st_size // 2
        was = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (limit, was[1]))
        for id_ in range(100, 140):
            edit(history, id_, f"no room for {id_}", " ".join(f"{id_}w{n}" for n in range(700)))
        until("the worker's word", lambda: "the disk" in worker.said())
        assert not worker.ended()
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, was)
        until("a worker that goes on", lambda: stored(history) == len(history.texts()))
        history.stop(worker)
        # What was answered and could not be kept is asked for again: how often is how long it lasts.
        for line in history.lines():
            history.allowed.update(dict.fromkeys(line["texts"], 1))
        assert not violations(history)


def stored(history: History) -> int:
    with closing(sqlite3.connect(history.state, timeout=30)) as state:
        (count,) = state.execute("select count(*) from store_document where deleted = 0").fetchone()
    return int(count)


@pytest.mark.heavy
def test_a_state_of_a_newer_version_is_left_alone(history: History) -> None:
    with closing(sqlite3.connect(history.state)) as state:
        state.execute("update evervec_schema set version = version + 100 where component = 'store'")
        state.commit()
    before = history.state.read_bytes()
    in_words(evervec(history, "status"), "newer", "pip install")
    assert history.state.read_bytes() == before
    with closing(sqlite3.connect(history.state)) as state:
        state.execute("update evervec_schema set version = version - 100 where component = 'store'")
        state.commit()
    edit(history, 3, "after all")
    assert not violations(history)


@pytest.mark.heavy
@pytest.mark.parametrize(("start", "length"), [(0, 64), (8192, 400_000)])
def test_a_damaged_state_is_said_and_rebuilt_from_the_source(
    history: History, start: int, length: int
) -> None:
    with history.state.open("r+b") as file:
        file.seek(start)
        file.write(os.urandom(length))
    in_words(evervec(history, "status"), "state database")
    for file_ in history.folder.glob("evervec.db*"):
        file_.rename(file_.with_name(f"damaged-{file_.name}"))
    edit(history, 3, "after the damage")
    for line in history.lines():
        history.allowed.update(dict.fromkeys(line["texts"], 1))
    assert not violations(history)


@pytest.mark.heavy
def test_a_locked_state_is_said_after_the_busy_timeout(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    with closing(apsw.Connection(str(history.state))) as other:
        other.execute("begin immediate")
        mine = database.Database(history.state)
        with pytest.raises(StateError, match="another program keeps it locked"):
            mine.write_now(lambda connection: connection.execute("select 1").get)
        other.execute("rollback")
        assert mine.write_now(lambda connection: connection.execute("select 1").get) == 1
        mine.close_now()


@pytest.mark.heavy
def test_a_state_that_cannot_be_written_is_said(history: History) -> None:
    history.state.chmod(0o444)
    history.folder.chmod(0o555)
    try:
        if os.access(history.state, os.W_OK):
            pytest.skip("this user may write every file")
        in_words(evervec(history, "sync"), "cannot be written")
    finally:
        history.folder.chmod(0o755)
        history.state.chmod(0o644)
    edit(history, 3, "writable again")
    assert not violations(history)

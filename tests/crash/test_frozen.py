"""A worker that is frozen for longer than its lease, and wakes up believing in it."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.crash.check import violations
from tests.crash.history import Child, History, Server, until
from tests.crash.test_disk import edit, stored


def freeze_outside_transactions(history: History, zombie: Child) -> None:
    """Who is frozen inside a transaction locks the file, for everybody, until it wakes."""

    def frozen() -> bool:
        zombie.signal(signal.SIGSTOP)
        with closing(sqlite3.connect(history.state, timeout=0.05, isolation_level=None)) as state:
            try:
                state.execute("begin immediate")
            except sqlite3.OperationalError:
                zombie.signal(signal.SIGCONT)
                return False
            state.execute("rollback")
            return True

    until("a moment without a transaction", frozen)


@pytest.mark.heavy
@pytest.mark.accepts("R-05", "R-07", "001-37", "001-38", "000-62")
def test_a_frozen_worker_loses_its_jobs_and_publishes_nothing_when_it_wakes(
    server: Server, tmp_path: Path
) -> None:
    """Another takes over within a lease and a reaper's tick, and no attempt is charged."""
    with History(server, tmp_path / "history", defaults={"lease": 1.0}) as history:
        zombie = history.start(latency=1.0)
        history.until_up(zombie)
        history.until_asked(1)
        freeze_outside_transactions(history, zombie)
        history.frozen.add(zombie.pid)
        edit(history, 3, "newer than what the frozen one has read")
        other = history.start()
        until("a takeover", lambda: stored(history) == len(history.texts()), seconds=15)
        with closing(sqlite3.connect(history.state)) as state:
            attempts = state.execute("select max(attempts) from finished").fetchone()
        assert attempts == (0,)
        zombie.signal(signal.SIGCONT)
        history.stop(zombie)
        history.stop(other)
        assert not violations(history)

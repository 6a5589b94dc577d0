"""A queue in its own file, deleted: nothing is lost but the queue."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.crash.check import violations
from tests.crash.history import History, Server, until


def remove_queue(history: History) -> None:
    for file in history.folder.glob("queue.db*"):
        file.unlink()


def edit(history: History, id_: int, title: str) -> None:
    with closing(sqlite3.connect(history.place, timeout=30)) as shop:
        shop.execute("update article set title = ? where id = ?", (title, id_))
        shop.commit()


def jobs(history: History) -> int:
    with closing(sqlite3.connect(history.queue_path, timeout=30)) as queue:
        (count,) = queue.execute("select count(*) from job").fetchone()
    return int(count)


def fences(history: History) -> list[int]:
    with closing(sqlite3.connect(history.state)) as state:
        return [fence for (fence,) in state.execute("select fence from store_document")]


@pytest.mark.heavy
@pytest.mark.accepts("R-18")
@pytest.mark.parametrize("published", [False, True])
def test_a_queue_that_is_deleted_while_stopped_is_rebuilt(
    server: Server, tmp_path: Path, *, published: bool
) -> None:
    """Its jobs are found again by comparing, and its fences go on above those of the store."""
    with History(server, tmp_path / "history", queue=True) as history:
        if published:
            assert not violations(history)
        before = max(fences(history), default=0) if published else 0
        # Captured and in the queue, but nobody gets as far as to publish it.
        slow = history.start(latency=30)
        history.until_up(slow)
        for id_ in (0, 3, 6):
            edit(history, id_, f"only in the queue {id_}")
        history.until_asked(1)
        history.kill(slow)
        assert jobs(history) > 0
        remove_queue(history)

        assert not violations(history)
        assert max(fences(history)) > before


@pytest.mark.heavy
@pytest.mark.accepts("R-18")
def test_a_queue_that_is_deleted_under_a_worker_is_said_and_rebuilt_at_its_next_start(
    server: Server, tmp_path: Path
) -> None:
    """Nothing is written into a file that has no name any more."""
    with History(server, tmp_path / "history", queue=True) as history:
        worker = history.start()
        history.until_up(worker)
        history.until_asked(2)
        remove_queue(history)
        edit(history, 3, "while its queue was gone")
        until("the worker's word", lambda: "was deleted or replaced" in worker.said())
        history.kill(worker)

        assert not violations(history)


@pytest.mark.heavy
@pytest.mark.accepts("R-18")
def test_a_queue_that_was_restored_from_a_backup_does_not_give_old_fences_out(
    server: Server, tmp_path: Path
) -> None:
    with History(server, tmp_path / "history", queue=True) as history:
        assert not violations(history)
        backup = history.queue_path.read_bytes()
        for turn in range(3):
            edit(history, turn * 3, f"after the backup {turn}")
            assert not violations(history)
        before = max(fences(history))
        remove_queue(history)
        history.queue_path.write_bytes(backup)
        edit(history, 3, "after the restore")

        assert not violations(history)
        assert max(fences(history)) > before

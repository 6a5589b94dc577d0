"""A document that kills whoever embeds it is set apart, and takes no innocent along."""

import math
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.crash.check import parked_jobs, violations
from tests.crash.history import Child, History, Server, until

from evervec.model import State

CLAIM, CRASHES = 16, 3
ROUNDS_MAX = math.ceil(math.log2(CLAIM)) + CRASHES


def bring(history: History, id_: int, title: str) -> None:
    with closing(sqlite3.connect(history.place, timeout=30)) as shop:
        shop.execute(
            "insert or replace into article (id, title, body) values (?, ?, '')", (id_, title)
        )
        shop.commit()


def supervise(history: History) -> int:
    """Restart the worker each time it dies, until nothing waits any more; return the deaths."""
    deaths = 0
    while True:
        worker = history.start()
        until("its death or an empty queue", partial(over, history, worker))
        if not worker.ended():
            history.stop(worker)
            return deaths
        assert worker.code == -signal.SIGKILL, worker.said()
        deaths += 1
        assert deaths < 50, parked_jobs(history)


def over(history: History, worker: Child) -> bool:
    return worker.ended() or at_rest(history, worker.order.report)


def at_rest(history: History, up: str) -> bool:
    """Say whether the worker serves, has taken in the whole table, and only parked jobs are left."""
    if not Path(up).exists():
        return False
    with closing(sqlite3.connect(history.state, timeout=30)) as state:
        (known,) = state.execute("select count(*) from store_document where deleted = 0").fetchone()
    jobs = parked_jobs(history)
    parked = sum(state in (State.FAILED, State.QUARANTINED) for _, state, _ in jobs)
    return known + parked == len(history.texts()) and parked == len(jobs)


@pytest.mark.heavy
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.accepts("R-13")
def test_a_text_that_kills_its_worker_is_quarantined_and_all_others_are_in_sync(
    server: Server, tmp_path: Path, slots: int
) -> None:
    """Found by halving the company it travels in; a new text gives it another chance."""
    # Requests of 64 texts, so that the innocent travel with it.
    defaults = {
        "kill_on": "deadly",
        "claim": CLAIM,
        "crashes": CRASHES,
        "slots": slots,
        "texts": 64,
        "latency": 0.02,
    }
    with History(server, tmp_path / "history", defaults=defaults) as history:
        bring(history, 7, "deadly")
        deaths = supervise(history)
        (parked,) = parked_jobs(history)
        assert parked[:2] == ("7", State.QUARANTINED)
        assert "died" in parked[2]
        assert deaths <= ROUNDS_MAX
        with closing(sqlite3.connect(history.state)) as state:
            stored = {id_ for (id_,) in state.execute("select id from store_document")}
        assert stored == history.texts().keys() - {"7"}

        bring(history, 7, "harmless again")
        history.allowed.update({text: deaths for line in history.lines() for text in line["texts"]})
        assert not violations(history)

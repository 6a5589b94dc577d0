"""A large document whose worker is killed again and again: nothing is paid for twice, nothing is half."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.crash.check import violations
from tests.crash.history import Child, History, Server, until

CHUNKS = 3_000
DEFAULTS = {"texts": 8, "latency": 0.005, "claim": 16}


def text(word: str) -> str:
    """Return a text of `CHUNKS` chunks."""
    return "\n\n".join(f"{word}{n}" + " x" * 189 for n in range(CHUNKS))


def write(history: History, *bodies: str) -> None:
    with closing(sqlite3.connect(history.place, timeout=30)) as shop:
        rows = [(100 + place, "large", body) for place, body in enumerate(bodies)]
        shop.executemany("insert or replace into article (id, title, body) values (?, ?, ?)", rows)
        shop.commit()


def looked_up(history: History, sql: str) -> int:
    with closing(sqlite3.connect(history.state, timeout=30)) as state:
        (found,) = state.execute(sql).fetchone()
    return int(found)


def requests(history: History) -> int:
    """Count them without reading the last one, which may be half written."""
    return history.ledger.read_bytes().count(b"\n") if history.ledger.exists() else 0


def asked(history: History, wanted: int) -> bool:
    return requests(history) >= wanted


def over(history: History, doomed: Child) -> bool:
    return doomed.ended() or chunks_of_the_large_one(history) > 0


def chunks_of_the_large_one(history: History) -> int:
    return looked_up(
        history,
        "select count(*) from store_chunk join store_document using (document) where id = '100'",
    )


@pytest.mark.heavy
@pytest.mark.timeout(300)
@pytest.mark.accepts("003-78")
def test_a_large_document_is_paid_for_once_and_shown_whole_however_often_its_worker_dies(
    server: Server, tmp_path: Path
) -> None:
    """Killed while it is embedded, while its chunks are written unseen, and after it is shown."""
    with History(server, tmp_path / "history", defaults=DEFAULTS) as history:
        write(history, text("ebb"))
        for more in (150, 100):
            worker = history.start()
            history.until_up(worker)
            until("requests", partial(asked, history, requests(history) + more))
            history.kill(worker)
            assert chunks_of_the_large_one(history) == 0
        done = looked_up(history, "select done from store_progress where id = '100'")
        assert 0 < done < CHUNKS
        for place in ("store.stage.commit:3", "store.stage.done:7", "store.publish.done:40"):
            doomed = history.start(crash_at=place)
            until("a death, or the large document", partial(over, history, doomed))
            history.kill(doomed)
            assert chunks_of_the_large_one(history) in {0, CHUNKS}
        assert not violations(history)
        assert chunks_of_the_large_one(history) == CHUNKS
        assert looked_up(history, "select count(*) from store_hidden where going = 0") == 0

        # Another text in its first half: the second is known, and the old set stays until the end.
        whole = text("ebb")
        write(history, text("flow")[: len(whole) // 2] + whole[len(whole) // 2 :])
        before = sum(len(line["texts"]) for line in history.lines())
        assert not violations(history)
        again = sum(len(line["texts"]) for line in history.lines()) - before
        assert CHUNKS * 0.4 < again < CHUNKS * 0.6

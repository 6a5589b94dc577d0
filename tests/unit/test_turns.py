"""Workers of one machine take turns, and no turn is ever waited for without end."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from evervec.embedders.local import LocalEmbedder, turns
from evervec.embedders.local.threads import seats
from evervec.embedders.local.turns import Turns

HOLDER = """
import sys
from pathlib import Path
from evervec.embedders.local.threads import seats
from evervec.embedders.local.turns import Turns

with Turns(Path(sys.argv[1]), [0]).turn():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the only place."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_together_no_more_have_a_turn_than_there_are_places(tmp_path):
    """Two that know nothing of each other but the folder, as two processes do."""
    inside, most = 0, 0
    counting = threading.Lock()
    several = [Turns(tmp_path, [0, 1]) for _ in range(2)]

    def work(number):
        nonlocal inside, most
        with several[number % 2].turn() as had:
            with counting:
                inside += had
                most = max(most, inside)
            sum(range(20_000))
            with counting:
                inside -= had

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(64)))
    assert 1 <= most <= 2


def test_a_turn_of_another_process_is_waited_for(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 20.0)
    mine = Turns(tmp_path, [0])
    waiting = ThreadPoolExecutor(1).submit(lambda: ExitStack().enter_context(mine.turn()))
    assert not waiting.done()
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert waiting.result(timeout=20) is True


def test_workers_that_are_bound_to_other_processors_do_not_wait_for_each_other(tmp_path, holder):
    with Turns(tmp_path, [1]).turn() as had:
        assert had


def test_who_is_killed_holds_nothing(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 20.0)
    holder.kill()
    holder.wait()
    with Turns(tmp_path, [0]).turn() as had:
        assert had


def test_who_is_frozen_is_waited_for_once_and_then_no_more(tmp_path, holder, monkeypatch):
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.05)
    holder.send_signal(signal.SIGSTOP)
    mine = Turns(tmp_path, [0])
    with mine.turn() as had:
        assert not had
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 1000.0)
    with mine.turn() as had:
        assert not had


def test_without_such_files_everybody_goes_his_own_way(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with Turns(tmp_path / "file" / "folder", [0, 1]).turn() as had:
        assert not had


async def test_a_question_waits_for_nobody(tmp_path, monkeypatch):
    """Search answers at once though other workers have every processor."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 1000.0)
    embedder = LocalEmbedder(threads=1)
    await embedder.embed(["warm"], kind="query")
    others = Turns(turns.folder(), seats())
    with ExitStack() as stack:
        assert all(stack.enter_context(others.turn()) for _ in seats())
        began = time.monotonic()
        await embedder.embed(["how do leases expire?"], kind="query")
        assert time.monotonic() - began < 10
        waiting = asyncio.create_task(embedder.embed(["a long text " * 80], kind="document"))
        await asyncio.wait({waiting}, timeout=0.2)
        assert not waiting.done()
    assert len(await waiting) == 1
    await embedder.close()

"""A process that dies while it writes the codes of a large collection: the next search is right."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.test_index import files, opened

from evervec.model import Recall
from evervec.ports import Query
from evervec.stores.sqlite import codes, index, scan
from evervec.testing.store_suite import HOME, put, vector_of

ROWS = 300

SMALL = {
    codes: {"CODES_FROM_ROWS": 16, "LAG_ROWS": 4, "BLOCK_ROWS": 32, "BATCH_ROWS": 12},
    index: {"UNSYNCED_ROWS_MAX": 0},
    scan: {"FIRST_ROWS": 8, "FEW_ROWS": 4, "READ_SHARE_MAX": 1},
}
"""What makes a collection of a few hundred rows a large one, here and in the process that dies."""

DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.crash.test_codes import SMALL
from tests.unit.test_index import opened
from evervec.stores.sqlite import codes
from evervec.testing.store_suite import dense

for module, settings in SMALL.items():
    for name, value in settings.items():
        setattr(module, name, value)

path, where, wanted = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
passed = 0

def dies_in(function, *, first):
    def called(*arguments):
        global passed
        passed += 1
        answer = None if first else function(*arguments)
        if passed == wanted:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments) if first else answer
    return called

add = codes.CodesFile._add

def adds(self, matrix, safe):
    # From here on: the first codes of a file are being written.
    if where == "a batch":
        codes.encode = dies_in(codes.encode, first=True)
    else:
        os.fdatasync = dies_in(os.fdatasync, first=where == "before the disk")
    add(self, matrix, safe)

codes.CodesFile._add = adds

async def search():
    async with opened(path) as store:
        await dense(store, "whatever")

asyncio.run(search())
"""


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    for module, settings in SMALL.items():
        for name, value in settings.items():
            monkeypatch.setattr(module, name, value)


def die(path: Path, where: str, wanted: int) -> None:
    command = [sys.executable, "-c", DYING, str(path), where, str(wanted)]
    done = subprocess.run(
        command,
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


async def answers(path: Path) -> tuple[dict[int, list[tuple[object, float]]], Recall]:
    async with opened(path) as store:
        found = {}
        for number in range(0, ROWS, 23):
            query = Query("", vector_of(f"text {number}"), (HOME,), 10, "dense")
            found[number] = [(hit.id, hit.score) for hit in await store.search(query)]
            assert found[number][0] == (number, pytest.approx(1, abs=1e-6))
        told = await store.recall(HOME, ROWS)
        assert told is not None
        return found, told


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("a batch", 1),
        ("a batch", 7),
        ("a batch", 25),
        ("before the disk", 1),
        ("behind the disk", 1),
    ],
)
async def test_after_a_death_among_the_codes_search_answers_as_if_nobody_had_died(
    tmp_path, where, wanted
):
    """What is half written does not count, and the next search writes it again."""
    path, twin = tmp_path / "state.db", tmp_path / "twin.db"
    async with opened(path) as store:
        for number in range(ROWS):
            await put(store, number, [f"text {number}"])
    shutil.copy(path, twin)

    die(path, where, wanted)

    found, told = await answers(path)
    assert found == (await answers(twin))[0]
    assert (told.index, told.chunks) == ("codes", ROWS)
    assert told.recall > 0.97
    assert files(path, ".codes").read_bytes()[4096:] == files(twin, ".codes").read_bytes()[4096:]

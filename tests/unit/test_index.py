"""The matrix files are derived: whatever happens to them, the answers are those of the database."""

import os
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore, header, index
from evervec.testing.store_suite import HOME, dense, publication, put, remove, texts_of

WRITER = """
import asyncio, sys
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.testing.store_suite import dense, put

async def main(path, first, last, searching):
    database = Database(path)
    store = SqliteStore(database)
    await store.open()
    for number in range(first, last):
        await put(store, number, [f"text {number}"])
        if searching:
            await dense(store, f"text {number}", k=1)
        print(number, flush=True)
    await store.close()
    await database.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "search"))
"""


@asynccontextmanager
async def opened(path: Path, **more):
    database = Database(path)
    store = SqliteStore(database, **more)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
        await database.close()


async def filled(path: Path, count: int = 20) -> None:
    async with opened(path) as store:
        for number in range(count):
            await put(store, number, [f"text {number}"])
        await dense(store, "text 1")


async def check(store: SqliteStore, numbers) -> None:
    """Each document is found first by its own text, and there is nothing else."""
    for number in numbers:
        hit = (await dense(store, f"text {number}", k=1))[0]
        assert (hit.id, hit.text) == (number, f"text {number}")
        assert hit.score == pytest.approx(1, abs=1e-6)
    assert {hit.id for hit in await dense(store, "x", k=1000)} == set(numbers)


def files(path: Path, suffix: str) -> Path:
    (found,) = Path(f"{path}-index").glob(f"*{suffix}")
    return found


def write_elsewhere(path: Path, first: int, last: int, kind: str = "write") -> None:
    subprocess.run(
        [sys.executable, "-c", WRITER, str(path), str(first), str(last), kind],
        check=True,
        capture_output=True,
        timeout=50,
    )


def kill_a_writer(path: Path, first: int, *, after: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), "100000", "search"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for _ in range(after):
            process.stdout.readline()
        process.kill()


async def test_what_another_process_writes_is_found_at_once(tmp_path):
    path = tmp_path / "state.db"
    await filled(path, 3)
    async with opened(path) as store:
        await check(store, range(3))
        write_elsewhere(path, 3, 6)
        await check(store, range(6))
        write_elsewhere(path, 6, 9, "search")
        await check(store, range(9))
        await remove(store, 4, version=2, fence=2)
        await check(store, [number for number in range(9) if number != 4])


async def test_two_stores_on_one_file_see_each_others_deletions(tmp_path):
    path = tmp_path / "state.db"
    await filled(path, 5)
    async with opened(path) as one, opened(path) as two:
        await check(one, range(5))
        await check(two, range(5))
        await remove(one, 2, version=2, fence=2)
        await check(two, [0, 1, 3, 4])
        await put(two, 2, ["text 2"], version=3, fence=3)
        await check(one, range(5))


async def test_a_new_process_uses_the_files_that_are_there(tmp_path):
    path = tmp_path / "state.db"
    await filled(path)
    before = files(path, ".vectors").stat()
    async with opened(path) as store:
        await check(store, range(20))
    after = files(path, ".vectors").stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)


@pytest.mark.parametrize("suffix", [".vectors", ".rows"])
@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(os.urandom(5000)),
        lambda file: file.write_bytes(file.read_bytes()[:-8]),
        lambda file: file.write_bytes(bytes(len(file.read_bytes()))),
    ],
    ids=["missing", "empty", "noise", "short", "zeros"],
)
async def test_damaged_files_are_built_again(tmp_path, suffix, harm):
    path = tmp_path / "state.db"
    await filled(path)
    harm(files(path, suffix))
    async with opened(path) as store:
        await check(store, range(20))


async def test_bytes_behind_the_count_do_not_exist(tmp_path):
    """A writer that died in the middle of an append leaves rows that nobody counted."""
    path = tmp_path / "state.db"
    await filled(path)
    for suffix in (".vectors", ".rows"):
        with files(path, suffix).open("ab") as file:
            file.write(os.urandom(1000))
    async with opened(path) as store:
        await check(store, range(20))
        await put(store, 20, ["text 20"])
        await check(store, range(21))


async def test_the_files_of_another_database_are_not_believed(tmp_path):
    """The state was deleted and begun anew at the same path; the folder was not."""
    path = tmp_path / "state.db"
    await filled(path)
    for file in tmp_path.glob("state.db*"):
        if file.is_file():
            file.unlink()
    async with opened(path) as store:
        for number in range(100, 120):
            await put(store, number, [f"text {number}"])
        await check(store, range(100, 120))


async def test_a_restored_backup_is_not_searched_with_newer_files(tmp_path):
    path, backup = tmp_path / "state.db", tmp_path / "backup.db"
    await filled(path, 10)
    shutil.copy(path, backup)
    async with opened(path) as store:
        for number in range(10, 20):
            await put(store, number, [f"text {number}"])
        await check(store, range(20))
    shutil.copy(backup, path)
    async with opened(path) as store:
        for number in range(50, 60):
            await put(store, number, [f"text {number}"])
        await check(store, [*range(10), *range(50, 60)])


async def test_after_a_reboot_only_rows_known_to_be_on_disk_count(tmp_path, monkeypatch):
    path = tmp_path / "state.db"
    await filled(path, 5)
    database = Database(path)
    store = SqliteStore(database)
    await store.open()
    for number in range(5, 9):
        await put(store, number, [f"text {number}"])
    await check(store, range(9))
    # The machine loses power: nothing is closed, and the last rows never reached the disk.
    vectors = files(path, ".vectors")
    data = bytearray(vectors.read_bytes())
    data[-4 * 16 * 4 :] = bytes(4 * 16 * 4)
    await database.close()
    vectors.write_bytes(bytes(data))
    monkeypatch.setattr(header, "boot_id", lambda: "another boot")
    async with opened(path) as after:
        await check(after, range(9))


async def test_many_dead_rows_are_swept_out(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "DEAD_ROWS_MIN", 10)
    path = tmp_path / "state.db"
    await filled(path, 60)
    async with opened(path) as store, opened(path) as other:
        await check(other, range(60))
        size = files(path, ".vectors").stat().st_size
        gone = [publication(number, [], version=2, deleted=True) for number in range(10, 50)]
        await store.publish(gone, fence=2, space=1)
        left = [*range(10), *range(50, 60)]
        await check(store, left)
        assert files(path, ".vectors").stat().st_size < size
        await check(other, left)
        await put(other, 10, ["text 10"], version=3, fence=3)
        await check(store, [*left, 10])
        await check(other, [*left, 10])


async def test_few_dead_rows_are_left_out_of_answers(tmp_path):
    path = tmp_path / "state.db"
    await filled(path, 30)
    async with opened(path) as store:
        for number in range(25):
            await put(store, number, [f"changed {number}"], version=2, fence=2)
            assert await texts_of(store, number) == {f"changed {number}"}
        assert len(await dense(store, "text 3", k=30)) == 30


async def test_a_forgotten_collection_leaves_no_files(tmp_path):
    path = tmp_path / "state.db"
    async with opened(path) as store:
        await put(store, 1, ["text 1"])
        await check(store, [1])
        await store.forget(HOME)
        assert list(Path(f"{path}-index").iterdir()) == []


async def test_a_folder_of_ones_own_is_used(tmp_path):
    async with opened(tmp_path / "state.db", index_folder=tmp_path / "fast") as store:
        await put(store, 1, ["text 1"])
        await check(store, [1])
    assert list((tmp_path / "fast").glob("*.vectors"))
    assert not (tmp_path / "state.db-index").exists()


async def test_a_folder_that_cannot_be_made_does_not_stop_search(tmp_path):
    (tmp_path / "file").write_text("in the way")
    async with opened(tmp_path / "state.db", index_folder=tmp_path / "file" / "index") as store:
        await put(store, 1, ["text 1"])
        await check(store, [1])


async def test_killed_writers_leave_right_answers(tmp_path):
    """Processes that append to the index die by SIGKILL at random moments."""
    path = tmp_path / "state.db"
    await filled(path, 2)
    done = 2
    for turn in range(10):
        kill_a_writer(path, done, after=turn % 4 + 2)
        async with opened(path) as store:
            page = await store.documents(HOME, None, 10_000)
            numbers = sorted(int(id_) for id_, _ in page)
            assert numbers == list(range(len(numbers)))
            done = len(numbers)
            await check(store, numbers)

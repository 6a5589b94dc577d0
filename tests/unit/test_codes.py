"""Codes only say where to look: answers stay those of the database, whatever becomes of the file."""

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest
from tests.unit.test_index import check, files, filled, kill_a_writer, opened, write_elsewhere

from evervec.model import Scope
from evervec.stores.sqlite import codes, header, index, recall, scan
from evervec.stores.sqlite.codes import CodesFile, bits_of, encode, reach
from evervec.stores.sqlite.index import View
from evervec.stores.sqlite.scan import Scan, rows_of
from evervec.testing.store_suite import HOME, dense, publication, put, remove


def unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def clustered(count: int, dimension: int = 96, seed: int = 3):
    """Return vectors in clusters of different density, as those of texts are."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((count // 40, dimension))
    spread = random.random((count, 1)) * 0.8
    mine = centres[random.integers(0, len(centres), count)]
    return unit(mine + spread * random.standard_normal((count, dimension)))


@pytest.fixture
def small(monkeypatch):
    """A collection of a few dozen rows is a large one."""
    monkeypatch.setattr(codes, "CODES_FROM_ROWS", 16)
    monkeypatch.setattr(codes, "LAG_ROWS", 4)
    monkeypatch.setattr(codes, "BLOCK_ROWS", 32)
    monkeypatch.setattr(codes, "BATCH_ROWS", 12)
    monkeypatch.setattr(index, "UNSYNCED_ROWS_MAX", 0)
    monkeypatch.setattr(scan, "FIRST_ROWS", 8)
    monkeypatch.setattr(scan, "FEW_ROWS", 4)
    monkeypatch.setattr(scan, "READ_SHARE_MAX", 1)


def viewed(matrix, folder: Path, *, coded: int | None = None, dead=()) -> View:
    """Return a view of *matrix* whose first rows have codes."""
    count = len(matrix)
    file = CodesFile(folder / "1-1")
    safe = count if coded is None else coded
    found = None
    while found is None or found.rows < safe:
        found = file.view(matrix, b"g" * 16, safe, lambda: b"g" * 16)
    gone = np.zeros(count, np.bool_)
    gone[list(dead)] = True
    digests = np.zeros(count, np.uint64)
    return View(matrix, np.arange(count) * 3, digests, gone, 0, bool(gone.any()), found)


def best(matrix, query, k, among=None):
    scores = matrix.astype(np.float64) @ query
    if among is not None:
        out = np.ones(len(matrix), np.bool_)
        out[among] = False
        scores[out] = -np.inf
    return set(np.argsort(-scores)[:k].tolist())


def read(view, query, k, allowed=None):
    """Return the k nearest by a scan, and the scan."""
    looking = Scan(view, query, allowed)
    rows = looking.nearest(k)
    return set(rows[np.argsort(-(view.matrix[rows] @ query))][:k].tolist()), looking


@pytest.mark.parametrize("count", [1, 63, 640, 5000, 30_001])
@pytest.mark.parametrize("depth", [1, 7, 70])
def test_without_codes_the_nearest_are_exact_with_all_ties_and_none_that_is_gone(count, depth):
    random = np.random.default_rng(count)
    matrix = random.integers(-2, 3, (count, 4)).astype(np.float32)
    dead = random.random(count) < 0.2
    digests = np.zeros(count, np.uint64)
    view = View(matrix, np.arange(count), digests, dead, 0, bool(dead.any()))
    query = np.array([3.0, -1.0, 1.0, 2.0])
    scan, dropped = Scan(view, query, None), np.arange(0, count, 7)
    scores = np.where(dead, -np.inf, matrix @ query.astype(np.float32))
    for gone in ((), dropped):
        scan.drop(np.array(gone, np.int64))
        scores[np.array(gone, np.int64)] = -np.inf
        last = np.sort(scores)[-min(depth, count)]
        wanted = np.flatnonzero((scores >= last) & (scores > -np.inf))
        assert scan.nearest(depth).tolist() == wanted.tolist()
    assert scan.compared == count


@pytest.mark.parametrize(
    ("dimension", "bits"), [(1, 256), (256, 256), (257, 320), (384, 384), (1536, 512)]
)
def test_a_code_has_about_as_many_bits_as_its_vector_has_numbers(dimension, bits):
    assert bits_of(dimension) == bits
    assert encode(clustered(40, dimension)).shape == (40, bits // 64)


def test_a_vectors_code_is_the_same_alone_and_among_others():
    matrix = clustered(200)
    alone = np.array([codes.code_of(vector) for vector in matrix])
    assert (np.bitwise_count(alone ^ encode(matrix)).sum(axis=1) <= 1).all()


def test_distances_are_the_numbers_of_differing_signs(tmp_path, small):
    matrix = clustered(100)
    coded = viewed(matrix, tmp_path).coded
    assert coded is not None
    assert coded.rows == 100
    signs = np.unpackbits(encode(matrix).view(np.uint8), axis=1)
    for row in (0, 31, 32, 99):
        told = coded.distances(encode(matrix[row : row + 1])[0])
        assert told.tolist() == (signs != signs[row]).sum(axis=1).tolist()


def test_bits_differ_as_the_angle_says():
    """The reach is drawn so that a row of that cosine is missed once in forty times."""
    random = np.random.default_rng(5)
    for cosine, dimension in ((0.95, 96), (0.7, 96), (0.3, 96), (0.7, 700)):
        one = unit(random.standard_normal((2000, dimension)))
        other = unit(random.standard_normal((2000, dimension)))
        other = unit(other - (one * other).sum(axis=1, keepdims=True) * one)
        near = cosine * one + np.sqrt(1 - cosine**2) * other
        off = np.bitwise_count(encode(one) ^ encode(near.astype(np.float32))).sum(axis=1)
        assert np.mean(off <= reach(cosine, dimension)) > 0.965
        assert np.mean(off <= reach(cosine, dimension) * 0.5) < 0.1


@pytest.mark.parametrize("share", [None, 0.3])
def test_few_rows_are_compared_and_nearly_all_of_the_best_are_found(
    tmp_path, small, monkeypatch, share
):
    """Also under a filter that leaves many."""
    monkeypatch.setattr(codes, "BLOCK_ROWS", 4096)
    monkeypatch.setattr(scan, "FIRST_ROWS", 40)
    matrix = clustered(20_000)
    view = viewed(matrix, tmp_path)
    random = np.random.default_rng(8)
    among = np.arange(20_000) if share is None else np.flatnonzero(random.random(20_000) < share)
    found, compared = 0, []
    for row in range(0, 20_000, 200):
        query = matrix[row].astype(np.float64)
        told, looking = read(view, query, 10, None if share is None else among * 3)
        assert looking.coded
        assert len(told) == 10
        assert told <= set(among.tolist())
        found += len(told & best(matrix, query, 10, among))
        compared.append(looking.compared)
    assert found / 1000 >= 0.97
    assert np.median(compared) < 1000


def test_where_everything_is_equally_far_all_is_compared(tmp_path, small, monkeypatch):
    monkeypatch.setattr(scan, "READ_SHARE_MAX", 1 / 12)
    random = np.random.default_rng(2)
    matrix = unit(random.standard_normal((2_000, 96)))
    view = viewed(matrix, tmp_path)
    for query in unit(random.standard_normal((20, 96))).astype(np.float64):
        told, looking = read(view, query, 10)
        assert told == best(matrix, query, 10)
        assert not looking.coded


def test_rows_without_a_code_are_compared(tmp_path, small):
    matrix = clustered(100)
    view = viewed(matrix, tmp_path, coded=60)
    for row in (0, 59, 60, 99):
        told, _ = read(view, matrix[row].astype(np.float64), 1)
        assert told == {row}


def test_dead_and_dropped_rows_make_room_for_those_behind_them(tmp_path, small):
    matrix = clustered(200)
    query = matrix[7].astype(np.float64)
    order = np.argsort(-(matrix @ query))
    view = viewed(matrix, tmp_path, dead=order[:50])
    looking = Scan(view, query, None)
    for _ in range(30):
        near = looking.nearest(5)
        assert len(near) == 5
        assert not set(near.tolist()) & set(order[:50].tolist())
        looking.drop(near)
    assert len(looking.nearest(5)) == 0


def test_a_filter_that_leaves_few_reads_those_and_no_others(tmp_path, small):
    matrix = clustered(200)
    view = viewed(matrix, tmp_path)
    told, looking = read(view, matrix[0].astype(np.float64), 10, np.array([3, 30, 31, 999]))
    assert told == {1, 10}
    assert (looking.coded, looking.compared) == (False, 2)


def test_places_of_numbers_that_are_there_and_not():
    chunks = np.array([2, 4, 6, 8])
    assert rows_of(chunks, np.array([1, 2, 6, 7, 9])).tolist() == [0, 2]
    assert rows_of(chunks, np.array([], np.int64)).tolist() == []
    assert rows_of(np.array([], np.int64), chunks).tolist() == []
    wide = np.array([2, 4, 6, 8, 10_000])
    assert rows_of(wide, np.array([1, 2, 6, 7, 9, 10_000, 10_001])).tolist() == [0, 2, 4]
    many = np.arange(0, 2000, 2)
    assert rows_of(many, np.array([-1, 0, 3, 1998, 2000])).tolist() == [0, 999]
    everything = np.arange(-5, 2005)
    assert rows_of(many, everything).tolist() == list(range(1000))


async def test_what_is_written_and_deleted_later_shows_at_once(tmp_path, small):
    path = tmp_path / "state.db"
    await filled(path, 60)
    assert files(path, ".codes").stat().st_size
    async with opened(path) as store:
        await put(store, 60, ["text 60"])
        await check(store, range(61))
        write_elsewhere(path, 61, 64)
        await check(store, range(64))
        await remove(store, 30, version=2, fence=2)
        await put(store, 31, ["changed"], version=2, fence=2)
        left = [number for number in range(64) if number not in (30, 31)]
        for number in left:
            assert (await dense(store, f"text {number}", k=1))[0].id == number
        assert (await dense(store, "changed", k=1))[0].id == 31
        assert 30 not in {hit.id for hit in await dense(store, "x", k=1000)}


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(os.urandom(9000)),
        lambda file: file.write_bytes(file.read_bytes()[:-8]),
        lambda file: file.write_bytes(bytes(len(file.read_bytes()))),
        lambda file: file.write_bytes(file.read_bytes()[:4096] + os.urandom(100_000)),
    ],
    ids=["missing", "empty", "noise", "short", "zeros", "other codes"],
)
async def test_a_damaged_file_of_codes_is_written_again(tmp_path, small, harm):
    path = tmp_path / "state.db"
    await filled(path, 40)
    before = files(path, ".codes").read_bytes()
    harm(files(path, ".codes"))
    async with opened(path) as store:
        await check(store, range(40))
    assert files(path, ".codes").read_bytes() == before


async def test_codes_follow_the_files_that_are_written_anew(tmp_path, small, monkeypatch):
    """Another generation of the matrix has its rows in other places."""
    monkeypatch.setattr(index, "DEAD_ROWS_MIN", 10)
    path = tmp_path / "state.db"
    await filled(path, 60)
    async with opened(path) as store, opened(path) as other:
        await check(other, range(60))
        gone = [publication(number, [], version=2, deleted=True) for number in range(30)]
        await store.publish(gone, fence=2, space=1)
        await check(store, range(30, 60))
        await check(other, range(30, 60))
        await put(other, 3, ["text 3"], version=3, fence=3)
        await check(store, [3, *range(30, 60)])


def test_who_looks_at_older_files_writes_no_codes_over_newer_ones(tmp_path, small):
    matrix = clustered(60)
    old, new = CodesFile(tmp_path / "1-1"), CodesFile(tmp_path / "1-1")
    assert new.view(matrix[:40], b"n" * 16, 40, lambda: b"n" * 16) is not None
    written = (tmp_path / "1-1.codes").read_bytes()
    assert old.view(matrix, b"o" * 16, 60, lambda: b"n" * 16) is None
    assert (tmp_path / "1-1.codes").read_bytes() == written
    assert old.view(matrix, b"o" * 16, 60, lambda: b"o" * 16) is not None


async def test_codes_cover_only_what_is_on_the_disk(tmp_path, small, monkeypatch):
    """After a power cut the rows behind it may be others under the same name."""
    monkeypatch.setattr(index, "UNSYNCED_ROWS_MAX", 1000)
    path = tmp_path / "state.db"
    await filled(path, 30)
    async with opened(path) as store:
        await check(store, range(30))
        size = files(path, ".codes").stat().st_size
        for number in range(30, 70):
            await put(store, number, [f"text {number}"])
        await check(store, range(70))
        assert files(path, ".codes").stat().st_size == size
        monkeypatch.setattr(header, "boot_id", lambda: "another boot")
        async with opened(path) as after:
            await check(after, range(70))


async def test_a_search_waits_for_nobody_who_writes_codes(tmp_path, small):
    path = tmp_path / "state.db"
    await filled(path, 40)
    file = files(path, ".codes")
    file.unlink()
    with files(path, ".codes-lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        async with opened(path) as store:
            await check(store, range(40))
            assert not file.exists()
            fcntl.flock(held, fcntl.LOCK_UN)
            await check(store, range(40))
    assert file.exists()


async def test_one_search_adds_a_bounded_number(tmp_path, small, monkeypatch):
    path = tmp_path / "state.db"
    monkeypatch.setattr(codes, "ENCODED_ROWS_MAX", 10)
    await filled(path, 40)
    rows = []
    async with opened(path) as store:
        for _ in range(5):
            rows.append(
                codes.LAYOUT.unpack(files(path, ".codes").read_bytes()[: codes.LAYOUT.size])[3]
            )
            await dense(store, "x", k=1)
    assert rows == [10, 20, 30, 40, 40]


async def test_a_full_disk_leaves_the_search_exact(tmp_path, small, monkeypatch):
    path = tmp_path / "state.db"
    await filled(path, 40)
    files(path, ".codes").unlink()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    async with opened(path) as store:
        await check(store, range(40))


async def test_a_collection_that_is_forgotten_takes_its_codes_along(tmp_path, small):
    path = tmp_path / "state.db"
    await filled(path, 40)
    async with opened(path) as store:
        await check(store, range(40))
        await store.forget(HOME)
        assert list(Path(f"{path}-index").iterdir()) == []


async def test_writers_that_are_killed_leave_right_answers(tmp_path, small):
    path = tmp_path / "state.db"
    await filled(path, 20)
    for turn in range(3):
        async with opened(path) as store:
            first = len(await store.documents(HOME, None, 10_000))
        kill_a_writer(path, first, after=turn + 2)
        async with opened(path) as store:
            numbers = [int(id_) for id_, _ in await store.documents(HOME, None, 10_000)]
            await check(store, sorted(numbers))


async def test_recall_is_told_of_both_ways(tmp_path, small):
    path = tmp_path / "state.db"
    await filled(path, 60)
    async with opened(path) as store:
        told = await store.recall(HOME, 20)
        assert (told.index, told.chunks, told.sampled) == ("codes", 60, 20)
        assert told.recall > 0.9
        assert 10 <= told.compared <= 60
        assert await store.recall(Scope("", "unknown"), 20) is None


async def test_recall_tells_of_codes_that_lie(tmp_path, small, monkeypatch):
    """They are those of other rows, nobody noticed, and no doubt makes the scan read on."""
    path = tmp_path / "state.db"
    await filled(path, 60)
    file = files(path, ".codes")
    whole = file.read_bytes()
    file.write_bytes(whole[:4096] + os.urandom(len(whole) - 4096))
    monkeypatch.setattr(codes, "BITS_OFF_MAX", 10_000)
    monkeypatch.setattr(codes, "DOUBT", -50)
    monkeypatch.setattr(recall, "DEPTH", 10)
    async with opened(path) as store:
        told = await store.recall(HOME, 60)
        assert told.compared == pytest.approx(40, abs=5)
        assert told.recall < 0.97

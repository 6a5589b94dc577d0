"""A collection's vectors as one memory-mapped matrix: derived, never the truth.

Two files lie beside the database. `….vectors` has a header and then one float32 row a chunk;
`….rows` has, for each row, the chunk's number and the start of its digest. Rows are appended in
the order of chunk numbers, and the header's count is written last: what a dead writer left behind
it does not exist. Only who holds the `….lock` file writes. Files are replaced, never shortened, so
a mapping of another process stays good.

What cannot be trusted is built again from the database: another version, identity, space or
dimension, a file that is too short, rows that contradict the database. After a reboot only the
rows that were forced to the disk count.

A row whose chunk is gone is found by counting (the database knows how many chunks there are) and
left out; when too many are dead the files are written anew.

A large collection has its codes beside the matrix, for a first look: `codes.py`.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from evervec.sqlite.statements import statements
from evervec.stores.sqlite.chunks import Chunks, Hidden, places_of
from evervec.stores.sqlite.codes import Coded, CodesFile
from evervec.stores.sqlite.header import (
    ENTRY,
    HEADER_BYTES,
    Header,
    boot_id,
    flushed,
    packed,
    read_header,
    short,
    write_header,
)
from evervec.stores.sqlite.rows import COLLECTION_BITS

SQL = statements("evervec.stores.sqlite", "search.sql")

BATCH_ROWS = 4096
UNSYNCED_ROWS_MAX = 16_384
DEAD_SHARE_MAX = 0.3
DEAD_ROWS_MIN = 1_000
"""Below this many dead rows nothing is gained by finding them or by writing the files anew."""
SAMPLED_ROWS = 64

Matrix: TypeAlias = NDArray[np.float32]


class StaleSnapshot(Exception):
    """The reader's snapshot is older than what this process has already seen: read again."""


class Contradiction(Exception):
    """The files say something else than the database: they must be built again."""


@dataclass(frozen=True, slots=True)
class CollectionRow:
    """A collection as the snapshot has it."""

    number: int
    space: int
    next_chunk: int
    chunks: int
    revision: int
    documents: int

    @property
    def first(self) -> int:
        return self.number << COLLECTION_BITS

    @property
    def end(self) -> int:
        return self.first | self.next_chunk


@dataclass(frozen=True, slots=True)
class View:
    """What one snapshot may see: rows in chunk order, the known dead ones marked."""

    matrix: Matrix
    chunks: Chunks
    digests: NDArray[np.uint64]
    dead: NDArray[np.bool_]
    unknown: int
    """How many more rows are dead, without knowing which."""
    buried: bool
    """Whether any row is marked as dead."""
    coded: Coded | None = None
    """The codes of the first rows, in a large collection."""


class MatrixIndex:
    """The matrix of one collection in one space. Threads and processes may share the files."""

    def __init__(self, folder: Path, identity: bytes, row: CollectionRow) -> None:
        stem = folder / f"{row.number}-{row.space}"
        self._vectors = stem.with_suffix(".vectors")
        self._rows = stem.with_suffix(".rows")
        self._lock = stem.with_suffix(".lock")
        self._codes = CodesFile(stem)
        self._identity = identity
        self._mutex = threading.Lock()
        self._header: Header | None = None
        self._matrix: Matrix = np.empty((0, 0), np.float32)
        self._entries: NDArray[np.void] = np.empty(0, ENTRY)
        self._dead = np.zeros(0, np.bool_)
        self._revision = -1
        self._shown: tuple[CollectionRow, View] | None = None

    def view(
        self, connection: apsw.Connection, row: CollectionRow, hidden: Hidden | None = None
    ) -> View:
        """Bring the files up to the connection's snapshot and return what it may see.

        Raises StaleSnapshot if this process has seen a newer state: rows known as dead now may
        be alive in the older one.
        """
        with self._mutex:
            if self._revision > row.revision:
                raise StaleSnapshot
            if self._revision < row.revision:
                with self._locked():
                    self._catch_up(connection, row)
                self._bury(connection, row, hidden)
                self._revision = row.revision
                self._shown = None
            if self._shown is None or self._shown[0] != row:
                self._shown = row, self._visible(row, hidden)
            # A view is never changed, so that threads may share it while nothing happens.
            view, coded = self._shown[1], self._coded()
            return view if coded is None else replace(view, coded=coded)

    def bury(self, chunks: Iterable[int]) -> None:
        """Remember rows whose chunk was found to be gone."""
        with self._mutex:
            self._dead[places_of(self._numbers(), np.fromiter(chunks, np.int64))] = True
            self._shown = None

    def rebuild(self) -> None:
        """Forget the files; the next `view` builds them again."""
        with self._mutex, self._locked():
            self._vectors.unlink(missing_ok=True)
            self._rows.unlink(missing_ok=True)
            self._codes.remove()
            self._forget()

    def close(self) -> None:
        """Let go of the mapping, with the rows on disk."""
        with self._mutex:
            if self._header is not None and self._header.synced < self._header.rows:
                with contextlib.suppress(OSError), self._locked():
                    header = self._told()
                    if header is not None and header.generation == self._header.generation:
                        self._sync(header)
            self._forget()

    def _forget(self) -> None:
        self._codes.forget()
        self._header = None
        self._matrix = np.empty((0, 0), np.float32)
        self._entries = np.empty(0, ENTRY)
        self._dead = np.zeros(0, np.bool_)
        self._revision = -1
        self._shown = None

    def _coded(self) -> Coded | None:
        header = self._header
        if header is None or header.rows == 0:
            return None
        # What is not on the disk yet may be other rows after a power cut, under the same name.
        return self._codes.view(self._matrix, header.generation, header.synced, self._newest)

    def _newest(self) -> bytes:
        header = self._told()
        return header.generation if header else b""

    def _numbers(self) -> Chunks:
        return np.asarray(self._entries["chunk"], np.int64)

    def _visible(self, row: CollectionRow, hidden: Hidden | None) -> View:
        # Another process may have appended chunks that this snapshot does not have yet.
        numbers = self._numbers()
        seen = int(np.searchsorted(numbers, row.end))
        if hidden is not None:
            self._dead[places_of(numbers, hidden.going)] = True
        dead = self._dead[:seen].copy()  # threads go on marking
        if hidden is not None:
            # Alive some day, so that only this snapshot leaves them out.
            dead[places_of(numbers[:seen], hidden.coming)] = True
        buried = int(dead.sum())
        unknown = seen - buried - row.chunks
        if unknown < 0:
            raise Contradiction
        # Plain arrays over the same memory: numpy is slower with what knows that it is a file.
        matrix, digests = (
            np.asarray(self._matrix[:seen]),
            np.asarray(self._entries["digest"][:seen]),
        )
        return View(matrix, numbers[:seen], digests, dead, unknown, buried > 0)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock.parent.mkdir(parents=True, exist_ok=True)
        with self._lock.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _catch_up(self, connection: apsw.Connection, row: CollectionRow) -> None:
        header = self._told()
        if header is not None and not self._fits(header, row):
            header = None
        if header is not None and (
            self._header is None or self._header.generation != header.generation
        ):
            self._map(header)
            if not self._agrees(connection, row):
                header = None
        last = self._last(header, row)
        first: Any = connection.execute(
            SQL["new_chunks"], {"last": last, "end": row.end, "limit": 1}
        ).fetchone()
        if header is None:
            dimension = len(first[2]) // 4 if first else 0
            header = self._start(row, dimension)
        if first:
            header = self._append(connection, header, row, last)
        self._map(header)

    def _last(self, header: Header | None, row: CollectionRow) -> int:
        if header is None or header.rows == 0:
            return row.first
        with self._rows.open("rb") as file:
            file.seek((header.rows - 1) * ENTRY.itemsize)
            entry = np.frombuffer(file.read(ENTRY.itemsize), ENTRY)
        return int(entry["chunk"][0])

    def _append(
        self, connection: apsw.Connection, header: Header, row: CollectionRow, last: int
    ) -> Header:
        with self._vectors.open("r+b") as vectors, self._rows.open("r+b") as rows:
            while True:
                batch: list[Any] = connection.execute(
                    SQL["new_chunks"], {"last": last, "end": row.end, "limit": BATCH_ROWS}
                ).fetchall()
                if not batch:
                    break
                last = batch[-1][0]
                width = header.dimension * 4
                if any(len(value) != width for _, _, value in batch):
                    raise Contradiction
                vectors.seek(HEADER_BYTES + header.rows * width)
                vectors.write(b"".join(value for _, _, value in batch))
                rows.seek(header.rows * ENTRY.itemsize)
                rows.write(packed((chunk, digest) for chunk, digest, _ in batch))
                header = replace(header, rows=header.rows + len(batch))
            # Python's buffers first, then the count: a count never runs ahead of its rows.
            vectors.flush()
            rows.flush()
            if header.rows - header.synced > UNSYNCED_ROWS_MAX:
                header = flushed(header, vectors, rows)
            write_header(vectors, header)
        return header

    def _start(self, row: CollectionRow, dimension: int) -> Header:
        header = Header(
            self._identity,
            row.number,
            row.space,
            dimension,
            0,
            0,
            os.urandom(16),
            boot_id(),
        )
        self._replace_files(header, (), ())
        return header

    def _replace_files(
        self, header: Header, vectors: Iterable[bytes], entries: Iterable[bytes]
    ) -> None:
        # A crash between the two renames leaves files of two generations. The first thing of
        # the second file to become visible is its absence, so that they are never combined.
        self._rows.unlink(missing_ok=True)
        new_vectors = self._vectors.with_suffix(".vectors-new")
        new_rows = self._rows.with_suffix(".rows-new")
        with new_rows.open("wb") as file:
            file.writelines(entries)
        with new_vectors.open("wb") as file:
            file.write(header.pack().ljust(HEADER_BYTES, b"\0"))
            file.writelines(vectors)
        new_vectors.replace(self._vectors)
        new_rows.replace(self._rows)

    def _sync(self, header: Header) -> None:
        with self._vectors.open("r+b") as vectors, self._rows.open("r+b") as rows:
            write_header(vectors, flushed(header, vectors, rows))

    def _told(self) -> Header | None:
        return read_header(self._vectors, self._rows)

    def _fits(self, header: Header, row: CollectionRow) -> bool:
        return (header.identity, header.collection, header.space) == (
            self._identity,
            row.number,
            row.space,
        ) and (header.dimension > 0 or header.rows == 0 == row.chunks)

    def _map(self, header: Header) -> None:
        same = self._header is not None and self._header.generation == header.generation
        dead = np.zeros(header.rows, np.bool_)
        if same:
            kept = min(len(self._dead), header.rows)
            dead[:kept] = self._dead[:kept]
        self._dead = dead
        self._header = header
        if header.rows == 0:
            self._matrix = np.empty((0, header.dimension), np.float32)
            self._entries = np.empty(0, ENTRY)
            return
        self._matrix = np.memmap(
            self._vectors,
            np.dtype("<f4"),
            "r",
            offset=HEADER_BYTES,
            shape=(header.rows, header.dimension),
        )
        self._entries = np.memmap(self._rows, ENTRY, "r", shape=(header.rows,))

    def _agrees(self, connection: apsw.Connection, row: CollectionRow) -> bool:
        """Compare some rows with the database: it may be a copy, or restored from a backup."""
        numbers = self._numbers()
        if len(numbers) == 0:
            return True
        if numbers[0] <= row.first or bool((np.diff(numbers) <= 0).any()):
            return False
        step = max(1, len(numbers) // SAMPLED_ROWS)
        sample = np.union1d(np.arange(0, len(numbers), step), np.arange(len(numbers))[-8:])
        told = dict(
            zip(numbers[sample].tolist(), self._entries["digest"][sample].tolist(), strict=True)
        )
        return all(
            told[chunk] == short(digest)
            for chunk, digest, _, _ in connection.execute(
                SQL["places"], {"chunks": apsw.carray(numbers[sample])}
            )
        )

    def _bury(self, connection: apsw.Connection, row: CollectionRow, hidden: Hidden | None) -> None:
        """Find the dead rows if they are many, and write the files anew if they are too many."""
        view = self._visible(row, hidden)
        if view.unknown > max(DEAD_ROWS_MIN, len(view.chunks) // 20):
            live = np.fromiter(
                (
                    chunk
                    for (chunk,) in connection.execute(
                        SQL["live_chunks"], {"first": row.first, "end": row.end}
                    )
                ),
                np.int64,
            )
            self._dead[: len(view.chunks)] = ~np.isin(view.chunks, live, assume_unique=True)
        dead = int(self._dead.sum())
        if self._header and dead > DEAD_ROWS_MIN and dead > DEAD_SHARE_MAX * self._header.rows:
            with self._locked():
                self._compact()

    def _compact(self) -> None:
        header = self._told()
        if header is None or self._header is None or header.generation != self._header.generation:
            return  # another process did it; the next catch-up maps its files
        self._map(header)
        live = np.flatnonzero(~self._dead)
        matrix, entries = self._matrix, self._entries
        header = replace(header, rows=len(live), synced=0, generation=os.urandom(16))
        blocks = [live[at : at + BATCH_ROWS] for at in range(0, len(live), BATCH_ROWS)]
        self._replace_files(
            header,
            (matrix[block].tobytes() for block in blocks),
            (entries[block].tobytes() for block in blocks),
        )
        self._map(header)

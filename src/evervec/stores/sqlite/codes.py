"""Sign codes: a first, cheap look at every row of a large matrix.

A row's code is the signs of its vector after one fixed random turn, in up to eight 64-bit words. Two vectors
whose angle is a share p of a half turn differ in each bit with chance p, whatever they are. So
the number of bits that differ says how near a row is, give or take `sqrt(bits * p * (1 - p))`, and
from how near the answer is follows how far to read: see `reach`. A code of 384 numbers takes 48
bytes instead of 1,536, which is why looking at all of them is fast.

The file `….codes` lies beside the matrix: a page with the header, then blocks of `BLOCK_ROWS` rows,
each with one column a word. It covers rows of one generation of the matrix that were forced to
the disk, which never change; the rows behind them are compared as they are. The header's count is
written when the codes before it are on the disk. Only who holds `….codes-lock` writes, and a file of
another generation is replaced, never overwritten, so a mapping of another process stays good.
"""

import contextlib
import fcntl
import math
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

MAGIC = b"EVERCOD\x01"
HEADER_BYTES = 4096
LAYOUT = struct.Struct("<8s16sqq")
"""magic, generation, dimension, rows."""
BLOCK_ROWS = 65_536
BATCH_ROWS = 4096
BITS_MIN, BITS_MAX = 256, 512
"""A shorter code says too little, however few numbers a vector has; a longer one is slow to read."""
CODES_FROM_ROWS = 200_000
"""Below this size the exact product is nearly as fast, and needs nothing beside it."""
LAG_ROWS = 16_384
"""So many rows without a code are compared exactly in about a millisecond."""
ENCODED_ROWS_MAX = 65_536
"""What one search adds at most, less of long vectors: the first ones after a backfill share the work."""
ENCODED_AT_384 = 384 * 384
DOUBT = 2.0
"""Standard deviations: the last wanted row is missed once in 44 times, a nearer one less often."""
SAMPLED_ROWS = 64
BITS_OFF_MAX = 4
"""Products of two machines differ in their last digits, and so may a sign here and there."""
FAR = np.uint16(0xFFFF)
"""The distance of a row that cannot be an answer."""

Code: TypeAlias = NDArray[np.uint64]
Distances: TypeAlias = NDArray[np.uint16]


def bits_of(dimension: int) -> int:
    """Return how many bits a code has: whole words, about as many as the vector has numbers."""
    return min(BITS_MAX, max(BITS_MIN, -(-dimension // 64) * 64))


@lru_cache(maxsize=8)
def _turn(dimension: int) -> NDArray[np.float32]:
    bits = bits_of(dimension)
    chance = np.random.default_rng(dimension).standard_normal((max(bits, dimension), bits))
    return np.ascontiguousarray(np.linalg.qr(chance)[0][:dimension].T, np.float32)


def encode(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return one row of words for each row of *vectors*."""
    signs = vectors @ _turn(vectors.shape[1]).T > 0
    return np.packbits(signs, axis=1).view(np.uint64)


def code_of(vector: NDArray[np.float32]) -> Code:
    """Return the code of one vector, on this thread alone: see `scan.py`."""
    return np.packbits(np.vecdot(_turn(len(vector)), vector) > 0).view(np.uint64)


def reach(cosine: float, dimension: int) -> int:
    """Return how many bits a row as near as *cosine* may differ in, without doubt worth the name."""
    bits = bits_of(dimension)
    share = math.acos(min(1.0, max(-1.0, cosine))) / math.pi
    return math.ceil(bits * share + DOUBT * math.sqrt(bits * share * (1 - share)))


@dataclass(frozen=True, slots=True)
class Coded:
    """The codes of a matrix's first rows."""

    blocks: NDArray[np.uint64]
    """Block, word, row within the block."""
    rows: int

    def distances(self, code: Code) -> Distances:
        """Return in how many bits each row differs from *code*."""
        found = np.zeros(self.rows, np.uint16)
        differing = np.empty(BLOCK_ROWS, np.uint64)
        counts = np.empty(BLOCK_ROWS, np.uint8)
        for block, first in zip(self.blocks, range(0, self.rows, BLOCK_ROWS), strict=False):
            mine = found[first : first + BLOCK_ROWS]
            # One word of a whole block at a time: everything stays in the processor's cache.
            for word, column in zip(code, block, strict=True):
                np.bitwise_xor(column[: len(mine)], word, out=differing[: len(mine)])
                np.bitwise_count(differing[: len(mine)], out=counts[: len(mine)])
                np.add(mine, counts[: len(mine)], out=mine)
        return found

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the codes of single rows."""
        return self.blocks[rows // BLOCK_ROWS, :, rows % BLOCK_ROWS]


class CodesFile:
    """The codes of one matrix. Threads share it under their index's mutex, processes by its lock."""

    def __init__(self, stem: Path) -> None:
        self._path = stem.with_suffix(".codes")
        self._lock = stem.with_suffix(".codes-lock")
        self._generation = b""
        self._coded: Coded | None = None

    def view(
        self,
        matrix: NDArray[np.float32],
        generation: bytes,
        safe: int,
        newest: Callable[[], bytes],
    ) -> Coded | None:
        """Return the codes there are for *matrix*, after adding some if many are lacking.

        Only its first *safe* rows are on the disk. None are added by who looks at a generation that
        is not the *newest* any more. Where nothing can be written, or another process is at it,
        what there is has to do.
        """
        if safe < CODES_FROM_ROWS:
            return None
        if self._generation != generation:
            self._generation = generation
            self._coded = self._mapped(matrix, safe)
        if safe - (self._coded.rows if self._coded else 0) >= LAG_ROWS:
            with contextlib.suppress(OSError), self._locked():
                if newest() == generation:
                    self._coded = self._mapped(matrix, safe)
                    self._add(matrix, safe)
                    self._coded = self._mapped(matrix, safe)
        return self._coded

    def forget(self) -> None:
        """Let go of the mapping."""
        self._generation = b""
        self._coded = None

    def remove(self) -> None:
        """Delete the file; the next searches write it again."""
        self.forget()
        self._path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock.open("ab") as file:
            # Whoever holds it adds the codes for everybody.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def _mapped(self, matrix: NDArray[np.float32], safe: int) -> Coded | None:
        dimension = matrix.shape[1]
        words = bits_of(dimension) // 64
        try:
            with self._path.open("rb") as file:
                start = file.read(LAYOUT.size)
                size = os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            return None
        if len(start) < LAYOUT.size:
            return None
        magic, generation, told, rows = LAYOUT.unpack(start)
        blocks = -(-rows // BLOCK_ROWS)
        if (
            (magic, generation, told) != (MAGIC, self._generation, dimension)
            or not 0 < rows <= safe
            or size < HEADER_BYTES + blocks * words * BLOCK_ROWS * 8
        ):
            return None
        shape = (blocks, words, BLOCK_ROWS)
        coded = Coded(np.memmap(self._path, np.uint64, "r", HEADER_BYTES, shape), rows)
        return coded if _agree(coded, matrix) else None

    def _add(self, matrix: NDArray[np.float32], safe: int) -> None:
        dimension = matrix.shape[1]
        words = bits_of(dimension) // 64
        first = self._coded.rows if self._coded else 0
        if not first:
            fresh = self._path.with_suffix(".codes-new")
            fresh.write_bytes(bytes(HEADER_BYTES))
            fresh.replace(self._path)
        most = ENCODED_ROWS_MAX * ENCODED_AT_384 // max(ENCODED_AT_384, dimension * words * 64)
        end = min(safe, first + most)
        blocks = -(-end // BLOCK_ROWS)
        with self._path.open("r+b") as file:
            file.truncate(HEADER_BYTES + blocks * words * BLOCK_ROWS * 8)
            while first < end:
                until = min(end, first + BATCH_ROWS, (first // BLOCK_ROWS + 1) * BLOCK_ROWS)
                # Written, not mapped: on a full disk a write is refused, a mapping kills.
                for word, column in enumerate(encode(matrix[first:until]).T):
                    place = (first // BLOCK_ROWS * words + word) * BLOCK_ROWS + first % BLOCK_ROWS
                    file.seek(HEADER_BYTES + place * 8)
                    file.write(column.tobytes())
                first = until
            file.flush()
            os.fdatasync(file.fileno())
            file.seek(0)
            file.write(LAYOUT.pack(MAGIC, self._generation, dimension, end))


def _agree(coded: Coded, matrix: NDArray[np.float32]) -> bool:
    """Compare some codes with their rows: a file of another machine, or a damaged one, shows."""
    sample = np.linspace(0, coded.rows - 1, SAMPLED_ROWS).astype(np.int64)
    off = np.bitwise_count(coded.of(sample) ^ encode(matrix[sample])).sum(axis=1)
    return bool((off <= BITS_OFF_MAX).all())

"""The layout of the matrix files, and what is believed of them.

The header lies on a page of its own at the start of `….vectors`. Its count of rows is written
after the rows, so a writer that died in between left nothing that counts. Bytes reach the disk
later: the header says how many rows were forced to it, and in which run of the machine it was
written.
"""

import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

MAGIC = b"EVERVEC\x01"
HEADER_BYTES = 4096
"""One page, so that the rows behind it are aligned."""
LAYOUT = struct.Struct("<8s16sqqqqq16s36s")
"""magic, identity, collection, space, dimension, rows, rows on disk, generation, boot."""
ENTRY = np.dtype([("chunk", "<i8"), ("digest", "<u8")])


@dataclass(frozen=True, slots=True)
class Header:
    """What the files say of themselves."""

    identity: bytes
    collection: int
    space: int
    dimension: int
    rows: int
    synced: int
    generation: bytes
    boot: str

    def pack(self) -> bytes:
        return LAYOUT.pack(
            MAGIC,
            self.identity,
            self.collection,
            self.space,
            self.dimension,
            self.rows,
            self.synced,
            self.generation,
            self.boot.encode(),
        )


def read_header(vectors: Path, rows: Path) -> Header | None:
    """Return what the two files say of themselves, or None if they cannot be believed."""
    try:
        with vectors.open("rb") as file:
            start = file.read(LAYOUT.size)
            vectors_bytes = os.fstat(file.fileno()).st_size
        rows_bytes = rows.stat().st_size
    except FileNotFoundError:
        return None
    if len(start) < LAYOUT.size:
        return None
    magic, identity, collection, space, dimension, count, synced, generation, boot = LAYOUT.unpack(
        start
    )
    if magic != MAGIC or min(dimension, count, synced) < 0:
        return None
    told = boot.rstrip(b"\0").decode("ascii", "replace")
    if told != boot_id():
        count = min(count, synced)
    if vectors_bytes < HEADER_BYTES + count * dimension * 4 or rows_bytes < (
        count * ENTRY.itemsize
    ):
        return None
    return Header(
        identity, collection, space, dimension, count, min(synced, count), generation, boot_id()
    )


def short(digest: bytes) -> int:
    """Return the part of a digest that the rows file keeps."""
    return int.from_bytes(digest[:8].ljust(8, b"\0"), "little")


def packed(rows: Iterable[tuple[int, bytes]]) -> bytes:
    """Return entries of the rows file: chunk and digest."""
    return np.array([(chunk, short(digest)) for chunk, digest in rows], ENTRY).tobytes()


def flushed(header: Header, vectors: BinaryIO, rows: BinaryIO) -> Header:
    """Force both files to the disk, and return the header that says so; it is not yet written."""
    os.fdatasync(vectors.fileno())
    os.fdatasync(rows.fileno())
    return replace(header, synced=header.rows)


def write_header(vectors: BinaryIO, header: Header) -> None:
    """Make the rows count that are written by now."""
    vectors.seek(0)
    vectors.write(header.pack())
    vectors.flush()


def boot_id() -> str:
    """Return the name of this run of the machine; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""

"""A disk that loses power: what was not synced is dropped, kept or torn, as real disks do.

`Disk` is an SQLite VFS over real files. It remembers, for each file, what the last sync made
durable and every write since. `lose_power` then writes, into another folder, what a disk might
hold afterwards: a random subset of those writes, each one whole or torn into 512-byte sectors.

The same layer fails on demand: the Nth call that changes something raises an I/O error or a full
disk, once (`fail_at`), or everything fails from then on (`cut_at`: the machine is off).
"""

import random
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import apsw

SECTOR = 512

_numbers = count(1)


@dataclass(slots=True)
class _Content:
    """A file as the disk has it for sure, and what happened to it since the last sync."""

    durable: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, bytes) for a write, (size, None) for a truncation."""


class Disk(apsw.VFS):
    """Open a database on it with `disk.uri(path)`. Single-threaded, like the simulated loop."""

    def __init__(self) -> None:
        self.label = f"powerloss{next(_numbers)}"
        self.contents: dict[str, _Content] = {}
        self.calls = 0
        """How many calls that change something there have been."""
        self.cut_at: int | None = None
        self.fail_at: int | None = None
        self.failure: type[apsw.Error] = apsw.IOError
        self.failed = False
        super().__init__(self.label, "")

    def uri(self, path: Path) -> str:
        return f"file:{path}?vfs={self.label}"

    @property
    def is_off(self) -> bool:
        return self.cut_at is not None and self.calls >= self.cut_at

    def count_call(self) -> None:
        """Pass one call that changes something, or refuse it."""
        if self.is_off:
            raise apsw.IOError("the power is off")
        self.calls += 1
        if self.calls == self.fail_at:
            self.failed = True
            raise self.failure("the disk failed on purpose")

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> "_File":
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802 - SQLite's
        self.count_call()
        self.contents.pop(filename, None)
        super().xDelete(filename, syncdir)

    def lose_power(self, folder: Path, dice: random.Random) -> None:
        """Write into *folder* what the files may look like when the power is back."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in sorted(self.contents.items()):
            (folder / Path(name).name).write_bytes(_after_loss(content, dice))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._content = _Content()
        if path is not None and not flags[0] & apsw.SQLITE_OPEN_DELETEONCLOSE:
            known = disk.contents.get(path)
            # A file that was there before the simulation began is durable as it is.
            self._content = known or _Content(Path(path).read_bytes())
            disk.contents[path] = self._content

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.count_call()
        super().xWrite(data, offset)
        self._content.since.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._disk.count_call()
        super().xTruncate(newsize)
        self._content.since.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802 - SQLite's name
        # The real disk need not sync: only the account of what is durable matters.
        self._disk.count_call()
        everything = bytearray(self._content.durable)
        for place, data in self._content.since:
            _apply(everything, place, data)
        self._content.durable = bytes(everything)
        self._content.since.clear()


def _after_loss(content: _Content, dice: random.Random) -> bytes:
    """Return one of the states in which a disk may keep *content*.

    Usually each write is kept or lost on its own; sometimes all of them, or all up to one of
    them, so that the orderly cases are met too.
    """
    kept = bytearray(content.durable)
    odds = dice.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    end = dice.choice((len(content.since), dice.randrange(len(content.since) + 1)))
    for place, data in content.since[:end]:
        if data is None or len(data) <= SECTOR or dice.random() < 0.7:
            if dice.random() < odds:
                _apply(kept, place, data)
            continue
        for start in range(0, len(data), SECTOR):
            if dice.random() < odds:
                _apply(kept, place + start, data[start : start + SECTOR])
    return bytes(kept)


def _apply(content: bytearray, place: int, data: bytes | None) -> None:
    if data is None:
        del content[place:]
        return
    if len(content) < place:
        content.extend(bytes(place - len(content)))
    content[place : place + len(data)] = data

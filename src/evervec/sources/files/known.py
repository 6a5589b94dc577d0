"""What of the folder is accepted, and what has changed since. In memory; the notes are its truth.

A file is known by the signature that was accepted with it. A new file that was handed out is
noted at once without a signature, before anyone can have published it: if it is deleted and
we die before it is accepted, its deletion is still seen.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from evervec.model import Lane
from evervec.sources.files.tree import (
    changed_at,
    is_fresh_signature,
    is_same,
    join,
    split,
)

FILE = "file:"
BYTES = "byte:"
CLAIMED = b"?"

Signed = tuple[str, bytes | None]
"""A path and its signature; None where the file is gone."""


def note_of(path: str) -> str:
    """Name the note of the file at *path*; bytes that are no text are written as hex."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return BYTES + os.fsencode(path).hex()
    return FILE + path


def noted_path(note: str) -> str:
    if note.startswith(FILE):
        return note.removeprefix(FILE)
    return os.fsdecode(bytes.fromhex(note.removeprefix(BYTES)))


class Known:
    """Compares what is seen with what was accepted, and keeps the difference until accepted."""

    def __init__(self, notes: Mapping[str, bytes]) -> None:
        self._folders: dict[str, dict[str, bytes]] = {}
        self._pending: dict[Lane, dict[str, bytes | None]] = {Lane.LIVE: {}, Lane.BACKFILL: {}}
        self.fresh: set[str] = set()
        """Files to be looked at once more, for they were written just as we looked."""
        for note, signature in notes.items():
            self._set(noted_path(note), signature)

    def __len__(self) -> int:
        return sum(len(files) for files in self._folders.values())

    def __iter__(self) -> Iterator[str]:
        for folder, files in self._folders.items():
            for name in files:
                yield join(folder, name)

    def folders(self) -> list[str]:
        return list(self._folders)

    def is_pending(self, lane: Lane) -> bool:
        return bool(self._pending[lane])

    def see(self, path: str, signature: bytes | None, lane: Lane) -> None:
        """Take note of one file as it is now; None: it is not there."""
        if signature is not None and is_fresh_signature(signature):
            self.fresh.add(path)
        else:
            self.fresh.discard(path)
        self._differ(path, self._accepted(path), signature, lane)

    def see_folder(self, folder: str, files: Mapping[str, bytes], lane: Lane) -> None:
        """Take note of all the files that *folder* has, and so of those it has no more."""
        for name, signature in files.items():
            self.see(join(folder, name), signature, lane)
        accepted = self._folders.get(folder, {})
        for name in [name for name in accepted if name not in files]:
            self.see(join(folder, name), None, lane)

    def next(self, limit: int) -> tuple[list[Signed], Lane]:
        """Return the next changes, live ones first, without consuming them."""
        lane = Lane.LIVE if self._pending[Lane.LIVE] else Lane.BACKFILL
        return list(islice(self._pending[lane].items(), limit)), lane

    def unseen(self, limit: int) -> list[str]:
        """Return the paths of changes in any lane, but for those that are only looked at once more."""
        pending = (each for lane in self._pending.values() for each in lane.items())
        return list(
            islice((path for path, now in pending if not is_same(now, self._accepted(path))), limit)
        )

    def _accepted(self, path: str) -> bytes | None:
        folder, name = split(path)
        return self._folders.get(folder, {}).get(name)

    def claim(self, batch: Iterable[Signed]) -> dict[str, bytes | None]:
        """Return the notes to be written before *batch* is handed out: those of new files."""
        notes: dict[str, bytes | None] = {}
        for path, signature in batch:
            folder, name = split(path)
            if signature is not None and name not in self._folders.get(folder, {}):
                self._set(path, CLAIMED)
                notes[note_of(path)] = CLAIMED
        return notes

    def accept(self, batch: Iterable[Signed]) -> dict[str, bytes | None]:
        """Take *batch* as known and return its notes. What changed again since stays a change."""
        notes: dict[str, bytes | None] = {}
        for path, signature in batch:
            self._set(path, signature)
            notes[note_of(path)] = signature
            for pending in self._pending.values():
                if path in pending and pending[path] == signature:
                    del pending[path]
        return notes

    def _differ(
        self, path: str, accepted: bytes | None, signature: bytes | None, lane: Lane
    ) -> None:
        live, backfill = self._pending[Lane.LIVE], self._pending[Lane.BACKFILL]
        if signature == accepted:
            live.pop(path, None)
            backfill.pop(path, None)
        elif lane is Lane.LIVE or accepted not in {None, CLAIMED} or signature is None:
            if backfill.pop(path, None) == signature is not None:
                # It only waits for its turn; nothing happened to it since.
                backfill[path] = signature
            else:
                live[path] = signature
        elif path not in live:
            backfill[path] = signature
        else:
            live[path] = signature

    def _set(self, path: str, signature: bytes | None) -> None:
        folder, name = split(path)
        if signature is not None:
            self._folders.setdefault(folder, {})[name] = signature
        elif (files := self._folders.get(folder)) is not None:
            files.pop(name, None)
            if not files:
                del self._folders[folder]


def oldest(batch: Iterable[Signed]) -> int | None:
    """Return when the first of these changes was made, as far as the files can tell."""
    return min((changed_at(signature) for _, signature in batch if signature), default=None)

"""Whose turn it is to compute, so that the workers of one machine together use each processor once.

A lock file for each processor lies in a folder of the user's. Whoever runs a request holds one of
them for so long; the system takes it back when a process ends, however it ends. This is manners,
not safety: who waits too long, because a holder is frozen, computes all the same, and so does who
cannot have such files.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from evervec.embedders.local import files

if sys.platform != "win32":
    import fcntl

LOOK_SECONDS = 0.001
PATIENCE_SECONDS = 0.5
"""Several times what a request takes."""
OFFENDED_SECONDS = 30.0
"""For how long nobody is waited for when patience ended."""


class Turns:
    """Places by number, shared with every process that names the same folder.

    The numbers are those of processors: two workers that are bound to one processor each do not
    wait for each other.
    """

    def __init__(self, folder: Path, places: Sequence[int]) -> None:
        self._files = _opened(folder, places)
        self._lock = threading.Lock()
        self._held: set[int] = set()
        self._offended_until = 0.0

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait for a place and hold it inside; False if there was none to have. From any thread."""
        place = self._waited()
        try:
            yield place is not None
        finally:
            if place is not None:
                self._give(place)

    def close(self) -> None:
        """Let go of the files; nobody may be inside."""
        with self._lock:
            for file in self._files:
                os.close(file)
            self._files = []

    def _waited(self) -> int | None:
        began = time.monotonic()
        while (place := self._take()) is None:
            now = time.monotonic()
            if not self._files or now < self._offended_until:
                return None
            if now - began > PATIENCE_SECONDS:
                self._offended_until = now + OFFENDED_SECONDS
                return None
            time.sleep(LOOK_SECONDS)
        return place

    def _take(self) -> int | None:
        with self._lock:
            for place, file in enumerate(self._files):
                # The lock belongs to the open file, so threads of one process would share it.
                if place not in self._held and _locked(file):
                    self._held.add(place)
                    return place
        return None

    def _give(self, place: int) -> None:
        with self._lock:
            self._held.remove(place)
            _unlock(self._files[place])


def folder() -> Path:
    """Return where the user's processes meet."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or files.cache()) / "evervec-turns"


def _opened(folder: Path, places: Sequence[int]) -> list[int]:
    opened: list[int] = []
    if sys.platform == "win32":
        return opened
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One by one: what was opened before a failure has to be closed.
        opened.extend(
            os.open(folder / f"{place}.lock", os.O_CREAT | os.O_RDWR, 0o600) for place in places
        )
    except OSError:
        # A read-only system, or too many open files: this process goes its own way.
        for file in opened:
            os.close(file)
        return []
    return opened


def _locked(file: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(file: int) -> None:
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_UN)

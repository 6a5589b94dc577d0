"""How far a table's changes were consumed, and what a file without triggers looked like then."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

CURSOR = "cursor"
_FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Position:
    """How far the changes were consumed, and in which file."""

    epoch: int
    inode: int
    seq: int = 0
    stamp: int = 0
    look: str = ""
    """Without triggers: sizes and times of the file when it was last scanned."""

    @classmethod
    def noted(cls, notes: Mapping[str, bytes]) -> Self | None:
        """Find among a source's notes what `notes` wrote."""
        note = notes.get(CURSOR)
        return None if note is None else cls(**json.loads(note))

    def notes(self) -> dict[str, bytes]:
        """Write this down for the notebook."""
        return {CURSOR: json.dumps(asdict(self)).encode()}


def look_at(path: Path) -> str:
    """Return sizes and times of a database's files: what differs between two looks has changed."""
    parts = []
    for name in (path.name, path.name + "-wal"):
        try:
            found = path.with_name(name).stat()
        except OSError:
            continue
        # A file written a moment ago may be written again within the same tick of its time
        # stamp, so such a look never equals a later one.
        fresh = abs(time.time() - found.st_mtime) < _FRESH_SECONDS
        parts.append(f"{found.st_ino} {found.st_size} {'new' if fresh else found.st_mtime_ns}")
    return "\n".join(parts)

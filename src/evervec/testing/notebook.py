"""A notebook that lives as long as the test that made it."""

from collections.abc import Mapping


class MemoryNotebook:
    """Keeps a source's notes in memory; handed to a second source it stands for a restart."""

    def __init__(self) -> None:
        self.notes: dict[str, bytes] = {}

    async def load(self, prefix: str = "") -> dict[str, bytes]:
        return {name: note for name, note in self.notes.items() if name.startswith(prefix)}

    async def save(self, notes: Mapping[str, bytes | None]) -> None:
        for name, note in notes.items():
            if note is None:
                self.notes.pop(name, None)
            else:
                self.notes[name] = note

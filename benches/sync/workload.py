"""The documents of the sync bench, and what is done to them. The same for every tool and every run."""

import random
from collections.abc import Iterable

from benches.sync.stub import POISON

WORDS = 24


class Workload:
    """The truth: what the documents are at this moment. Whoever edits here tells the tool as well.

    A paragraph is 23 words of eleven letters and a last one: alike in length, so that a tool which
    packs paragraphs into chunks can be told to put one into each.
    """

    def __init__(self, documents: int, paragraphs: int) -> None:
        self._random = random.Random(7)
        self.documents = {
            f"{number:04}.txt": [self.paragraph() for _ in range(paragraphs)]
            for number in range(1, documents + 1)
        }

    def paragraph(self, *, poison: bool = False) -> str:
        words = [f"w{self._random.getrandbits(40):010x}" for _ in range(WORDS - 1)]
        if poison:
            words[3] = POISON
        return " ".join([*words, "end."])

    def texts(self, names: Iterable[str] | None = None) -> dict[str, str]:
        wanted = self.documents if names is None else names
        return {name: "\n\n".join(self.documents[name]) for name in wanted}

    def edit(self, name: str, *, poison: bool = False) -> str:
        """Write a new paragraph in place of the one in the middle, and return it."""
        paragraphs = self.documents[name]
        new = self.paragraph(poison=poison)
        paragraphs[len(paragraphs) // 2] = new
        return new

    def rename(self, old: str, new: str) -> None:
        self.documents[new] = self.documents.pop(old)

    def copy(self, old: str, new: str) -> None:
        self.documents[new] = list(self.documents[old])

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            del self.documents[name]

    @property
    def chunks(self) -> int:
        return sum(map(len, self.documents.values()))

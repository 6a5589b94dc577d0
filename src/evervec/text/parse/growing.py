"""A text that grows block by block, page by page, and never beyond what one file may hold."""

from collections.abc import Mapping

from evervec.errors import Permanent
from evervec.text.parse.parsed import TEXT_CHARS_MAX, Parsed


class Growing:
    """Takes the blocks of the file *name* in order."""

    def __init__(self, name: str, *, chars_max: int = TEXT_CHARS_MAX) -> None:
        self._name = name
        self._chars_max = chars_max
        self._pieces: list[str] = []
        self._size = 0
        self._pages: list[int] = []
        self._due = 0
        """How many pages begin with the next block."""
        self._close = ""

    def page(self) -> None:
        """Let the next block begin a page."""
        self._due += 1

    def add(self, block: str, *, near: str = "") -> None:
        """Append a block. It is parted from the last one by a blank line, unless both are *near*.

        Neighbours with the same mark for *near* are lines of one block.
        """
        if not block or block.isspace():
            return
        if self._pieces:
            self._put("\n" if near and near == self._close else "\n\n")
        self._pages += [self._size] * self._due
        self._due = 0
        self._put(block)
        self._close = near

    def _put(self, piece: str) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._chars_max:
            raise Permanent(
                f"{self._name!r} holds more than {self._chars_max:,} characters of text",
                hint="split it, convert it to text, or leave it out in .evervecignore",
            )

    @property
    def empty(self) -> bool:
        return not self._pieces

    def parsed(self, kind: str, metadata: Mapping[str, str]) -> Parsed:
        pages = (*self._pages, *[self._size] * self._due)
        return Parsed("".join(self._pieces), kind, metadata, pages)

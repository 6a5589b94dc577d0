"""A folder keeps the promises of a source."""

import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evervec.model import Id, encode_id
from evervec.sources.files import FolderSource
from evervec.testing.notebook import MemoryNotebook
from evervec.testing.source_suite import SourceSuite


class FolderWorld:
    """A folder and a program that writes its files, some of them below other folders."""

    versioned = False

    def __init__(self, root: Path) -> None:
        self.root = root
        self.notebook = MemoryNotebook()
        self.source = self._source()
        self._time = itertools.count(1_700_000_000)

    def _source(self) -> FolderSource:
        return FolderSource(self.root, notebook=self.notebook)

    def _path(self, number: int) -> str:
        return f"{number}.md" if number % 2 else f"even/{number % 4}/{number}.md"

    def id(self, number: int) -> Id:
        return encode_id(self._path(number))

    def insert(self, number: int, text: str) -> None:
        path = self.root / self._path(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        # A file that was written just as it was looked at comes once more by itself, which these
        # tests would take for a change; the tests of the folder source have one of their own.
        os.utime(path, times=(next(self._time),) * 2)

    def update(self, number: int, text: str) -> None:
        self.insert(number, text)

    def delete(self, number: int) -> None:
        (self.root / self._path(number)).unlink()

    def lose(self) -> None:
        """Nothing: the signatures tell of every change, however many hints are lost."""

    def traces(self) -> object:
        """Return everything in the folder that the program did not write."""
        return [path for path in self.root.rglob("*") if path.is_file() and path.suffix != ".md"]

    def text_of(self, fields: object) -> str:
        assert isinstance(fields, dict)
        return str(fields["text"]).strip()

    async def reopen(self) -> None:
        await self.source.close()
        self.source = self._source()
        await self.source.open()


class TestFolder(SourceSuite):
    loses = False

    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[FolderWorld]:
        root = tmp_path / "notes"
        root.mkdir()
        world = FolderWorld(root)
        await world.source.open()
        yield world
        await world.source.close()

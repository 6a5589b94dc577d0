"""A watched SQLite table keeps the promises of a source, in both kinds of journal."""

import sqlite3
from pathlib import Path

import pytest

from evervec.model import Id, encode_id
from evervec.sources.sqlite import TableSource, TableSpec
from evervec.testing.notebook import MemoryNotebook
from evervec.testing.source_suite import SourceSuite

RING = 64


class TableWorld:
    """A table and a program that edits it through the standard library."""

    versioned = True

    def __init__(self, path: Path, journal: str) -> None:
        self.path = path
        self.writer = sqlite3.connect(path, isolation_level=None)
        self.writer.execute(f"pragma journal_mode = {journal}")
        self.writer.execute("create table note (id integer primary key, text, seen)")
        self.notebook = MemoryNotebook()
        self.source = self._source()

    def _source(self) -> TableSource:
        spec = TableSpec(self.path, "note", fields=("text",))
        return TableSource(spec, token="t1", notebook=self.notebook, ring=RING)

    def id(self, number: int) -> Id:
        return encode_id(number)

    def insert(self, number: int, text: str) -> None:
        self.writer.execute("insert into note (id, text) values (?, ?)", (number, text))

    def update(self, number: int, text: str) -> None:
        self.writer.execute("update note set text = ? where id = ?", (text, number))

    def delete(self, number: int) -> None:
        self.writer.execute("delete from note where id = ?", (number,))

    def lose(self) -> None:
        for turn in range(RING * 2):
            self.writer.execute("update note set text = text || ?", (str(turn),))

    def traces(self) -> object:
        rows = self.writer.execute(
            "select type, name, sql from sqlite_master where name like '%evervec%'"
        )
        return sorted(rows.fetchall())

    def text_of(self, fields: object) -> str:
        assert isinstance(fields, dict)
        return str(fields["text"])

    async def reopen(self) -> None:
        await self.source.close()
        self.source = self._source()
        await self.source.open()

    async def close(self) -> None:
        await self.source.close()
        self.writer.close()


class TestTable(SourceSuite):
    @pytest.fixture(params=["wal", "delete", "truncate"])
    async def world(self, request, tmp_path):
        world = TableWorld(tmp_path / "shop.db", request.param)
        await world.source.open()
        yield world
        await world.close()

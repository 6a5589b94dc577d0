"""The store in SQLite keeps the promises of the port, in a file and in memory."""

from collections.abc import AsyncIterator

import pytest

from evervec.ports import Store
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.testing.store_suite import SetClock, StoreSuite


class TestFile(StoreSuite):
    @pytest.fixture
    async def store(self, clock: SetClock, tmp_path) -> AsyncIterator[Store]:
        database = Database(tmp_path / "state.db")
        store = SqliteStore(database, clock=clock)
        await store.open()
        yield store
        await store.close()
        await database.close()


class TestMemory(StoreSuite):
    @pytest.fixture
    async def store(self, clock: SetClock, request) -> AsyncIterator[Store]:
        database = Database(f"file:/store-{id(request)}?vfs=memdb")
        store = SqliteStore(database, clock=clock)
        await store.open()
        yield store
        await store.close()
        await database.close()

"""A state database on a disk that fails: it knows what each commit was to leave behind.

All runs on one thread, under a simulated loop, because the disk's account of what is durable is
kept in Python. The content of every table is written down just before each commit, so that what
is found later can be compared row by row, whatever the verb was.
"""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import apsw

from evervec.queues.sqlite import SqliteQueue
from evervec.registry import SqliteRegistry
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.testing.clock import VirtualClock
from evervec.testing.simulation import SimulatedLoop

T = TypeVar("T")

Content: TypeAlias = dict[str, list[Any]]
"""Every row of every table."""


def content(connection: apsw.Connection) -> Content:
    """Return what the tables hold; the full text index is derived and checked on its own."""
    names = connection.execute(
        "select name from pragma_table_list where schema = 'main' and type = 'table'"
        " and name <> 'sqlite_schema'"
    )
    return {
        str(name): connection.execute(f"select * from {name}").fetchall()
        for (name,) in names.fetchall()
    }


class Recorded(Database):
    """Writes down what is committed and what is about to be."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.committed: Content = {}
        self.pending: Content = {}
        self.commits: list[Content] = []

    def write_now(self, work: Callable[[apsw.Connection], T], label: str = "") -> T:
        def recorded(connection: apsw.Connection) -> T:
            answer = work(connection)
            self.pending = content(connection)
            return answer

        answer = super().write_now(recorded, label)
        self.committed = self.pending
        self.commits.append(self.committed)
        return answer

    def look(self) -> Content:
        return self.read_now(content)

    def set(self, pragma: str, value: str) -> None:
        connection = self.read_now(lambda connection: connection)
        with self._plain_words():
            connection.pragma(pragma, value)


@contextmanager
def closing_loop(seed: int) -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(seed, picks_max=10_000_000)
    try:
        yield loop
    finally:
        loop.dispose()


class State:
    """Queue, store and registry in one such database, as one boot of one machine sees them."""

    def __init__(
        self, loop: SimulatedLoop, path: str, *, clock: VirtualClock, boot: str = "first"
    ) -> None:
        self.loop = loop
        self.boot = boot
        self.database = Recorded(path)
        self.clock = clock
        self.queue = SqliteQueue(
            self.database, clock=self.clock, boot=boot, alive=lambda holder: holder.boot == boot
        )
        self.store = SqliteStore(self.database, clock=self.clock)
        self.registry = SqliteRegistry(self.database)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def open(self) -> None:
        self.queue.open()
        await self.store.open()
        self.registry.open()

    def close(self) -> None:
        self.database.close_now()

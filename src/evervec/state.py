"""The state, opened: the databases behind it and the adapters over them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from evervec.capture import new_scan
from evervec.clock import SYSTEM, Clock
from evervec.errors import ConfigError
from evervec.ports import Queue
from evervec.queues.sqlite import SqliteQueue
from evervec.registry import SqliteRegistry
from evervec.settings import Settings
from evervec.sqlite.database import Database
from evervec.sqlite.events import SqliteEvents, relay
from evervec.stores.sqlite import SqliteStore

EVENTS = "evervec.sqlite.schema"


@dataclass(frozen=True)
class State:
    """Everything durable, by its port."""

    settings: Settings
    database: Database
    queue_database: Database
    queue: SqliteQueue
    store: SqliteStore
    registry: SqliteRegistry
    events: SqliteEvents
    clock: Clock

    def holds(self, path: str) -> bool:
        """Say whether the file at *path* is one of the state's own."""
        own = {Path(each.path).resolve() for each in (self.database, self.queue_database)}
        return Path(path).resolve() in own

    async def identity(self) -> str:
        """Return the state's own name, drawn once: it keeps apart who watches the same table."""
        return await self.registry.settle_setting("identity", token_hex(4))

    async def mend_queue(self) -> None:
        """Notice a queue that was deleted, restored or exchanged, and make up for what it held.

        What that was is unknown, so every collection is scanned: what is missing is embedded, what
        is unchanged costs nothing. A crash in between repeats it.
        """
        identity = await self.queue.identity()
        known = await self.registry.setting("queue") == identity
        if known and self.queue_database is self.database:
            return
        raised = await self.queue.raise_fence(await self.store.highest_fence())
        if known and not raised:
            return
        for each in await self.registry.collections():
            await self.registry.notebook(each.number).save(new_scan())
        await self.registry.set("queue", identity)

    async def gather_facts(self) -> None:
        """Bring the facts of a queue in a file of its own into the one log that readers see."""
        if self.queue_database is self.database:
            return
        origin = await self.queue.identity()
        while await relay(self.queue_database, self.database, origin=origin):
            pass

    async def close(self) -> None:
        await self.queue.close()
        await self.store.close()
        await self.database.close()
        if self.queue_database is not self.database:
            await self.queue_database.close()


def open_state(settings: Settings, *, clock: Clock = SYSTEM, create: bool = True) -> State:
    """Open the state that *settings* name, making or migrating it as needed."""
    if "://" in settings.state:
        raise ConfigError(
            f"state {settings.state!r} is not a file",
            hint="this version keeps its state in an SQLite file; give a path",
        )
    if not create and not Path(settings.state).exists():
        raise ConfigError(
            f"there is no state at {settings.state!r}",
            hint="start with `evervec up FOLDER` or `evervec watch FILE TABLE --text '…'`, "
            "or name the state with --state",
        )
    database = Database(settings.state)
    queue_database = Database(settings.queue) if settings.queue else database
    database.migrate("events", EVENTS)
    if queue_database is not database:
        queue_database.migrate("events", EVENTS)
    registry = SqliteRegistry(database)
    registry.open()
    store = SqliteStore(database, clock=clock)
    database.migrate("store", "evervec.stores.sqlite.schema")
    queue = SqliteQueue(queue_database, clock=clock, crashes_max=settings.worker.crashes)
    queue.open()
    return State(
        settings,
        database,
        queue_database,
        queue,
        store,
        registry,
        SqliteEvents(database),
        clock,
    )


@asynccontextmanager
async def another_queue(state: State) -> AsyncIterator[Queue]:
    """Open the same queue over a connection of its own, for a thread of its own."""
    database = Database(state.queue_database.path)
    queue = SqliteQueue(database, clock=state.clock, crashes_max=state.settings.worker.crashes)
    try:
        yield queue
    finally:
        await queue.close()
        await database.close()

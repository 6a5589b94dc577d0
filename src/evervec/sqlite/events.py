"""The event log's table: facts appended in the transaction of the state they report."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from evervec.model import Id, Scope
from evervec.ports import Event
from evervec.sqlite.database import Database
from evervec.sqlite.statements import statements

SQL = statements("evervec.sqlite", "events.sql")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that happened, before it has a number."""

    type: str
    scope: Scope
    document: Id | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


def append(connection: apsw.Connection, facts: Iterable[Fact], *, at: int) -> None:
    """Append *facts* in the caller's transaction, numbered within each tenant."""
    by_tenant: dict[str, list[Fact]] = {}
    for fact in facts:
        by_tenant.setdefault(fact.scope.tenant, []).append(fact)
    for tenant, mine in by_tenant.items():
        last = connection.execute(SQL["number"], (tenant, len(mine))).get
        connection.executemany(
            SQL["append"],
            (
                (
                    tenant,
                    last - len(mine) + place,
                    fact.type,
                    fact.scope.collection,
                    fact.document,
                    at,
                    json.dumps(fact.data, ensure_ascii=False),
                )
                for place, fact in enumerate(mine, start=1)
            ),
        )


class SqliteEvents:
    """Reads the event log of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def events(self, *, tenant: str, after: int, limit: int) -> Sequence[Event]:
        """Return *tenant*'s facts behind number *after*, oldest first."""
        return await self._database.read(
            lambda connection: [
                Event(number, tenant, type_, collection, document, at, json.loads(data))
                for number, type_, collection, document, at, data in connection.execute(
                    SQL["after"], (tenant, after, limit)
                )
            ]
        )

    async def last(self, tenant: str) -> int:
        """Return the number of *tenant*'s newest fact, 0 if there is none."""
        return int(
            await self._database.read(
                lambda connection: connection.execute(SQL["last"], (tenant,)).get or 0
            )
        )

    async def prune(self, *, before: int, limit: int) -> int:
        """Delete up to *limit* of the oldest facts from before then."""

        def work(connection: apsw.Connection) -> int:
            connection.execute(SQL["prune"], (before, limit))
            return connection.changes()

        return await self._database.write(work)


async def relay(source: Database, target: Database, *, origin: str, limit: int = 1000) -> int:
    """Move facts of *source*'s log into *target*'s, each exactly once, and return how many.

    A queue in a file of its own keeps its facts there, in the transactions that they report.
    Readers look at one log only. *origin* is the source's name for ever, not its path.
    """

    def behind(connection: apsw.Connection) -> int:
        return int(connection.execute(SQL["relayed"], (origin,)).get or 0)

    last = await target.read(behind)
    rows: list[Any] = await source.read(
        lambda connection: connection.execute(SQL["behind"], (last, limit)).fetchall()
    )
    if not rows:
        return 0

    def copy(connection: apsw.Connection) -> int:
        if behind(connection) != last:
            return 0  # another process was quicker
        for _, tenant, type_, collection, document, at, data in rows:
            fact = Fact(type_, Scope(tenant, collection), document, json.loads(data))
            append(connection, [fact], at=at)
        connection.execute(SQL["relay_to"], (origin, rows[-1][0]))
        return len(rows)

    copied = await target.write(copy)
    await source.write(lambda connection: connection.execute(SQL["remove_relayed"], (last,)))
    return copied

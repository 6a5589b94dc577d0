"""From rows to values, and the numbers that stand for collections."""

from array import array
from collections.abc import Iterable
from typing import Any, TypeAlias

import apsw

from evervec.errors import StateError
from evervec.model import Id, Job, Key, Lane, Scope
from evervec.sqlite.statements import statements

SQL = statements("evervec.queues.sqlite", "queue.sql")

Row: TypeAlias = tuple[Any, ...]
Name: TypeAlias = tuple[str, str]
"""A collection's tenant and its own name; cheaper to look up than a `Scope`."""

REST = 40
"""Milliseconds without a change after which a document that changed all the time is at rest."""
REASON_MAX = 2_000
STACK_MAX = 8_000


def ids(numbers: Iterable[int]) -> Any:
    """Bind many numbers as one value."""
    # An empty buffer cannot be bound, and no job has the number 0.
    return apsw.carray(array("q", numbers) or array("q", [0]))


def bounded(text: str, most: int, *, end: bool = False) -> str:
    """Cut *text* to what is worth keeping, in a form that can be stored."""
    cut = text[-most:] if end else text[:most]
    return cut.encode("utf-8", "replace").decode("utf-8")


def rows(connection: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> list[Row]:
    """Run *sql* and return all its rows."""
    found: list[Row] = connection.execute(sql, values).fetchall()
    return found


class Scopes:
    """Remembers which number and which lane belong to a collection; they never change."""

    def __init__(self) -> None:
        self._numbers: dict[Name, Row] = {}
        self._scopes: dict[int, Scope] = {}

    def known(self, name: Name) -> Row | None:
        """Return (number, lane) of the collection called *name* if it is remembered."""
        return self._numbers.get(name)

    def find(self, connection: apsw.Connection, scope: Scope) -> Row | None:
        """Return (number, lane) of *scope*, None if it never had a job."""
        name = scope.tenant, scope.collection
        known = self._numbers.get(name)
        if known is None:
            known = connection.execute(SQL["find_scope"], name).fetchone()
        return known

    def add(self, connection: apsw.Connection, name: Name) -> Row:
        """Return (number, lane) of the collection called *name*, which from now on has one."""
        place: Row | None = connection.execute(SQL["find_scope"], name).fetchone()
        if place is None:
            connection.execute(SQL["tenant"], (name[0],))
            connection.execute(SQL["scope"], name)
            # Not remembered here: the transaction may still be rolled back.
            place = connection.execute(SQL["find_scope"], name).fetchone()
        if place is None:
            raise StateError(f"the queue cannot keep the collection {name[1]!r}")
        return place

    def keep(self, found: dict[Name, Row]) -> None:
        """Remember what is committed."""
        self._numbers.update(found)

    def name(self, connection: apsw.Connection, number: int) -> Scope:
        """Return the collection that *number* stands for."""
        scope = self._scopes.get(number)
        if scope is None:
            tenant, collection, _ = rows(connection, SQL["name_scope"], (number,))[0]
            scope = Scope(tenant, collection)
            # Safe to remember: only a put adds a scope, and puts never ask for a name.
            self._scopes[number] = scope
        return scope

    def job(self, connection: apsw.Connection, row: Row) -> Job:
        job, number, document, lane, took, attempts, force, since = row
        scope = self.name(connection, number)
        return Job(
            job=job,
            key=Key(scope.tenant, scope.collection, Id(document)),
            lane=Lane.LIVE if lane > 0 else Lane.BACKFILL,
            took=took,
            attempts=attempts,
            force=bool(force),
            since=since,
        )

"""The registry on SQLite."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from evervec.errors import ConfigError, RecipeChanged
from evervec.model import Scope, Space
from evervec.ports import Registered
from evervec.sqlite.database import Database
from evervec.sqlite.statements import statements

SQL = statements("evervec.registry", "registry.sql")

_AFTER_EVERY_NAME = "\U0010ffff"


class SqliteRegistry:
    """Collections, spaces, notes and settings in the state database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self) -> None:
        self._database.migrate("registry", "evervec.registry.schema")

    async def collections(self) -> Sequence[Registered]:
        return await self._database.read(
            lambda connection: [_registered(row) for row in connection.execute(SQL["collections"])]
        )

    async def find(self, scope: Scope) -> Registered | None:
        def work(connection: apsw.Connection) -> Registered | None:
            row = connection.execute(SQL["find"], (scope.tenant, scope.collection)).fetchone()
            return _registered(row) if row else None

        return await self._database.read(work)

    async def register(
        self,
        scope: Scope,
        *,
        source: Mapping[str, Any],
        recipe: Mapping[str, Any],
        space: Space,
        change: bool = False,
    ) -> Registered:
        """Add a collection, or confirm that it is as registered. Idempotent.

        Raises RecipeChanged if it exists otherwise, unless *change* says that this is wanted; and
        in any case if it exists with another model, whose vectors these would be mixed with.
        """

        def work(connection: apsw.Connection) -> Registered:
            number = _space_number(connection, space)
            name = (scope.tenant, scope.collection)
            wanted = (*name, _json(source), _json(recipe), number)
            row = connection.execute(SQL["find"], name).fetchone()
            if row is None:
                connection.execute(SQL["add"], wanted)
            elif _registered(row).space != number:
                raise _another_model(scope, _space(connection, _registered(row).space), space)
            elif what := _differences(_registered(row), source, recipe):
                if not change:
                    raise _changed(scope, what)
                connection.execute(SQL["change"], wanted)
            (row,) = connection.execute(SQL["find"], name)
            return _registered(row)

        return await self._database.write(work)

    async def unregister(self, scope: Scope) -> None:
        def work(connection: apsw.Connection) -> None:
            name = (scope.tenant, scope.collection)
            connection.execute(SQL["remove_notes"], name)
            connection.execute(SQL["remove"], name)

        await self._database.write(work)

    async def space(self, number: int) -> Space:
        return await self._database.read(lambda connection: _space(connection, number))

    async def space_number(self, space: Space) -> int | None:
        """Return the number of *space* if anything was ever registered with it."""

        def work(connection: apsw.Connection) -> int | None:
            number: int | None = connection.execute(SQL["space_number"], _values(space)).get
            return number

        return await self._database.read(work)

    def notebook(self, number: int) -> "SqliteNotebook":
        return SqliteNotebook(self._database, number)

    async def halt(self, scope: Scope, reason: str) -> None:
        await self._halt(scope, reason)

    async def resume(self, scope: Scope) -> None:
        await self._halt(scope, "")

    async def setting(self, name: str) -> str | None:
        return await self._database.read(
            lambda connection: connection.execute(SQL["setting"], (name,)).get
        )

    async def set(self, name: str, value: str) -> None:
        await self._database.write(lambda connection: connection.execute(SQL["set"], (name, value)))

    async def settle_setting(self, name: str, value: str) -> str:
        """Give *name* this value unless it has one; return what it is now."""

        def work(connection: apsw.Connection) -> str:
            connection.execute(SQL["set_first"], (name, value))
            return str(connection.execute(SQL["setting"], (name,)).get)

        return await self._database.write(work)

    async def _halt(self, scope: Scope, reason: str) -> None:
        await self._database.write(
            lambda connection: connection.execute(
                SQL["halt"], (scope.tenant, scope.collection, reason)
            )
        )


class SqliteNotebook:
    """One collection's notes."""

    def __init__(self, database: Database, number: int) -> None:
        self._database = database
        self._number = number

    async def load(self, prefix: str = "") -> dict[str, bytes]:
        def work(connection: apsw.Connection) -> dict[str, bytes]:
            rows: list[Any] = connection.execute(
                SQL["notes"], (self._number, prefix, prefix + _AFTER_EVERY_NAME)
            ).fetchall()
            return dict(rows)

        return await self._database.read(work)

    async def save(self, notes: Mapping[str, bytes | None]) -> None:
        def work(connection: apsw.Connection) -> None:
            connection.executemany(
                SQL["write_note"],
                [(self._number, name, value) for name, value in notes.items() if value is not None],
            )
            connection.executemany(
                SQL["remove_note"],
                [(self._number, name) for name, value in notes.items() if value is None],
            )

        await self._database.write(work)


def _registered(row: tuple[Any, ...]) -> Registered:
    number, tenant, name, source, recipe, space, halted = row
    return Registered(
        number, Scope(tenant, name), json.loads(source), json.loads(recipe), space, halted
    )


def _space_number(connection: apsw.Connection, space: Space) -> int:
    connection.execute(SQL["add_space"], _values(space))
    return int(connection.execute(SQL["space_number"], _values(space)).get)


def _values(space: Space) -> tuple[str, str, int, bool, int]:
    return (space.model, space.revision, space.dimension, space.normalised, space.recipe)


def _space(connection: apsw.Connection, number: int) -> Space:
    row = connection.execute(SQL["space"], (number,)).fetchone()
    if row is None:
        raise ConfigError(f"space {number} is not registered in this state")
    model, revision, dimension, normalised, recipe = row
    return Space(model, revision, dimension, bool(normalised), recipe)


def _differences(now: Registered, source: Mapping[str, Any], recipe: Mapping[str, Any]) -> str:
    pairs = (("source", now.source, source), ("recipe", now.recipe, recipe))
    return " and ".join(what for what, old, new in pairs if _json(old) != _json(new))


def _changed(scope: Scope, what: str) -> RecipeChanged:
    return RecipeChanged(
        f"collection {scope.collection!r} is registered with another {what}",
        hint="keep it as it was; or say that the change is wanted (change=True, `--change`): "
        "its documents are embedded anew behind live edits and stay searchable meanwhile; "
        "or give the new one another name",
    )


def _another_model(scope: Scope, old: Space, new: Space) -> RecipeChanged:
    return RecipeChanged(
        f"collection {scope.collection!r} is embedded with {old.name}, and this program has"
        f" {new.name}; vectors of two models cannot be compared",
        hint="give the new one another name, and let go of the old one (`evervec unwatch"
        f" {scope.collection}`) once the new one is in sync; or go on with the old model",
    )


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)

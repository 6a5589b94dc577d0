"""What a user's table looks like: its columns, what names a row, what may push a row out."""

import difflib
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evervec.errors import ConfigError
from evervec.sources.sqlite.names import TEMPLATES, fill, quoted

# Their answer changes without the row changing, so no trigger could tell.
_FICKLE = frozenset(
    [
        "random",
        "randomblob",
        "changes",
        "total_changes",
        "last_insert_rowid",
        "current_timestamp",
        "current_date",
        "current_time",
    ]
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"((?:[^\"]|\"\")*)\"")


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Which table is watched, and which of its columns count."""

    path: Path
    table: str
    fields: Sequence[str] = ()
    """The columns that the template uses."""
    metadata: Sequence[str] = ()
    key: Sequence[str] = ()
    """The columns that name a row; empty for the declared primary key."""
    where: str | None = None
    """Rows for which this SQL expression is not true are not documents."""
    into: str | None = None
    """The column that is to hold each row's vector."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    generated: bool

    @property
    def untyped(self) -> bool:
        """Whether one column may hold equal numbers of different types, as 1 and 1.0."""
        declared = self.type.upper()
        typed = any(word in declared for word in ("INT", "CHAR", "CLOB", "TEXT"))
        return not declared or (not typed and ("BLOB" in declared or "ANY" in declared))


@dataclass(frozen=True, slots=True)
class Part:
    """A column of an index, as the index orders it."""

    name: str
    collation: str
    descending: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """A table as it is now, with everything that was asked for found in it."""

    table: str
    columns: dict[str, Column]
    key: tuple[Part, ...]
    rowid: bool
    """The key is the rowid itself, which has other names too."""
    fields: dict[str, str]
    """The names that were asked for, each with the column's own name."""
    metadata: dict[str, str]
    watched: tuple[str, ...]
    clashes: tuple[tuple[Part, ...], ...]
    """Further unique indexes, on which REPLACE pushes other rows out."""
    uncovered: tuple[str, ...]
    """Unique indexes on expressions or a part of the rows: what REPLACE does there is not seen."""
    where: str | None
    into: str | None


def inspect(connection: sqlite3.Connection, spec: TableSpec) -> Shape:
    """Find all that *spec* asks for. Raises ConfigError with the names that are near."""
    table = _table(connection, spec)
    rows = connection.execute(TEMPLATES["columns"], (table,)).fetchall()
    columns = {name: Column(name, kind, hidden in (2, 3)) for name, kind, _, hidden in rows}
    declared = [name for pk, name in sorted((pk, name) for name, _, pk, _ in rows if pk)]
    unique, uncovered = _unique(connection, table)
    rowid = len(declared) == 1 and not any(origin == "pk" for origin, _ in unique)
    if rowid:
        unique.append(("pk", (Part(declared[0], "binary", descending=False),)))
    wanted = [_column(name, columns, spec, "--key") for name in spec.key] or declared
    key = _key(spec, wanted, unique)
    fields = {name: _column(name, columns, spec, "--text") for name in spec.fields}
    metadata = {name: _column(name, columns, spec, "--metadata") for name in spec.metadata}
    watched = dict.fromkeys((*fields.values(), *metadata.values(), *(part.name for part in key)))
    if spec.where is not None:
        watched |= dict.fromkeys(_used(connection, spec, table, columns))
    return Shape(
        table=table,
        columns=columns,
        key=key,
        rowid=rowid and [part.name for part in key] == declared,
        fields=fields,
        metadata=metadata,
        watched=tuple(watched),
        clashes=tuple(parts for _, parts in unique if set(parts) != set(key)),
        uncovered=uncovered,
        where=spec.where,
        into=_into(spec, columns, watched),
    )


def _into(spec: TableSpec, columns: dict[str, Column], watched: Iterable[str]) -> str | None:
    """Return the column for the vectors: one that nothing of the document is made of."""
    if spec.into is None:
        return None
    name = _find(spec.into, columns)
    if name is None:
        raise ConfigError(
            f"table {spec.table!r} in {str(spec.path)!r} has no column {spec.into!r}, named by --into",
            hint=f"add it: alter table {quoted(spec.table)} add column {quoted(spec.into)} blob;"
            f" or name another: {_near(spec.into, columns)}",
        )
    if columns[name].generated:
        raise ConfigError(
            f"column {name!r} of {spec.table!r} is computed, so no vector can be written into it",
            hint="name an ordinary column with --into",
        )
    if name in watched:
        raise ConfigError(
            f"column {name!r} of {spec.table!r} is part of the document, and its vector would be"
            " written over it",
            hint="name a column with --into that the text, the key and --where do not use",
        )
    return name


def _table(connection: sqlite3.Connection, spec: TableSpec) -> str:
    rows = connection.execute(TEMPLATES["tables"]).fetchall()
    kinds = {name: (kind, sql or "") for name, kind, sql in rows}
    name = _find(spec.table, kinds)
    if name is None or name.lower().startswith("sqlite_"):
        usual = [table for table in kinds if not table.startswith(("sqlite_", "evervec_"))]
        raise ConfigError(
            f"{str(spec.path)!r} has no table {spec.table!r}", hint=_near(spec.table, usual)
        )
    kind, sql = kinds[name]
    if kind == "view":
        raise ConfigError(
            f"{name!r} in {str(spec.path)!r} is a view, and changes of a view cannot be seen",
            hint="watch the table behind it; --where picks rows, --text picks columns",
        )
    if re.match(r"\s*create\s+virtual\s", sql, re.IGNORECASE):
        raise ConfigError(
            f"{name!r} in {str(spec.path)!r} is a virtual table, and those take no triggers",
            hint="watch the ordinary table that it is filled from",
        )
    return name


def _unique(
    connection: sqlite3.Connection, table: str
) -> tuple[list[tuple[str, tuple[Part, ...]]], tuple[str, ...]]:
    found, uncovered = [], []
    for index, origin, partial in connection.execute(TEMPLATES["indexes"], (table,)).fetchall():
        rows = connection.execute(TEMPLATES["index"], (index,)).fetchall()
        if partial or any(name is None for name, _, _ in rows):
            uncovered.append(index)
        else:
            parts = tuple(Part(name, coll, bool(desc)) for name, coll, desc in rows)
            found.append((origin, parts))
    return found, tuple(uncovered)


def _key(
    spec: TableSpec, wanted: list[str], unique: list[tuple[str, tuple[Part, ...]]]
) -> tuple[Part, ...]:
    if not wanted:
        raise ConfigError(
            f"table {spec.table!r} in {str(spec.path)!r} has no primary key",
            hint="name the columns that tell its rows apart with --key; they need a unique index",
        )
    for _, parts in unique:
        if sorted(part.name for part in parts) == sorted(wanted):
            by_name = {part.name: part for part in parts}
            # A user's key has the user's order in the ids; the declared one has its own anyway.
            return parts if not spec.key else tuple(by_name[name] for name in wanted)
    names = ", ".join(wanted)
    raise ConfigError(
        f"--key {names!r} does not tell the rows of {spec.table!r} apart: it has no unique index",
        hint=f"create unique index … on {quoted(spec.table)} ({names}), or name other columns",
    )


def _used(
    connection: sqlite3.Connection, spec: TableSpec, table: str, columns: dict[str, Column]
) -> list[str]:
    """Return the columns that the row filter looks at, as SQLite's own parser finds them."""
    reads: set[tuple[str, str]] = set()
    foreign: list[str] = []
    selects = 0

    def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        nonlocal selects
        if action == sqlite3.SQLITE_READ:
            reads.add((first or "", second or ""))
        elif action == sqlite3.SQLITE_SELECT:
            selects += 1
        elif action != sqlite3.SQLITE_FUNCTION or (second or "").lower() in _FICKLE:
            foreign.append(second or first or "")
        return sqlite3.SQLITE_OK if not foreign else sqlite3.SQLITE_DENY

    text = fill("where", {"where": spec.where or ""})
    connection.set_authorizer(authorize)
    try:
        connection.execute(fill("try_where", {"table": quoted(table), "where": text}))
    except (sqlite3.Error, sqlite3.Warning) as error:
        if not foreign:
            raise ConfigError(
                f"--where {spec.where!r} is not understood: {error}",
                hint=f"write an SQL condition over the columns of {table!r}: {', '.join(columns)}",
            ) from error
    finally:
        connection.set_authorizer(None)
    strings = {name for name in _QUOTED.findall(spec.where or "") if name}
    strangers = sorted(name for name in strings if _find(name, columns) is None)
    if strangers:
        _column(strangers[0], columns, spec, "--where (write text in single quotes)")
    others = {name for owner, name in reads if owner != table or _find(name, columns) is None}
    fickle = "'now'" in (spec.where or "").lower()
    if foreign or others or selects > 1 or fickle:
        raise ConfigError(
            f"--where {spec.where!r} looks beyond the row itself, so changes could be missed",
            hint="use only columns of this table and no time, no chance and no subquery",
        )
    return [found for _, name in sorted(reads) if (found := _find(name, columns))]


def _column(name: str, columns: dict[str, Column], spec: TableSpec, where: str) -> str:
    found = _find(name, columns)
    if found is None:
        raise ConfigError(
            f"table {spec.table!r} in {str(spec.path)!r} has no column {name!r}, named by {where}",
            hint=_near(name, columns),
        )
    return found


def _find(name: str, names: Iterable[str]) -> str | None:
    """Return the spelling that exists; SQLite does not tell `Title` from `title`."""
    same = [other for other in names if other.lower() == name.lower()]
    return name if name in same else next(iter(same), None)


def _near(name: str, names: Iterable[str]) -> str:
    known = sorted(names)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(repr(other) for other in near) + "?"
    if not known:
        return "it has none at all"
    shown = ", ".join(repr(other) for other in known[:20])
    return f"there are {shown}" + (", …" if len(known) > 20 else "")


def described(spec: TableSpec, scan_only: str, uncovered: Sequence[str]) -> str:
    """Say how changes of *spec* are noticed: by triggers, or *scan_only* and why."""
    table = f"table {spec.table!r} of {str(spec.path)!r}"
    if scan_only:
        return (
            f"{table}: scanned whenever the file changes, because no triggers can be put"
            f" into it ({scan_only})"
        )
    if not uncovered:
        return f"{table}: every change is captured by triggers"
    names = ", ".join(repr(name) for name in uncovered)
    return (
        f"{table}: changes are captured by triggers, except rows that REPLACE pushes out on"
        f" the partial or computed index {names}; verify finds those"
    )

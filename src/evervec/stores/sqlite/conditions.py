"""What a filter means: conditions on metadata, checked here and written for the statement `matching`.

A number is compared with numbers and a text with texts. A document without the field meets no
condition on it, not even that it be other than something.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw
import numpy as np

from evervec.errors import ConfigError
from evervec.stores.sqlite.chunks import Chunks, Hidden
from evervec.stores.sqlite.index import SQL, CollectionRow
from evervec.stores.sqlite.lexical import Frequencies
from evervec.stores.sqlite.rows import plain

COMPARED = ("=", "!=", "<", "<=", ">", ">=")
KEPT = 8
"""How many filters' answers are remembered, for as long as their collection does not change."""


def conditions(where: Mapping[str, Any]) -> list[tuple[str, str, list[Any]]]:
    """Return each condition: field, comparison, and the values of which one meets it (`!=`: none)."""
    found: list[tuple[str, str, list[Any]]] = []
    for name, wanted in where.items():
        if not isinstance(wanted, Mapping) or not set(wanted) & set(COMPARED):
            found.append((name, "=", _values(wanted)))
            continue
        for comparison, value in wanted.items():
            if comparison not in COMPARED:
                raise ConfigError(
                    f"field {name!r} cannot be compared by {comparison!r}",
                    hint=f"use one of {' '.join(COMPARED)}",
                )
            if comparison in {"=", "!="}:
                found.append((name, comparison, _values(value)))
            else:
                found.append((name, comparison, [_ordered(name, comparison, value)]))
    return found


def _values(wanted: Any) -> list[Any]:
    if isinstance(wanted, list | tuple | set | frozenset):
        return [plain(each) for each in wanted]
    return [plain(wanted)]


def _ordered(name: str, comparison: str, value: Any) -> Any:
    told = plain(value)
    if isinstance(told, bool) or not isinstance(told, int | float | str):
        raise ConfigError(
            f"field {name!r} cannot be {comparison} {value!r}",
            hint="compare with a number or a text",
        )
    return told


class Filters:
    """Which chunks meet a filter. What was found holds until the collection changes."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int, str], Chunks] = OrderedDict()

    def allowed(
        self, connection: apsw.Connection, row: CollectionRow, where: Mapping[str, Any]
    ) -> Chunks | None:
        """Return the chunks that meet *where*, sorted; None if all do."""
        wanted = conditions(where)
        if not wanted:
            return None
        key = row.number, row.revision, json.dumps(wanted)
        chunks = self._known.pop(key, None)
        if chunks is None:
            given = {"collection": row.number, "wanted": key[2], "conditions": len(wanted)}
            found = connection.execute(SQL["matching"], given)
            chunks = np.sort(np.fromiter((chunk for (chunk,) in found), np.int64))
        # Threads may do this at once; the worst is that one of them remembers for nothing.
        self._known[key] = chunks
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return chunks


class Unseen:
    """Which chunks no search may see. What was found holds until the collection changes."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Hidden]] = {}

    def of(self, connection: apsw.Connection, row: CollectionRow) -> Hidden:
        """Return what is hidden of a collection; nearly always that is nothing."""
        revision, hidden = self._known.get(row.number, (-1, Hidden()))
        if revision == row.revision:
            return hidden
        found = connection.execute(SQL["hidden"], {"collection": row.number})
        rows = np.fromiter(found, np.dtype([("chunk", "<i8"), ("going", "?")]))
        chunks, going = rows["chunk"], rows["going"]
        hidden = Hidden(np.sort(chunks[~going]), np.sort(chunks[going]))
        self._known[row.number] = row.revision, hidden
        return hidden


@dataclass(frozen=True, slots=True)
class Memory:
    """What holds until a collection changes, so that the next search need not ask again."""

    filters: Filters = field(default_factory=Filters)
    frequencies: Frequencies = field(default_factory=Frequencies)
    unseen: Unseen = field(default_factory=Unseen)

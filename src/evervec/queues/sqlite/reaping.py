"""Reap: notice holders that are gone and make their jobs suspects."""

from collections import Counter
from collections.abc import Callable, Sequence

import apsw

from evervec.model import Holder, Id, Key
from evervec.queues.sqlite.rows import SQL, Row, Scopes, ids, rows
from evervec.sqlite.events import Fact, append

_MATES_DIVISOR = 8


def doomed(
    connection: apsw.Connection, alive: Callable[[Holder], bool], boot: str, now: int
) -> list[int]:
    """Return the leases that ran out or whose holder is dead.

    A boot clock says nothing about another boot's times: after a restart every lease is void.
    """
    here = boot.partition("/")[0]
    judged: dict[Holder, bool] = {}
    found = []
    for fence, name, host, pid, started, at_boot, expires, _ in rows(connection, SQL["leases"]):
        holder = Holder(name, host, pid, started, at_boot)
        if holder not in judged:
            judged[holder] = at_boot.partition("/")[0] == here and alive(holder)
        if expires <= now or not judged[holder]:
            found.append(fence)
    return found


def reap(
    connection: apsw.Connection,
    fences: Sequence[int],
    scopes: Scopes,
    crashes_max: int,
    now: int,
) -> list[Key]:
    """End the leases *fences*; their jobs become suspects, repeated killers are quarantined."""
    keys: list[Key] = []
    facts: list[Fact] = []
    for fence, name, size, leases in rows(connection, SQL["still_expired"], (ids(fences),)):
        orphans = rows(connection, SQL["orphans"], (fence,))
        keys += [_key(connection, row, scopes) for row in orphans]
        together = max(1, len(orphans) // _MATES_DIVISOR)
        # Only a job that was alone in its process is surely the one that was being worked on.
        alone = size == leases == 1
        connection.execute(SQL["suspect"], (fence, together, int(alone)))
        facts += _expired(connection, fence, name, orphans, scopes)
        if alone:
            facts += _quarantined(connection, fence, scopes, crashes_max, now)
        connection.execute(SQL["drop_lease"], (fence,))
        connection.execute(SQL["end_stopped"], (fence,))
    append(connection, facts, at=now)
    return keys


def _quarantined(
    connection: apsw.Connection, fence: int, scopes: Scopes, crashes_max: int, now: int
) -> list[Fact]:
    reason = f"its worker died {crashes_max} times while it worked on this document alone"
    facts = []
    for row in rows(connection, SQL["quarantine"], (fence, now, crashes_max, reason)):
        key = _key(connection, row, scopes)
        data = {"job": row[0], "crashes": row[3], "reason": reason}
        facts.append(Fact("job.quarantined", key.scope, key.id, data))
    return facts


def _key(connection: apsw.Connection, row: Row, scopes: Scopes) -> Key:
    scope = scopes.name(connection, row[1])
    return Key(scope.tenant, scope.collection, Id(row[2]))


def _expired(
    connection: apsw.Connection, fence: int, name: str, orphans: list[Row], scopes: Scopes
) -> list[Fact]:
    return [
        Fact(
            "lease.expired",
            scopes.name(connection, number),
            None,
            {"fence": fence, "holder": name, "jobs": count},
        )
        for number, count in Counter(row[1] for row in orphans).items()
    ]

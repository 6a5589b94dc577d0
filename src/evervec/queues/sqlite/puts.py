"""Put: merge changes into one row a document."""

from collections.abc import Sequence

import apsw

from evervec.model import Change, Key, Lane, Scope
from evervec.ports import Put
from evervec.queues.sqlite.rows import SQL, Row, Scopes

AGING_STEP = 60_000
"""What one step of priority is worth in milliseconds of waiting."""


def merged(changes: Sequence[Change]) -> dict[Key, Change]:
    """Return one change a document: the most urgent, forced if one is, as old as the oldest."""
    by_key: dict[Key, Change] = {}
    for change in changes:
        other = by_key.setdefault(change.key, change)
        if other is not change:
            times = [at for at in (other.at, change.at) if at is not None]
            by_key[change.key] = Change(
                key=change.key,
                priority=min(other.priority, change.priority),
                force=other.force or change.force,
                at=min(times, default=None),
            )
    return by_key


def put(
    connection: apsw.Connection, changes: Sequence[Change], lane: Lane, scopes: Scopes, now: int
) -> tuple[Put, dict[Scope, Row]]:
    """Merge *changes*; also return the collections' numbers, to remember once committed."""
    found: dict[Scope, Row] = {}
    places: dict[tuple[str, str], tuple[int, int]] = {}
    rows = []
    for key, change in merged(changes).items():
        place = places.get((key.tenant, key.collection))
        if place is None:
            number, tenant_lane = found[key.scope] = scopes.add(connection, key.scope)
            place = number, tenant_lane if lane is Lane.LIVE else -tenant_lane
            places[key.tenant, key.collection] = place
        # A source's clock that runs ahead does not make a change younger than its arrival.
        since = now if change.at is None else min(change.at, now)
        ready = now + change.priority * AGING_STEP
        rows.append((place[0], key.id, place[1], ready, change.priority, int(change.force), since))
    newest = connection.execute(SQL["newest"]).get
    connection.executemany(SQL["put"], rows)
    created = int(connection.execute(SQL["created"], (newest,)).get)
    return Put(created=created, merged=len(changes) - created), found

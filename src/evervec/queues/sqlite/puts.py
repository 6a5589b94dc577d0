"""Put: merge changes into one row a document."""

from collections.abc import Sequence
from operator import itemgetter

import apsw

from evervec.model import Change, Key, Lane
from evervec.ports import Put
from evervec.queues.sqlite.rows import REST, SQL, Name, Row, Scopes

AGING_STEP = 60_000
"""What one step of priority is worth in milliseconds of waiting."""


def merged(changes: Sequence[Change]) -> dict[Key, Change]:
    """Return one change a document: the most urgent, forced if one is, as old as the oldest."""
    by_key: dict[Key, Change] = {change.key: change for change in changes}
    if len(by_key) == len(changes):
        return by_key
    by_key.clear()
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
) -> tuple[Put, dict[Name, Row]]:
    """Merge *changes*; also return the new collections' numbers, to remember once committed."""
    found: dict[Name, Row] = {}
    rows = []
    for key, change in merged(changes).items():
        name = key.tenant, key.collection
        place = scopes.known(name) or found.get(name)
        if place is None:
            place = found[name] = scopes.add(connection, name)
        # A source's clock that runs ahead does not make a change younger than its arrival.
        since = now if change.at is None else min(change.at, now)
        ready = now + change.priority * AGING_STEP
        its_lane = place[1] if lane is Lane.LIVE else -place[1]
        urgency = ready, change.priority, int(change.force)
        rows.append((place[0], key.id, its_lane, *urgency, since, now + REST))
    # Neighbours in the indexes one after the other; the order within a collection stays.
    rows.sort(key=itemgetter(0))
    newest = connection.execute(SQL["newest"]).get
    connection.executemany(SQL["put"], rows)
    created = int(connection.execute(SQL["created"], (newest,)).get)
    return Put(created=created, merged=len(changes) - created), found

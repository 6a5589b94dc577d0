"""Sets of chunks that no search sees: the next one of a large document, and those on their way out.

A document's chunks are those that carry its number. A large set is written under a number that no
document has, a few chunks a transaction, so that everybody else writes in between. One last short
transaction gives the document that number: from then on the new set is the searchable one. The old
number is nobody's any more, and what lies under it is deleted in small steps as well.

A set that is left behind by a crash is never continued: the next attempt begins another, and whoever
prunes takes what was overtaken or stood still. Only who added its last chunk shows a set.
"""

from array import array
from collections import defaultdict
from functools import partial
from operator import itemgetter
from typing import Any

import apsw

from evervec.clock import Clock
from evervec.model import Coming, Id, Key, Publication, Verdict
from evervec.sqlite.database import Database
from evervec.sqlite.events import Fact, append
from evervec.sqlite.statements import statements
from evervec.stores.sqlite.publish import switch
from evervec.stores.sqlite.writes import SQL as STORE
from evervec.stores.sqlite.writes import Writes, collection_of, leave, made, remove_chunks

SQL = statements("evervec.stores.sqlite", "hidden.sql")

PART_CHUNKS = 256
"""Chunks a transaction: the writer's thread is free again after some 20 ms."""
MOVES = 8
"""To move a chunk costs an eighth of adding one: its row is written again, the full text is not."""
ABANDONED_MS = 3_600_000
"""A set that has not grown for so long has nobody who will finish it."""

FORGET_DOCUMENTS, FORGET_CHUNKS = 1_000, 1_024
"""How many documents of a forgotten collection, and chunks, one transaction deletes."""


class Staging:
    """Publishes large documents, and deletes what is hidden and not needed."""

    def __init__(self, database: Database, clock: Clock, *, part: int) -> None:
        self._database = database
        self._clock = clock
        self._part = part

    async def effort(self, publication: Publication) -> tuple[int, int]:
        """Return how many chunks would be added or removed, and how many only moved."""

        def work(connection: apsw.Connection) -> tuple[int, int]:
            collection = collection_of(connection, publication.key.scope)
            number = collection.number if collection else 0
            given = {"collection": number, "id": publication.key.id}
            places: dict[bytes, list[tuple[Any, ...]]] = defaultdict(list)
            rows: list[Any] = connection.execute(SQL["outline"], given).fetchall()
            for digest, *place in sorted(rows, key=itemgetter(1), reverse=True):
                places[digest].append(tuple(place))
            added = moved = 0
            for position, piece in enumerate(publication.pieces):
                if old := places.get(piece.digest):
                    chunk = piece.chunk
                    moved += old.pop() != (position, chunk.start, chunk.end, chunk.page)
                else:
                    added += 1
            return added + sum(map(len, places.values())), moved

        return await self._database.read(work)

    async def publish(self, publication: Publication, *, fence: int, space: int) -> Verdict:
        """Write the chunks where nobody sees them, then let them replace the old set in one step."""
        document = await self._database.write(
            partial(_begin, publication, fence=fence, space=space, now=self._clock.now())
        )
        verdict = Verdict.INCOMPLETE
        if await self._added(publication, document, fence=fence, space=space):
            show = partial(
                switch,
                publication=publication,
                hidden=document,
                fence=fence,
                space=space,
                now=self._clock.now(),
            )
            verdict = await self._database.write(show, label="store.publish")
        else:
            await self._database.write(
                lambda connection: connection.execute(SQL["abandon"], {"document": document})
            )
        await self.sweep()
        return verdict

    async def _added(
        self, publication: Publication, document: int, *, fence: int, space: int
    ) -> bool:
        for first in range(0, len(publication.pieces), self._part):
            part = partial(
                _add,
                publication,
                document,
                range(first, min(first + self._part, len(publication.pieces))),
                fence=fence,
                space=space,
                now=self._clock.now(),
            )
            if not await self._database.write(part, label="store.stage"):
                return False
        return True

    async def abandon(self, collection: int | None = None) -> None:
        """Give up what nobody will finish: all of a *collection*, or what was overtaken or stood still."""
        before = self._clock.now() - ABANDONED_MS

        def work(connection: apsw.Connection) -> None:
            if collection is not None:
                connection.execute(SQL["abandon_collection"], {"collection": collection})
                return
            connection.execute(SQL["abandon_old"], {"before": before})
            connection.execute(SQL["forget_progress"], {"before": before})

        await self._database.write(work)

    async def sweep(self) -> None:
        """Delete the chunks of every set on its way out, a few at a time."""
        while True:
            document = await self._database.read(
                lambda connection: connection.execute(SQL["going"]).get
            )
            if document is None:
                return
            some = partial(_remove_some, document=int(document), now=self._clock.now())
            while await self._database.write(some):
                pass

    async def advance(self, key: Key, done: int, total: int) -> None:
        """Note how far a large document has come."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> None:
            collection = collection_of(connection, key.scope)
            if collection is None:
                return
            told = {"collection": collection.number, "id": key.id, "done": done, "total": total}
            connection.execute(SQL["advance"], {**told, "now": now})
            fact = Fact("document.staged", key.scope, key.id, {"done": done, "total": total})
            append(connection, [fact], at=now)

        await self._database.write(work)


def coming(connection: apsw.Connection, collection: int) -> tuple[Coming, ...]:
    """Return the large documents on their way, and how far each has come."""
    rows = connection.execute(SQL["progress"], {"collection": collection})
    return tuple(Coming(Id(str(id_)), int(done), int(total)) for id_, done, total in rows)


def _begin(
    publication: Publication, connection: apsw.Connection, *, fence: int, space: int, now: int
) -> int:
    key = publication.key
    collection = made(connection, key.scope, space).number
    given = {"collection": collection, "id": key.id, "fence": fence}
    connection.execute(SQL["abandon_earlier"], given)
    number = int(connection.execute(SQL["begin"], {**given, "now": now}).get)
    connection.execute(SQL["name"], {"number": number})
    return -number


def _add(
    publication: Publication,
    document: int,
    positions: range,
    connection: apsw.Connection,
    *,
    fence: int,
    space: int,
    now: int,
) -> bool:
    """Add a part; False if a vector is gone, or the set, because somebody took it for abandoned."""
    key = publication.key
    part = [publication.pieces[position] for position in positions]
    collection = collection_of(connection, key.scope)
    if collection is None:
        return False
    digests = apsw.carray(tuple({piece.digest for piece in part}))
    known: Any = connection.execute(
        STORE["vectors"], {"tenant": key.tenant, "space": space, "digests": digests}
    ).fetchall()
    vectors: dict[bytes, int] = dict(known)
    if any(piece.digest not in vectors for piece in part):
        return False
    connection.execute(
        SQL["grow"],
        {
            "document": document,
            "chunks": len(part),
            "now": now,
        },
    )
    if not connection.changes():
        return False
    writes = Writes()
    for position, piece in zip(positions, part, strict=True):
        writes.add(collection, document, position, piece, vectors[piece.digest])
    writes.carry_out(connection, [collection], fence=fence, at=now)
    return True


def _remove_some(connection: apsw.Connection, *, document: int, now: int) -> bool:
    """Delete some chunks of a hidden set; False once it is gone."""
    rows: list[Any] = connection.execute(
        SQL["some_chunks"], {"document": document, "limit": PART_CHUNKS}
    ).fetchall()
    if not rows:
        connection.execute(SQL["show"], {"document": document})
        return False
    remove_chunks(connection, [chunk for chunk, _ in rows])
    leave(connection, {vector for _, vector in rows}, since=now)
    return True


def forget_some(connection: apsw.Connection, *, number: int, now: int) -> bool:
    """Delete some documents of a forgotten collection; False once the collection itself is gone.

    The chunks of a large one are only hidden: `sweep` deletes them.
    """
    found: list[Any] = connection.execute(
        STORE["some_documents"], {"collection": number, "limit": FORGET_DOCUMENTS}
    ).fetchall()
    if not found:
        connection.execute(STORE["remove_collection"], {"number": number})
        return False
    hidden, whole, left = array("q"), array("q"), FORGET_CHUNKS
    for document, id_, chunks in found:
        if chunks > FORGET_CHUNKS:
            given = {"document": document, "collection": number, "id": id_, "chunks": chunks}
            connection.execute(SQL["hide"], {**given, "fence": 0, "now": now})
            hidden.append(document)
        elif chunks <= left:
            left -= chunks
            whole.append(document)
    rows: list[Any] = connection.execute(
        STORE["chunks_to_remove"], {"documents": apsw.carray(whole or array("q", [0]))}
    ).fetchall()
    remove_chunks(connection, [chunk for chunk, _ in rows])
    leave(connection, {vector for _, vector in rows}, since=now)
    connection.execute(STORE["remove_documents"], {"documents": apsw.carray(hidden + whole)})
    return True

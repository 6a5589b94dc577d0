"""The store's write side and its look-ups. Search is beside it, in `search.py`.

Vectors outlive the chunks that used them, until `prune`: a file that moved, or a collection that
was added again, costs no embedding.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from evervec.clock import SYSTEM, Clock
from evervec.errors import ConfigError
from evervec.model import Hit, Id, Key, Publication, Recall, Scope, Stored, Verdict
from evervec.ports import Counts, Published, Query, Vector
from evervec.sqlite.database import Database
from evervec.stores.sqlite import publish as publishing
from evervec.stores.sqlite.hidden import MOVES, PART_CHUNKS, Staging, coming, forget_some
from evervec.stores.sqlite.rows import stored
from evervec.stores.sqlite.search import Searcher
from evervec.stores.sqlite.writes import (
    SQL,
    collection_of,
    made,
    replace_vector,
    use,
)

LAGS = 1_000
"""How many of the newest publications tell the lag."""

SAME = 0.999
"""Vectors of one text whose cosine is above this differ only by how they were batched."""


class SqliteStore:
    """`evervec.ports.Store` in one SQLite file, with derived files for speed in *index_folder*.

    Any number of processes may open the same file. Nothing is read or written before `open`. What
    has more than *large* chunks is published in parts.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock = SYSTEM,
        index_folder: Path | None = None,
        large: int | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._searcher = Searcher(database, index_folder)
        self._large = publishing.LARGE if large is None else large
        self._staging = Staging(database, clock, part=max(1, min(PART_CHUNKS, self._large)))

    async def open(self) -> None:
        """Create the tables, or bring them to this program's version. Idempotent."""
        self._database.migrate("events", "evervec.sqlite.schema")
        self._database.migrate("store", "evervec.stores.sqlite.schema")

    async def look(self, keys: Sequence[Key]) -> Mapping[Key, Stored]:
        """Return what is stored of these documents, tombstones included."""

        def work(connection: apsw.Connection) -> dict[Key, Stored]:
            found = {}
            for scope, ids in _by_scope(keys).items():
                collection = collection_of(connection, scope)
                if collection is None:
                    continue
                for id_, *row in connection.execute(
                    SQL["look"],
                    {"collection": collection.number, "ids": apsw.carray(tuple(ids))},
                ):
                    found[Key(scope.tenant, scope.collection, id_)] = stored(row)
            return found

        return await self._database.read(work)

    async def published(self, keys: Sequence[Key]) -> Mapping[Key, Published]:
        """Return the live documents among *keys*, with their vectors; not those that lost one."""

        def work(connection: apsw.Connection) -> dict[Key, Published]:
            found: dict[Key, Published] = {}
            for scope, ids in _by_scope(keys).items():
                if (collection := collection_of(connection, scope)) is None:
                    continue
                rows = connection.execute(
                    SQL["published"],
                    {"collection": collection.number, "ids": apsw.carray(tuple(ids))},
                )
                values: dict[tuple[Id, bytes, int], dict[int, Vector]] = defaultdict(dict)
                for id_, digest, chunks, position, value in rows:
                    mine = values[id_, digest, chunks]
                    if value is not None:
                        mine[position] = np.frombuffer(value, "<f4")
                for (id_, digest, chunks), mine in values.items():
                    if len(mine) == chunks:
                        vectors = tuple(mine[position] for position in sorted(mine))
                        found[Key(scope.tenant, scope.collection, id_)] = Published(digest, vectors)
            return found

        return await self._database.read(work)

    async def known(self, tenant: str, space: int, digests: Sequence[bytes]) -> frozenset[bytes]:
        """Return which of these texts already have a vector in (tenant, space).

        One that no document uses may be pruned before it is published; the publication is then
        INCOMPLETE and the job is done again.
        """
        if not digests:
            return frozenset()

        def work(connection: apsw.Connection) -> frozenset[bytes]:
            return frozenset(
                row[0]
                for row in connection.execute(
                    SQL["known"],
                    {"tenant": tenant, "space": space, "digests": apsw.carray(tuple(digests))},
                )
            )

        return await self._database.read(work)

    async def keep(self, tenant: str, space: int, vectors: Mapping[bytes, Vector]) -> None:
        """Keep vectors by digest. One that is there stays, unless the new one really differs.

        It differs when somebody embeds by force what was embedded wrongly before.
        """
        rows = {digest: _blob(vector) for digest, vector in vectors.items()}
        now = self._clock.now()

        def work(connection: apsw.Connection) -> None:
            _check_width(connection, tenant, space, rows)
            new = array("q")
            for digest, value in rows.items():
                key = {"tenant": tenant, "space": space, "digest": digest}
                number = connection.execute(SQL["keep"], {**key, "value": value}).get
                if number is not None:
                    new.append(number)
                    continue
                number, old = connection.execute(SQL["kept"], key).get
                if not _same(old, value):
                    replace_vector(connection, number, value)
            if new:
                these = apsw.carray(new)
                connection.execute(SQL["add_unused"], {"vectors": these, "since": now})

        if rows:
            await self._database.write(work, label="store.keep")

    async def publish(
        self, publications: Sequence[Publication], *, fence: int, space: int
    ) -> Sequence[Verdict]:
        """Replace each document's searchable chunks in one step, all in one transaction.

        Raises ConfigError, and publishes nothing, if a collection holds another space's vectors.
        A repeated call under the same fence is answered as the first one was. A large document
        whose chunks change much is published after the others, as `hidden.py` says.
        """
        if not publications:
            return []
        verdicts = await self._published(publications, fence, space, large=self._large)
        return [
            verdict or await self._publish_large(publication, fence, space)
            for publication, verdict in zip(publications, verdicts, strict=True)
        ]

    async def _published(
        self, publications: Sequence[Publication], fence: int, space: int, *, large: float
    ) -> Sequence[Verdict | None]:
        now = self._clock.now()
        return await self._database.write(
            lambda connection: publishing.publish(
                connection, publications, fence=fence, space=space, now=now, large=large
            ),
            label="store.publish",
        )

    async def _publish_large(self, publication: Publication, fence: int, space: int) -> Verdict:
        changed, moved = await self._staging.effort(publication)
        if not publication.force and changed + moved // MOVES <= self._large:
            (verdict,) = await self._published([publication], fence, space, large=math.inf)
            return verdict or Verdict.INCOMPLETE
        return await self._staging.publish(publication, fence=fence, space=space)

    async def advance(self, key: Key, done: int, total: int) -> None:
        """Tell that *done* of a large document's *total* chunks have a vector."""
        await self._staging.advance(key, done, total)

    async def bar(self, keys: Mapping[Key, int]) -> None:
        """Refuse publications of each key with a fence up to the one given."""
        if not keys:
            return

        def work(connection: apsw.Connection) -> None:
            for scope in dict.fromkeys(key.scope for key in keys):
                number = made(connection, scope, 0).number
                connection.executemany(
                    SQL["bar"],
                    [
                        {"collection": number, "id": key.id, "bar": fence}
                        for key, fence in keys.items()
                        if key.scope == scope
                    ],
                )

        await self._database.write(work)

    async def search(self, query: Query) -> Sequence[Hit]:
        """Answer from what is published at this moment, in this process or any other."""
        return await self._searcher.search(query)

    async def recall(self, scope: Scope, samples: int) -> Recall | None:
        """Compare searches with exact ones for *samples* stored vectors; None if nothing is stored."""
        return await self._searcher.recall(scope, samples)

    async def documents(
        self, scope: Scope, after: Id | None, limit: int
    ) -> Sequence[tuple[Id, Stored]]:
        """List a collection's live documents in id order, a page at a time."""

        def work(connection: apsw.Connection) -> list[tuple[Id, Stored]]:
            collection = collection_of(connection, scope)
            if collection is None:
                return []
            return [
                (Id(id_), stored(row))
                for id_, *row in connection.execute(
                    SQL["documents"],
                    {"collection": collection.number, "after": after or "", "limit": limit},
                )
            ]

        return await self._database.read(work)

    async def damaged(self, scope: Scope, among: Sequence[Id] | None = None) -> Sequence[Id]:
        """Return the live documents, of all or *among* some, whose chunks or vectors are lost."""

        def work(connection: apsw.Connection) -> list[Id]:
            collection = collection_of(connection, scope)
            if collection is None:
                return []
            bound = {"collection": collection.number}
            if among is None:
                rows = connection.execute(SQL["damaged"], bound)
            else:
                each = [{**bound, "id": id_} for id_ in among]
                rows = connection.executemany(SQL["damaged_document"], each)
            return [Id(str(id_)) for (id_,) in rows]

        return await self._database.read(work)

    async def scopes(self) -> Sequence[Scope]:
        """Return every collection of which something is stored."""
        return await self._database.read(
            lambda connection: [
                Scope(str(tenant), str(name)) for tenant, name in connection.execute(SQL["scopes"])
            ]
        )

    async def highest_fence(self) -> int:
        """Return the highest fence under which anything was ever published here."""

        def work(connection: apsw.Connection) -> int:
            fence: int | None = connection.execute(SQL["highest_fence"]).get
            return fence or 0

        return await self._database.read(work)

    async def counts(self, scope: Scope) -> Counts:
        """Return what the store holds of a collection; its cost does not grow with it."""

        def work(connection: apsw.Connection) -> Counts:
            collection = collection_of(connection, scope)
            if collection is None:
                return Counts(0, 0)
            lags = tuple(
                row[0]
                for row in connection.execute(
                    SQL["lags"], {"collection": collection.number, "limit": LAGS}
                )
            )
            return Counts(
                collection.documents,
                collection.chunks,
                lags,
                coming(connection, collection.number),
            )

        return await self._database.read(work)

    async def forget(self, scope: Scope) -> None:
        """Remove a collection and everything stored of it: from answers at once, then from disk.

        Its vectors stay as unused ones until they are pruned.
        """
        await self._database.write(
            lambda connection: connection.execute(
                SQL["forget"], {"tenant": scope.tenant, "name": scope.collection}
            )
        )
        await self._sweep()

    async def prune(self, *, unused_before: int, limit: int) -> int:
        """Delete up to *limit* vectors that no chunk has used since then.

        Also finishes forgetting what a crash left half forgotten, and deletes the parts of large
        documents that nobody will finish.
        """
        await self._sweep()
        await self._staging.abandon()
        await self._staging.sweep()

        def work(connection: apsw.Connection) -> int:
            old: list[Any] = connection.execute(
                SQL["prune"], {"unused_before": unused_before, "limit": limit}
            ).fetchall()
            gone = 0
            for (vector,) in old:
                connection.execute(SQL["remove_vector"], {"vector": vector})
                gone += connection.changes()
            use(connection, {vector for (vector,) in old})
            return gone

        return await self._database.write(work)

    async def close(self) -> None:
        """Let go of the derived files. The database is closed by whoever opened it."""
        await self._searcher.close()

    async def _sweep(self) -> None:
        now = self._clock.now()
        while True:
            number = await self._database.read(
                lambda connection: connection.execute(SQL["forgotten"]).get
            )
            if number is None:
                return
            await self._staging.abandon(int(number))
            await self._staging.sweep()
            forget = partial(forget_some, number=int(number), now=now)
            while await self._database.write(forget):
                pass
            await self._staging.sweep()
            self._searcher.forget(number)


def _blob(vector: Vector) -> bytes:
    flat = np.ascontiguousarray(vector, dtype="<f4").reshape(-1)
    if not np.isfinite(flat).all():
        raise ConfigError("a vector with NaN or infinite values cannot be stored")
    return flat.tobytes()


def _check_width(
    connection: apsw.Connection, tenant: str, space: int, rows: Mapping[bytes, bytes]
) -> None:
    """Refuse vectors of another dimension than the space already holds."""
    widths = {len(value) for value in rows.values()}
    there = connection.execute(SQL["width"], {"tenant": tenant, "space": space}).get
    if there is not None:
        widths.add(int(there))
    if len(widths) > 1:
        told = " and ".join(str(width // 4) for width in sorted(widths))
        raise ConfigError(
            f"vectors of {told} dimensions cannot share embedding space {space}",
            hint="give a model whose output changed a new revision",
        )


def _same(old: bytes, new: bytes) -> bool:
    if len(old) != len(new):
        return False
    a, b = np.frombuffer(old, "<f4"), np.frombuffer(new, "<f4")
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return old == new or (size > 0 and float(a @ b) / size > SAME)


def _by_scope(keys: Sequence[Key]) -> dict[Scope, list[Id]]:
    scopes: dict[Scope, list[Id]] = defaultdict(list)
    for key in keys:
        scopes[key.scope].append(key.id)
    return scopes

"""One transaction of publications: judge each, then write all of them in sets.

Everything happens under SQLite's write lock, so what is read here cannot change before it is
written. A run never names a document twice; `publish` cuts the batch into such runs.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import apsw

from evervec.errors import ConfigError
from evervec.model import Id, Key, Publication, Scope, Verdict, same_text
from evervec.sqlite.events import Fact
from evervec.sqlite.statements import statements
from evervec.stores.sqlite.rows import (
    ChunkRow,
    StateRow,
    compare,
    judge,
    pack,
)
from evervec.stores.sqlite.writes import SQL, Writes, made

HIDDEN = statements("evervec.stores.sqlite", "hidden.sql")

LARGE = 2_048
"""A set with more chunks than this is written, or deleted, in parts: all at once took a second for
ten thousand and kept every other write waiting."""


def publish(
    connection: apsw.Connection,
    publications: Sequence[Publication],
    *,
    fence: int,
    space: int,
    now: int,
    large: float = LARGE,
) -> list[Verdict | None]:
    """Publish in the caller's transaction; one verdict a publication, in order.

    None: the document has or had more than *large* chunks, and nothing was done for it.
    """
    return [
        verdict
        for run in _runs(publications)
        for verdict in _Run(
            connection, run, fence=fence, space=space, now=now, large=large
        ).publish()
    ]


def switch(
    connection: apsw.Connection,
    publication: Publication,
    hidden: int,
    *,
    fence: int,
    space: int,
    now: int,
) -> Verdict:
    """Make a *hidden* set that is complete the searchable one, in the caller's transaction."""
    run = _Run(connection, [publication], fence=fence, space=space, now=now, hidden=hidden)
    (verdict,) = run.publish()
    # If it was refused, or was not needed, nobody wants it any more.
    connection.execute(HIDDEN["abandon"], {"document": hidden})
    return verdict or Verdict.INCOMPLETE


def _runs(publications: Sequence[Publication]) -> Iterator[list[Publication]]:
    run: dict[Key, Publication] = {}
    for publication in publications:
        if publication.key in run:
            yield list(run.values())
            run = {}
        run[publication.key] = publication
    if run:
        yield list(run.values())


class _Run:
    """Publications of different documents."""

    def __init__(
        self,
        connection: apsw.Connection,
        publications: list[Publication],
        *,
        fence: int,
        space: int,
        now: int,
        large: float = math.inf,
        hidden: int | None = None,
    ) -> None:
        self._connection = connection
        self._publications = publications
        self._fence = fence
        self._space = space
        self._now = now
        self._large = large
        self._hidden = hidden
        self._collections = {
            scope: made(connection, scope, space)
            for scope in dict.fromkeys(publication.key.scope for publication in publications)
        }
        self._states = self._look()
        self._next_document = int(connection.execute(SQL["last_document"]).get)
        self._writes = Writes()

    def publish(self) -> list[Verdict | None]:
        verdicts = [self._judge(publication) for publication in self._publications]
        wanted = [
            publication
            for publication, verdict in zip(self._publications, verdicts, strict=True)
            if verdict is Verdict.PUBLISHED and not self._repeated(publication)
        ]
        self._check_space(wanted)
        large = {publication.key for publication in wanted if self._is_large(publication)}
        wanted = [publication for publication in wanted if publication.key not in large]
        written = [] if self._hidden is not None else wanted
        vectors = self._vectors(written)
        chunks = self._chunks(written)
        incomplete = set()
        for publication in wanted:
            state = self._states.get(publication.key)
            if self._hidden is not None and not self._unchanged(publication, state):
                if not self._switch(publication, self._hidden):
                    incomplete.add(publication.key)
            elif publication.deleted:
                self._delete(publication, chunks)
            elif self._unchanged(publication, state):
                self._touch(publication)
            elif publication.touch:
                # The text it was compared with has been replaced meanwhile.
                incomplete.add(publication.key)
            elif self._complete(publication, vectors):
                self._replace(publication, chunks, vectors)
            else:
                incomplete.add(publication.key)
        self._writes.carry_out(
            self._connection, self._collections.values(), fence=self._fence, at=self._now
        )
        refused: dict[Key, Verdict | None] = dict.fromkeys(incomplete, Verdict.INCOMPLETE)
        refused |= dict.fromkeys(large)
        return [
            refused.get(publication.key, verdict) if verdict is Verdict.PUBLISHED else verdict
            for publication, verdict in zip(self._publications, verdicts, strict=True)
        ]

    def _look(self) -> dict[Key, StateRow]:
        ids: dict[Scope, list[Id]] = defaultdict(list)
        for publication in self._publications:
            ids[publication.key.scope].append(publication.key.id)
        return {
            Key(scope.tenant, scope.collection, row[0]): StateRow(*row[1:])
            for scope, mine in ids.items()
            for row in self._rows(
                SQL["states"],
                {"collection": self._collections[scope].number, "ids": apsw.carray(tuple(mine))},
            )
        }

    def _rows(self, statement: str, bindings: dict[str, Any]) -> Iterator[Any]:
        yield from self._connection.execute(statement, bindings)

    def _judge(self, publication: Publication) -> Verdict:
        if self._repeated(publication):
            return Verdict.PUBLISHED
        return judge(publication, self._states.get(publication.key), self._fence)

    def _repeated(self, publication: Publication) -> bool:
        # The commit went through but its answer was lost: the same call again is done already.
        state = self._states.get(publication.key)
        return state is not None and (
            publication.version,
            self._fence,
            publication.deleted,
            b"" if publication.deleted else publication.digest,
        ) == (state.version, state.fence, state.deleted, state.digest)

    def _check_space(self, wanted: list[Publication]) -> None:
        for publication in wanted:
            if publication.deleted:
                continue
            collection = self._collections[publication.key.scope]
            if collection.space == self._space:
                continue
            if collection.documents:
                raise ConfigError(
                    f"collection {publication.key.collection!r} holds vectors of space "
                    f"{collection.space}; vectors of space {self._space} cannot be searched "
                    "together with them",
                    hint="publish them into another collection, or empty this one first",
                )
            collection.space = self._space

    def _unchanged(self, publication: Publication, state: StateRow | None) -> bool:
        if publication.force or state is None or not state.live or state.space != self._space:
            return False
        if publication.touch:
            return same_text(state.digest, publication.digest)
        return state.digest == publication.digest

    def _is_large(self, publication: Publication) -> bool:
        state = self._states.get(publication.key)
        if publication.touch or self._unchanged(publication, state):
            return False
        return max(len(publication.pieces), state.chunks if state else 0) > self._large

    def _vectors(self, wanted: list[Publication]) -> dict[tuple[str, bytes], int]:
        digests: dict[str, set[bytes]] = defaultdict(set)
        for publication in wanted:
            if not publication.deleted:
                digests[publication.key.tenant].update(piece.digest for piece in publication.pieces)
        return {
            (tenant, digest): number
            for tenant, mine in digests.items()
            if mine
            for digest, number in self._connection.execute(
                SQL["vectors"],
                {"tenant": tenant, "space": self._space, "digests": apsw.carray(tuple(mine))},
            )
        }

    def _complete(self, publication: Publication, vectors: dict[tuple[str, bytes], int]) -> bool:
        tenant = publication.key.tenant
        return all((tenant, piece.digest) in vectors for piece in publication.pieces)

    def _chunks(self, wanted: list[Publication]) -> dict[int, list[ChunkRow]]:
        documents = [
            state.document
            for publication in wanted
            if (state := self._states.get(publication.key)) is not None
            and state.chunks
            and (publication.deleted or not self._unchanged(publication, state))
        ]
        rows: dict[int, list[ChunkRow]] = defaultdict(list)
        if documents:
            for row in self._connection.execute(
                SQL["chunks"], {"documents": apsw.carray(array("q", documents))}
            ):
                rows[row[0]].append(ChunkRow(*row[1:]))
        return rows

    def _delete(self, publication: Publication, chunks: dict[int, list[ChunkRow]]) -> None:
        gone = self._old(publication, chunks)
        self._remove(gone)
        self._save(publication, digest=b"", metadata="{}", deleted=True)
        self._fact(publication, "document.deleted", {"chunks": len(gone)})

    def _touch(self, publication: Publication) -> None:
        state = self._states[publication.key]
        self._writes.touch_document.append(
            {
                "document": state.document,
                "version": publication.version,
                "fence": self._fence,
                "digest": publication.digest,
                "since": publication.since,
                "published_at": self._now,
                "metadata": pack(publication.metadata),
            }
        )
        self._fact(publication, "document.indexed", self._effort(publication, state.chunks))

    def _replace(
        self,
        publication: Publication,
        chunks: dict[int, list[ChunkRow]],
        vectors: dict[tuple[str, bytes], int],
    ) -> None:
        key = publication.key
        old = self._old(publication, chunks)
        if publication.force:
            # Something may be lost underneath: no row is trusted, all are written again.
            self._remove(old)
            old = []
        difference = compare(old, publication.pieces)
        self._remove(difference.remove)
        document = self._save(
            publication,
            digest=publication.digest,
            metadata=pack(publication.metadata),
            deleted=False,
        )
        for row, position, chunk in difference.move:
            self._writes.move_chunk.append(
                {
                    "chunk": row,
                    "position": position,
                    "first": chunk.start,
                    "last": chunk.end,
                    "page": chunk.page,
                }
            )
        for position, piece in difference.add:
            self._writes.add(
                self._collections[key.scope],
                document,
                position,
                piece,
                vectors[key.tenant, piece.digest],
            )
        self._fact(
            publication, "document.indexed", self._effort(publication, len(publication.pieces))
        )

    def _switch(self, publication: Publication, hidden: int) -> bool:
        """Let the document have the number of a hidden set, if that is complete."""
        chunks = len(publication.pieces)
        complete = {"document": hidden, "chunks": chunks}
        if not self._connection.execute(HIDDEN["complete"], complete).get:
            return False
        state = self._states.get(publication.key)
        gone = publication.deleted
        document = self._save(
            publication,
            digest=b"" if gone else publication.digest,
            metadata="{}" if gone else pack(publication.metadata),
            deleted=gone,
        )
        self._connection.execute(HIDDEN["show"], {"document": hidden})
        if state is not None and state.chunks:
            key = publication.key
            self._connection.execute(
                HIDDEN["hide"],
                {
                    "document": document,
                    "collection": self._collections[key.scope].number,
                    "id": key.id,
                    "fence": self._fence,
                    "chunks": state.chunks,
                    "now": self._now,
                },
            )
        self._writes.renumber_document.append({"document": document, "new": hidden})
        if gone:
            self._fact(publication, "document.deleted", {"chunks": state.chunks if state else 0})
        else:
            self._fact(publication, "document.indexed", self._effort(publication, chunks))
        return True

    def _old(self, publication: Publication, chunks: dict[int, list[ChunkRow]]) -> list[ChunkRow]:
        state = self._states.get(publication.key)
        return chunks.get(state.document, []) if state else []

    def _remove(self, rows: Sequence[ChunkRow]) -> None:
        self._writes.remove_chunk.extend(row.chunk for row in rows)
        self._writes.left.update(row.vector for row in rows)

    def _save(
        self, publication: Publication, *, digest: bytes, metadata: str, deleted: bool
    ) -> int:
        key = publication.key
        state = self._states.get(key)
        collection = self._collections[key.scope]
        pieces = 0 if deleted else len(publication.pieces)
        row = {
            "collection": collection.number,
            "id": key.id,
            "version": publication.version,
            "fence": self._fence,
            "digest": digest,
            "space": self._space,
            "deleted": int(deleted),
            "chunks": pieces,
            "since": publication.since,
            "published_at": self._now,
            "metadata": metadata,
        }
        collection.chunks += pieces - (state.chunks if state else 0)
        collection.documents += (not deleted) - (state is not None and state.live)
        if state is None:
            self._next_document += 1
            document = self._next_document
            self._writes.add_document.append({**row, "document": document})
        else:
            document = state.document
            self._writes.replace_document.append({**row, "document": document})
        return document

    def _effort(self, publication: Publication, chunks: int) -> dict[str, Any]:
        return {
            "chunks": chunks,
            "embedded": publication.embedded,
            "reused": publication.reused,
        }

    def _fact(self, publication: Publication, type_: str, data: dict[str, Any]) -> None:
        if publication.since is not None:
            data["lag_ms"] = max(0, self._now - publication.since)
        self._writes.facts.append(Fact(type_, publication.key.scope, publication.key.id, data))

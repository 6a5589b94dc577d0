"""What a transaction of publications writes: collected first, then carried out in sets."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from evervec.model import Piece, Scope
from evervec.sqlite.events import Fact, append
from evervec.sqlite.statements import statements
from evervec.stores.sqlite.rows import COLLECTION_BITS, storable
from evervec.stores.sqlite.words import spaced

SQL = statements("evervec.stores.sqlite", "store.sql")


@dataclass(slots=True)
class Collection:
    """A collection's row, with the counters that this transaction will write back."""

    number: int
    space: int
    next_chunk: int
    documents: int
    chunks: int

    def next(self) -> int:
        self.next_chunk += 1
        return (self.number << COLLECTION_BITS) | (self.next_chunk - 1)


def collection_of(connection: apsw.Connection, scope: Scope) -> Collection | None:
    """Return the row of *scope*, or None if nothing was ever stored in it."""
    row = connection.execute(
        SQL["collection"], {"tenant": scope.tenant, "name": scope.collection}
    ).fetchone()
    return Collection(*row) if row else None


def made(connection: apsw.Connection, scope: Scope, space: int) -> Collection:
    """Return the row of *scope*, made if it is the first time."""
    collection = collection_of(connection, scope)
    if collection is not None:
        return collection
    connection.execute(
        SQL["add_collection"], {"tenant": scope.tenant, "name": scope.collection, "space": space}
    )
    return Collection(connection.last_insert_rowid(), space, 1, 0, 0)


@dataclass(slots=True)
class Writes:
    """Rows on their way into the database, one list a statement, in the order of the fields."""

    remove_chunk: list[int] = field(default_factory=list)
    add_document: list[dict[str, Any]] = field(default_factory=list)
    replace_document: list[dict[str, Any]] = field(default_factory=list)
    touch_document: list[dict[str, Any]] = field(default_factory=list)
    renumber_document: list[dict[str, int]] = field(default_factory=list)
    add_chunk: list[tuple[Any, ...]] = field(default_factory=list)
    move_chunk: list[dict[str, Any]] = field(default_factory=list)
    use: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    facts: list[Fact] = field(default_factory=list)

    def add(
        self, collection: Collection, document: int, position: int, piece: Piece, vector: int
    ) -> None:
        """Add a chunk under the collection's next number."""
        chunk = piece.chunk
        heading, text = storable(chunk.heading), storable(chunk.text)
        self.use.add(vector)
        self.add_chunk.append(
            (
                collection.next(),
                document,
                position,
                vector,
                chunk.start,
                chunk.end,
                chunk.page,
                piece.digest,
                heading,
                text,
                spaced(f"{heading}\n{text}"),
            )
        )

    def carry_out(
        self,
        connection: apsw.Connection,
        collections: Iterable[Collection],
        *,
        fence: int,
        at: int,
    ) -> None:
        """Write everything, in the caller's transaction."""
        run = connection.executemany
        remove_chunks(connection, self.remove_chunk)
        run(SQL["add_document"], self.add_document)
        run(SQL["replace_document"], self.replace_document)
        run(SQL["touch_document"], self.touch_document)
        run(SQL["renumber_document"], self.renumber_document)
        run(SQL["add_chunk"], self.add_chunk)
        add_words(connection, [row[0] for row in self.add_chunk])
        run(SQL["move_chunk"], self.move_chunk)
        use(connection, self.use)
        # After the new chunks are in: a vector that only changed hands is in use.
        leave(connection, self.left, since=at)
        run(
            SQL["save_collection"],
            [
                {
                    "number": collection.number,
                    "space": collection.space,
                    "next_chunk": collection.next_chunk,
                    "documents": collection.documents,
                    "chunks": collection.chunks,
                    "fence": fence,
                }
                for collection in collections
            ],
        )
        append(connection, self.facts, at=at)


def add_words(connection: apsw.Connection, chunks: Sequence[int]) -> None:
    """Let the full text find these chunks, which are in their table by now."""
    if chunks:
        connection.execute(SQL["add_words"], {"chunks": apsw.carray(array("q", chunks))})


def remove_words(connection: apsw.Connection, chunks: Sequence[int]) -> None:
    """Take these chunks out of the full text while they are still in their table."""
    if chunks:
        connection.execute(SQL["remove_words"], {"chunks": apsw.carray(array("q", chunks))})


def remove_chunks(connection: apsw.Connection, chunks: Sequence[int]) -> None:
    """Delete chunks, from the full text as well."""
    if chunks:
        remove_words(connection, chunks)
        connection.execute(
            SQL["remove_chunks"], {"chunks": apsw.carray(array("q", sorted(chunks)))}
        )


def use(connection: apsw.Connection, vectors: set[int]) -> None:
    """Take these vectors off the list of those that no chunk uses."""
    if vectors:
        connection.execute(SQL["use"], {"vectors": apsw.carray(array("q", sorted(vectors)))})


def leave(connection: apsw.Connection, vectors: set[int], *, since: int) -> None:
    """Put those of these vectors on that list which no chunk uses any more."""
    if vectors:
        these = apsw.carray(array("q", sorted(vectors)))
        connection.execute(SQL["leave"], {"vectors": these, "since": since})


def replace_vector(connection: apsw.Connection, number: int, value: bytes) -> None:
    """Replace a vector under its chunks, which get new numbers: indexes then take them as new."""
    connection.execute(SQL["replace_vector"], {"number": number, "value": value})
    chunks: list[Any] = [
        row[0] for row in connection.execute(SQL["chunks_of_vector"], {"vector": number}).fetchall()
    ]
    for chunk in chunks:
        collection = chunk >> COLLECTION_BITS
        n = connection.execute(SQL["take_chunk_number"], {"number": collection}).get
        if n is not None:
            new = (collection << COLLECTION_BITS) | n
            remove_words(connection, [chunk])
            connection.execute(SQL["renumber"], {"chunk": chunk, "new": new})
            add_words(connection, [new])

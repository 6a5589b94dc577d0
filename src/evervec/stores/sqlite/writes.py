"""What a transaction of publications writes: collected first, then carried out in sets."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from evervec.sqlite.events import Fact, append
from evervec.sqlite.statements import statements
from evervec.stores.sqlite.rows import COLLECTION_BITS

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


@dataclass(slots=True)
class Writes:
    """Rows on their way into the database, one list a statement, in the order of the fields."""

    remove_chunk: list[int] = field(default_factory=list)
    add_document: list[dict[str, Any]] = field(default_factory=list)
    replace_document: list[dict[str, Any]] = field(default_factory=list)
    touch_document: list[dict[str, Any]] = field(default_factory=list)
    add_chunk: list[tuple[Any, ...]] = field(default_factory=list)
    move_chunk: list[dict[str, Any]] = field(default_factory=list)
    use: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    facts: list[Fact] = field(default_factory=list)

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

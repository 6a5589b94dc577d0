"""Search: exact by vector, by words (BM25), or both joined by rank.

A hit is a document, shown by its best chunk; `k` counts documents. Scores are within 0..1 except
that a cosine may be negative: dense gives the cosine, lexical BM25 as s / (1 + s), hybrid the
reciprocal rank fusion of both, scaled so that the first place in both is 1. Equal scores go by
collection, id and position, so an answer never depends on chance.

Each answer comes from one snapshot of the database. The matrix says which chunks are near; the
database says which of them exist.
"""

import math
import shutil
import tempfile
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from evervec.errors import ConfigError, StateError
from evervec.fusion import WORDS_AND_VECTORS, fuse
from evervec.model import Explained, Hit, Recall, Scope, Standing, decode_id
from evervec.ports import K_MAX, Query
from evervec.sqlite.database import Database
from evervec.stores.sqlite.chunks import Chunks, Hidden
from evervec.stores.sqlite.conditions import Memory
from evervec.stores.sqlite.header import short
from evervec.stores.sqlite.index import (
    SQL,
    CollectionRow,
    Contradiction,
    MatrixIndex,
    StaleSnapshot,
    View,
)
from evervec.stores.sqlite.lexical import best_matches
from evervec.stores.sqlite.marks import Marker, merged
from evervec.stores.sqlite.ranking import Place, Ranking, Target, best_of_each, ordered
from evervec.stores.sqlite.recall import recall_of
from evervec.stores.sqlite.rows import COLLECTION_BITS, unpack
from evervec.stores.sqlite.scan import Scan
from evervec.stores.sqlite.words import words_of

T = TypeVar("T")

FUSED_MIN = 100
"""How deep each ranking is read before fusion, at least."""
SPARE = 2
"""How many more chunks than seem to be needed are ranked."""
RETRIES = 5


class Searcher:
    """Answers queries for a store; holds its derived files."""

    def __init__(self, database: Database, folder: Path | None) -> None:
        self._database = database
        self._wanted = folder
        self._folder: Path | None = None
        self._temporary = False
        self._mutex = threading.Lock()
        self._identity = b""
        self._indexes: dict[tuple[int, int], MatrixIndex] = {}
        self._memory = Memory()

    async def search(self, query: Query) -> Sequence[Hit]:
        """Answer *query*, or raise ConfigError if it makes no sense."""
        vector = _checked(query)
        words = words_of(query.text)

        def work(connection: apsw.Connection) -> list[Hit]:
            search = _Search(connection, query, self._index(connection), self._memory)
            return search.answer(vector, words)

        return await self._consistent(work)

    async def recall(self, scope: Scope, samples: int) -> Recall | None:
        """Compare searches with exact ones for *samples* stored vectors; None if nothing is stored."""

        def work(connection: apsw.Connection) -> Recall | None:
            row = connection.execute(
                SQL["collection"], {"tenant": scope.tenant, "name": scope.collection}
            ).fetchone()
            if row is None or not row[3]:
                return None
            found = CollectionRow(*row)
            _, view = self._index(connection)(found, self._memory.unseen.of(connection, found))
            return recall_of(view, scope.collection, samples)

        return await self._consistent(work)

    async def _consistent(self, work: Callable[[apsw.Connection], T]) -> T:
        """Read until files and database tell the same; they are built again if need be."""
        for _ in range(RETRIES):
            try:
                return await self._database.read(work)
            except StaleSnapshot:
                continue
            except Contradiction:
                self._rebuild_all()
        raise StateError(
            "the search index contradicts the database again and again",
            hint="run `evervec doctor`; deleting the index folder is safe",
        )

    def forget(self, number: int) -> None:
        """Delete what is derived from a collection that is gone."""
        with self._mutex:
            for key in [key for key in self._indexes if key[0] == number]:
                self._indexes.pop(key).close()
            folder = self._folder or self._default()
        if folder is not None and folder.is_dir():
            for file in folder.glob(f"{number}-*"):
                file.unlink(missing_ok=True)

    async def close(self) -> None:
        """Let go of every file."""
        with self._mutex:
            for index in self._indexes.values():
                index.close()
            self._indexes.clear()
            if self._temporary and self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _index(
        self, connection: apsw.Connection
    ) -> Callable[[CollectionRow, Hidden], tuple[MatrixIndex, View]]:
        def view(row: CollectionRow, hidden: Hidden) -> tuple[MatrixIndex, View]:
            with self._mutex:
                index = self._indexes.get((row.number, row.space))
                if index is None:
                    identity = bytes(connection.execute(SQL["identity"]).get)
                    index = MatrixIndex(self._open_folder(), identity, row)
                    self._indexes[row.number, row.space] = index
            try:
                return index, index.view(connection, row, hidden)
            except OSError as error:
                raise StateError(
                    f"search index {str(self._folder)!r}: {error}",
                    hint="check the disk and the rights of the folder; it can be deleted safely",
                ) from error

        return view

    def _default(self) -> Path | None:
        if self._wanted is not None:
            return self._wanted
        return None if self._database.in_memory else Path(f"{self._database.path}-index")

    def _open_folder(self) -> Path:
        if self._folder is None:
            folder = self._default()
            try:
                if folder is not None:
                    folder.mkdir(parents=True, exist_ok=True)
            except OSError:
                folder = None  # a folder that only can be read: search still works
            self._temporary = folder is None
            self._folder = folder or Path(tempfile.mkdtemp(prefix="evervec-index-"))
        return self._folder

    def _rebuild_all(self) -> None:
        with self._mutex:
            for index in self._indexes.values():
                index.rebuild()


class _Search:
    """One query in one snapshot."""

    def __init__(
        self,
        connection: apsw.Connection,
        query: Query,
        view: Callable[[CollectionRow, Hidden], tuple[MatrixIndex, View]],
        memory: Memory,
    ) -> None:
        self._connection = connection
        self._query = query
        self._view = view
        self._memory = memory
        self._targets = self._look()
        # One scan answers however deep the ranking is read.
        self._scans: dict[int, Scan] = {}
        self._rankings: dict[str, Ranking] = {}

    def answer(self, vector: NDArray[np.float64] | None, words: list[str]) -> list[Hit]:
        query = self._query
        if query.mode == "dense" and vector is not None:
            ranking = self._deepened(lambda n: self._dense(vector, n), self._likely())
        elif query.mode == "lexical":
            ranking = self._deepened(lambda n: self._lexical(words, n), 2 * query.k + 10)
        else:
            ranking = self._hybrid(vector, words)
        return self._hits(ranking[: query.k], Marker(self._connection, words))

    def _hybrid(self, vector: NDArray[np.float64] | None, words: list[str]) -> Ranking:
        depth = max(FUSED_MIN, 2 * self._query.k)
        rankings = [[place for place, _ in self._lexical(words, depth)]]
        if vector is not None:
            rankings.append([place for place, _ in self._dense(vector, depth)])
        return best_of_each(fuse(rankings, weights=WORDS_AND_VECTORS[: len(rankings)]))

    def _look(self) -> list[Target]:
        targets = []
        for scope in dict.fromkeys(self._query.scopes):
            row = self._connection.execute(
                SQL["collection"], {"tenant": scope.tenant, "name": scope.collection}
            ).fetchone()
            if row is not None and row[3]:
                found = CollectionRow(*row)
                allowed = self._memory.filters.allowed(self._connection, found, self._query.where)
                hidden = self._memory.unseen.of(self._connection, found)
                targets.append(Target(scope, found, allowed, hidden))
        if self._query.mode != "lexical" and len({target.row.space for target in targets}) > 1:
            names = ", ".join(repr(target.scope.collection) for target in targets)
            raise ConfigError(
                f"collections {names} are embedded by different models",
                hint="search them one by one, or by words alone (lexical)",
            )
        return targets

    def _likely(self) -> int:
        """Return how many chunks are likely to be of enough documents.

        Each is looked up in the database; to ask for more, if it was not enough, costs little.
        """
        chunks = sum(target.row.chunks for target in self._targets)
        documents = max(1, sum(target.row.documents for target in self._targets))
        return math.ceil(self._query.k * min(chunks / documents, 2.0)) + SPARE

    def _deepened(self, rank: Callable[[int], Ranking], depth: int) -> Ranking:
        """Rank deeper until there are enough documents: one may own all the first chunks."""
        while True:
            ranking = rank(depth)
            best = best_of_each(ranking)
            if len(best) >= self._query.k or len(ranking) < depth:
                return best
            depth *= 4

    def _dense(self, vector: NDArray[np.float64], depth: int) -> Ranking:
        ranking: Ranking = []
        for target in self._targets:
            ranking.extend(self._nearest(target, vector, depth))
        self._rankings["dense"] = ordered(ranking)[:depth]
        return self._rankings["dense"]

    def _nearest(self, target: Target, vector: NDArray[np.float64], depth: int) -> Ranking:
        index, view = self._view(target.row, target.hidden)
        if len(view.chunks) == 0:
            return []
        if view.matrix.shape[1] != len(vector):
            raise ConfigError(
                f"the query's vector has {len(vector)} dimensions, those of collection "
                f"{target.scope.collection!r} have {view.matrix.shape[1]}",
                hint="embed the query with the collection's own model",
            )
        scan = self._scans.get(target.row.number)
        if scan is None:
            scan = self._scans[target.row.number] = Scan(view, vector, target.allowed)
        dead: set[int] = set()
        while True:
            at = scan.nearest(depth)
            chunks = view.chunks[at]
            places = self._places(target.scope, chunks, view.digests[at])
            gone = [chunk for chunk in chunks.tolist() if chunk not in places]
            if not gone:
                break
            dead.update(gone)
            scan.drop(at[np.isin(chunks, gone)])
        if dead:
            index.bury(dead)
        exact = np.einsum("ij,j->i", view.matrix[at].astype(np.float64), vector)
        ranking = [
            (places[chunk], round(score, 9))
            for chunk, score in zip(chunks.tolist(), exact.tolist(), strict=True)
        ]
        return ordered(ranking)[:depth]

    def _lexical(self, words: list[str], depth: int) -> Ranking:
        ranking: Ranking = []
        for target, chunks, scores in best_matches(
            self._connection, self._targets, words, depth, self._memory.frequencies
        ):
            places = self._places(target.scope, chunks, None)
            # What somebody deleted by hand may still be in the full text; `verify` tells of it.
            ranking.extend(
                (places[chunk], round(score / (1 + score), 9))
                for chunk, score in zip(chunks.tolist(), scores.tolist(), strict=True)
                if chunk in places
            )
        self._rankings["lexical"] = ordered(ranking)[:depth]
        return self._rankings["lexical"]

    def _places(
        self, scope: Scope, chunks: Chunks, digests: NDArray[np.uint64] | None
    ) -> dict[int, Place]:
        if len(chunks) == 0:
            return {}
        told = {} if digests is None else dict(zip(chunks.tolist(), digests.tolist(), strict=True))
        places = {}
        for chunk, digest, id_, position in self._connection.execute(
            SQL["places"], {"chunks": apsw.carray(array("q", chunks.tolist()))}
        ):
            if told and told[chunk] != short(digest):
                raise Contradiction
            places[chunk] = Place(scope.collection, id_, position, chunk, scope.tenant)
        return places

    def _hits(self, ranking: Sequence[tuple[Place, float]], marker: Marker) -> list[Hit]:
        if not ranking:
            return []
        rows: dict[int, tuple[Any, ...]] = {
            row[0]: row[1:]
            for row in self._connection.execute(
                SQL["hits"],
                {"chunks": apsw.carray(array("q", [place.chunk for place, _ in ranking]))},
            )
        }
        why = self._standings() if self._query.explain else {}
        hits = []
        for place, score in ranking:
            id_, text, first, last, page, heading, metadata = rows[place.chunk]
            marks = marker.found(text)
            hit = Hit(
                collection=place.collection,
                id=decode_id(id_),
                score=score,
                text=text,
                start=first,
                end=last,
                heading=heading,
                metadata=unpack(metadata),
                page=page,
                highlights=merged(marks),
            )
            if self._query.explain:
                words = (*marks, *marker.found(heading))
                hit = replace(hit, explained=self._explained(place, why, words))
            hits.append(hit)
        return hits

    def _standings(self) -> dict[tuple[str, int], Standing]:
        """Return where each ranking has its chunks."""
        return {
            (name, place.chunk): Standing(rank, score)
            for name, ranking in self._rankings.items()
            for rank, (place, score) in enumerate(ranking, start=1)
        }

    def _explained(
        self, place: Place, standings: dict[tuple[str, int], Standing], words: Sequence[str]
    ) -> Explained:
        scan = self._scans.get(place.chunk >> COLLECTION_BITS)
        index: Literal["exact", "codes", "words"] = "words"
        if scan is not None:
            index = "codes" if scan.coded else "exact"
        return Explained(
            dense=standings.get(("dense", place.chunk)),
            lexical=standings.get(("lexical", place.chunk)),
            words=tuple(dict.fromkeys(words)),
            index=index,
            compared=scan.compared if scan else 0,
        )


def _checked(query: Query) -> NDArray[np.float64] | None:
    """Return the query's vector at unit length, or say what is wrong with the query."""
    if not 1 <= query.k <= K_MAX:
        raise ConfigError(f"k is {query.k}", hint=f"ask for 1 to {K_MAX} hits")
    if query.mode not in ("hybrid", "dense", "lexical"):
        raise ConfigError(
            f"there is no search mode {query.mode!r}", hint="use hybrid, dense or lexical"
        )
    if query.mode == "lexical":
        return None
    if query.vector is None:
        raise ConfigError(
            f"a {query.mode} search needs the query's vector",
            hint="embed the text first, or search with mode='lexical'",
        )
    vector = np.asarray(query.vector, np.float64).reshape(-1)
    length = math.sqrt(float(vector @ vector))
    if not math.isfinite(length) or length == 0:
        raise ConfigError("the query's vector has no direction: it is zero, or not finite")
    return vector / length

"""Search: exact by vector, by words (BM25), or both joined by rank.

A hit is a document, shown by its best chunk; `k` counts documents. Scores are within 0..1 except
that a cosine may be negative: dense gives the cosine, lexical BM25 as s / (1 + s), hybrid the
reciprocal rank fusion of both, scaled so that the first place in both is 1. Equal scores go by
collection, id and position, so an answer never depends on chance.

Each answer comes from one snapshot of the database. The matrix says which chunks are near; the
database says which of them exist.
"""

import json
import shutil
import tempfile
import threading
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from evervec.errors import ConfigError, StateError
from evervec.fusion import WORDS_AND_VECTORS, fuse
from evervec.model import Hit, Scope, decode_id
from evervec.ports import Query
from evervec.sqlite.database import Database
from evervec.stores.sqlite.header import short
from evervec.stores.sqlite.index import (
    SQL,
    Chunks,
    CollectionRow,
    Contradiction,
    MatrixIndex,
    StaleSnapshot,
    View,
)
from evervec.stores.sqlite.lexical import best_matches
from evervec.stores.sqlite.ranking import Place, Ranking, Target, best_of_each, ordered
from evervec.stores.sqlite.rows import plain, unpack
from evervec.stores.sqlite.words import words_of

K_MAX = 1000
FUSED_MIN = 100
"""How deep each ranking is read before fusion, at least."""
NEAR = 1e-5
"""More than float32 sums of one product can differ by; who is nearer than this is measured again."""
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

    async def search(self, query: Query) -> Sequence[Hit]:
        """Answer *query*, or raise ConfigError if it makes no sense."""
        vector = _checked(query)
        words = words_of(query.text) if query.mode != "dense" else []

        for _ in range(RETRIES):
            try:
                return await self._database.read(
                    lambda connection: _Search(connection, query, self._index(connection)).answer(
                        vector, words
                    )
                )
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
    ) -> Callable[[CollectionRow], tuple[MatrixIndex, View]]:
        def view(row: CollectionRow) -> tuple[MatrixIndex, View]:
            with self._mutex:
                index = self._indexes.get((row.number, row.space))
                if index is None:
                    identity = bytes(connection.execute(SQL["identity"]).get)
                    index = MatrixIndex(self._open_folder(), identity, row)
                    self._indexes[row.number, row.space] = index
            try:
                return index, index.view(connection, row)
            except OSError as error:
                raise StateError(
                    f"search index {str(self._folder)!r}: {error}",
                    hint="check the disk and the rights of the folder; it can be deleted safely",
                ) from error

        return view

    def _default(self) -> Path | None:
        path = self._database.path
        if self._wanted is not None:
            return self._wanted
        in_memory = path in ("", ":memory:") or path.startswith("file:")
        return None if in_memory else Path(f"{path}-index")

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
        view: Callable[[CollectionRow], tuple[MatrixIndex, View]],
    ) -> None:
        self._connection = connection
        self._query = query
        self._view = view
        self._targets = self._look()
        # One product answers however deep the ranking is read.
        self._scored: dict[int, tuple[NDArray[np.int64] | None, NDArray[np.float32]]] = {}

    def answer(self, vector: NDArray[np.float64] | None, words: list[str]) -> list[Hit]:
        query = self._query
        if query.mode == "dense" and vector is not None:
            ranking = self._deepened(lambda n: self._dense(vector, n), query.k)
        elif query.mode == "lexical":
            ranking = self._deepened(lambda n: self._lexical(words, n), query.k)
        else:
            ranking = self._hybrid(vector, words)
        return self._hits(ranking[: query.k])

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
                targets.append(Target(scope, found, self._allowed(found)))
        if self._query.mode != "lexical" and len({target.row.space for target in targets}) > 1:
            names = ", ".join(repr(target.scope.collection) for target in targets)
            raise ConfigError(
                f"collections {names} are embedded by different models",
                hint="search them one by one, or by words alone (lexical)",
            )
        return targets

    def _allowed(self, row: CollectionRow) -> Chunks | None:
        if not self._query.where:
            return None
        wanted = {
            key: [plain(each) for each in value]
            if isinstance(value, list | tuple | set | frozenset)
            else [plain(value)]
            for key, value in self._query.where.items()
        }
        found = self._connection.execute(
            SQL["matching"], {"collection": row.number, "wanted": json.dumps(wanted)}
        )
        return np.sort(np.fromiter((chunk for (chunk,) in found), np.int64))

    def _deepened(self, rank: Callable[[int], Ranking], k: int) -> Ranking:
        """Rank deeper until there are *k* documents: one document may own all the first chunks."""
        depth = 2 * k + 10
        while True:
            ranking = rank(depth)
            best = best_of_each(ranking)
            if len(best) >= k or len(ranking) < depth:
                return best
            depth *= 4

    def _dense(self, vector: NDArray[np.float64], depth: int) -> Ranking:
        ranking: Ranking = []
        for target in self._targets:
            ranking.extend(self._nearest(target, vector, depth))
        return ordered(ranking)[:depth]

    def _nearest(self, target: Target, vector: NDArray[np.float64], depth: int) -> Ranking:
        index, view = self._view(target.row)
        if len(view.chunks) == 0:
            return []
        if view.matrix.shape[1] != len(vector):
            raise ConfigError(
                f"the query's vector has {len(vector)} dimensions, those of collection "
                f"{target.scope.collection!r} have {view.matrix.shape[1]}",
                hint="embed the query with the collection's own model",
            )
        if target.row.number not in self._scored:
            self._scored[target.row.number] = _scores(view, vector, target.allowed)
        rows, scores = self._scored[target.row.number]
        dead: set[int] = set()
        while True:
            near = _top(scores, depth)
            at = near if rows is None else rows[near]
            chunks = view.chunks[at]
            places = self._places(target.scope, chunks, view.digests[at])
            gone = near[[chunk not in places for chunk in chunks.tolist()]]
            if len(gone) == 0:
                break
            dead.update(chunk for chunk in chunks.tolist() if chunk not in places)
            scores[gone] = -np.inf
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
        for target, chunks, scores in best_matches(self._connection, self._targets, words, depth):
            places = self._places(target.scope, chunks, None)
            # What somebody deleted by hand may still be in the full text; `verify` tells of it.
            ranking.extend(
                (places[chunk], round(score / (1 + score), 9))
                for chunk, score in zip(chunks.tolist(), scores.tolist(), strict=True)
                if chunk in places
            )
        return ordered(ranking)[:depth]

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

    def _hits(self, ranking: Sequence[tuple[Place, float]]) -> list[Hit]:
        if not ranking:
            return []
        rows: dict[int, tuple[Any, ...]] = {
            row[0]: row[1:]
            for row in self._connection.execute(
                SQL["hits"],
                {"chunks": apsw.carray(array("q", [place.chunk for place, _ in ranking]))},
            )
        }
        hits = []
        for place, score in ranking:
            id_, text, first, last, heading, metadata = rows[place.chunk]
            hits.append(
                Hit(
                    collection=place.collection,
                    id=decode_id(id_),
                    score=score,
                    text=text,
                    start=first,
                    end=last,
                    heading=heading,
                    metadata=unpack(metadata),
                )
            )
        return hits


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
    length = float(np.linalg.norm(vector))
    if not np.isfinite(length) or length == 0:
        raise ConfigError("the query's vector has no direction: it is zero, or not finite")
    return vector / length


def _scores(
    view: View, vector: NDArray[np.float64], allowed: Chunks | None
) -> tuple[NDArray[np.int64] | None, NDArray[np.float32]]:
    """Return candidate rows (None: all) and their products with the query; dead rows lose."""
    query = vector.astype(np.float32)
    if allowed is not None and len(allowed) * 4 < len(view.chunks):
        rows = np.flatnonzero(np.isin(view.chunks, allowed))
        scores = view.matrix[rows] @ query
        scores[view.dead[rows]] = -np.inf
        return rows, scores
    scores = view.matrix @ query
    if allowed is not None:
        scores[~np.isin(view.chunks, allowed)] = -np.inf
    if view.dead.any():
        scores[view.dead] = -np.inf
    return None, scores


def _top(scores: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
    """Return where the *depth* greatest scores are, with all that might tie with the last."""
    if len(scores) > depth:
        last = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        return np.flatnonzero((scores >= last - NEAR) & (scores > -np.inf))
    return np.flatnonzero(scores > -np.inf)

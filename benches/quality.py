"""How well search finds: what each choice of chunks, model and ranking is worth. JSON to stdout.

    python -m benches.quality [--docs FOLDER] [--library 30] [--each 200]

`local:exact` is measured where `evervec model fetch exact` has been; a processor may know no `fast`.

The questions are those of `benches.questions`. Every chunk is published as a document of its own in a
real store, so that passages are ranked and not pages, and every ranking is the store's. A chunk is
a hit if it shares with the answering passage at least half of whichever is the shorter. Each question
has one answer; so recall@10 says how often a hit is among the first ten, nDCG@10 also how early the
first one comes: 1 / log2(1 + its rank). As small chunks say less each, a third number counts
how often a hit comes within the first 1,000 tokens that a reader of the ranking reads.

The baseline is what is usually built first: windows of 254 tokens, full precision, vectors alone. Two
rankings of the same questions are compared by the bootstrap: 10,000 times the questions are drawn
anew, and of the 10,000 differences the middle 95 % are told.
"""

import argparse
import asyncio
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from benches.questions import KINDS, Question, TestSet, test_set
from benches.report import Line, report
from numpy.typing import NDArray

from evervec.embedders.local import LocalEmbedder
from evervec.embedders.naming import NAMES
from evervec.errors import ConfigError
from evervec.fusion import RANK_OFFSET, WORDS_AND_VECTORS, fuse
from evervec.model import Chunk, Key, Piece, Publication, Scope, encode_id
from evervec.ports import Embedder, Query, Vector, Vectors
from evervec.sqlite.database import Database
from evervec.stores.sqlite import SqliteStore
from evervec.text.chunk import ChunkRecipe, chunk
from evervec.text.digest import text_digest

DEPTH = 100
"""How deep each ranking is read, as the store does before it joins them."""
READ = 1000
"""Tokens that somebody reads of a ranking."""
WINDOW = 254
DEFAULT, BASELINE, STATIC = "default", "fixed windows of 254 tokens, f32", "static"
MODES = ("dense", "lexical", "hybrid")
OFFSETS = (5, 10, 20, 40, 60, 100)
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6)
"""How much of a joined rank's score the words have."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to cut and to embed. Without a recipe: fixed windows."""

    recipe: ChunkRecipe | None = field(default_factory=ChunkRecipe)
    model: str = "local"


WAYS: dict[str, Way] = {
    DEFAULT: Way(),
    BASELINE: Way(None, "f32"),
    "fixed windows of 254 tokens": Way(None),
    "headings embedded": Way(ChunkRecipe(heading_context=True)),
    **{
        f"chunks of {most} tokens": Way(ChunkRecipe(tokens_max=most))
        for most in (64, 128, 192, 256)
    },
    "an overlap of 40 tokens": Way(ChunkRecipe(overlap=40)),
    "precision f32": Way(model="f32"),
    "`local:fast`": Way(model="local:fast"),
    "`local:exact`": Way(model="local:exact"),
    STATIC: Way(model="static"),
    **{
        f"static, chunks of {most} tokens": Way(ChunkRecipe(tokens_max=most), "static")
        for most in (64, 128, 256, 512)
    },
}
MODELS: Mapping[str, Callable[[], Embedder]] = {
    **NAMES,
    "f32": lambda: LocalEmbedder(precision="f32"),
}


@dataclass(frozen=True, slots=True)
class Piled:
    """The chunks of all pages in one row; a chunk's number is its place there."""

    pages: list[str]
    chunks: list[Chunk]
    tokens: list[int]


@dataclass(frozen=True, slots=True)
class Ranked:
    """For each question, the chunks found by vector and by words, best first, and their cost."""

    piled: Piled
    dense: list[list[int]]
    lexical: list[list[int]]


class Bench:
    """The store, the models, and every vector that was made: a text is embedded once."""

    def __init__(self, tests: TestSet, path: Path) -> None:
        self._tests = tests
        self._database = Database(path)
        self._store = SqliteStore(self._database)
        self._models: dict[str, Embedder] = {}
        self._known: dict[tuple[str, bytes], NDArray[np.float32]] = {}
        # Each way's reader reads as many tokens, whatever its model takes for one.
        self._meter = LocalEmbedder()

    async def rankings(self, ways: Mapping[str, Way]) -> dict[str, Ranked | str]:
        """Return what each way finds, or why it is not possible here."""
        await self._store.open()
        found: dict[str, Ranked | str] = {}
        for name, way in ways.items():
            try:
                ranked = await self._ranked(name, way)
                found[name] = ranked
                hybrid = told(scored(self._tests.questions, ranked.piled, joined(ranked)))
                # It takes minutes; whoever waits may see how far it is.
                print(f"quality: {name}: hybrid {hybrid}", file=sys.stderr, flush=True)
            except ConfigError as error:
                found[name] = str(error)
        await self._store.close()
        await self._database.close()
        for model in (*self._models.values(), self._meter):
            await model.close()
        return found

    async def _ranked(self, name: str, way: Way) -> Ranked:
        if way.model not in self._models:
            self._models[way.model] = MODELS[way.model]()
        piled = _piled(self._tests.pages, way, self._models[way.model], self._meter)
        texts = [one.embedded for one in piled.chunks]
        vectors = await self._vectors(way.model, texts)
        space = list(self._models).index(way.model) + 1
        digests = [text_digest(text) for text in texts]
        await self._store.keep("", space, dict(zip(digests, vectors, strict=True)))
        publications = [
            Publication(Key("", name, encode_id(number)), 1, digest, (Piece(one, digest),), {})
            for number, (one, digest) in enumerate(zip(piled.chunks, digests, strict=True))
        ]
        for first in range(0, len(publications), 500):
            await self._store.publish(publications[first : first + 500], fence=1, space=space)
        asked = await self._vectors(way.model, [one.text for one in self._tests.questions])
        pairs = list(zip(self._tests.questions, asked, strict=True))
        dense = [await self._search(name, one.text, vector, "dense") for one, vector in pairs]
        lexical = [await self._search(name, one.text, vector, "lexical") for one, vector in pairs]
        return Ranked(piled, dense, lexical)

    async def _search(
        self, name: str, text: str, vector: Vector, mode: Literal["dense", "lexical"]
    ) -> list[int]:
        hits = await self._store.search(Query(text, vector, (Scope("", name),), DEPTH, mode))
        return [hit.id for hit in hits if isinstance(hit.id, int)]

    async def _vectors(self, model: str, texts: Sequence[str]) -> Vectors:
        new = {text_digest(text): text for text in texts}
        for digest in [digest for digest in new if (model, digest) in self._known]:
            del new[digest]
        if new:
            made = await self._models[model].embed(list(new.values()), kind="document")
            self._known.update({(model, d): v for d, v in zip(new, made, strict=True)})
        return np.array([self._known[model, text_digest(text)] for text in texts])


def _piled(pages: Mapping[str, str], way: Way, model: Embedder, meter: Embedder) -> Piled:
    piled = Piled([], [], [])
    for path, text in pages.items():
        if way.recipe is None:
            ends = [0, *model.token_ends(text)[WINDOW - 1 :: WINDOW], len(text)]
            made = [Chunk(text[a:b], a, b) for a, b in pairwise(ends) if text[a:b].strip()]
        else:
            made = list(chunk(text, kind="markdown", tokens=model, recipe=way.recipe))
        piled.pages.extend([path] * len(made))
        piled.chunks.extend(made)
    piled.tokens.extend(meter.count_tokens([one.text for one in piled.chunks]))
    return piled


@dataclass(frozen=True, slots=True)
class Scores:
    """One number for each question."""

    ndcg: NDArray[np.float64]
    recall: NDArray[np.float64]
    read: NDArray[np.float64]


def scored(
    questions: Sequence[Question], piled: Piled, rankings: Sequence[Sequence[int]]
) -> Scores:
    rows = []
    for question, ranking in zip(questions, rankings, strict=True):
        allowed = [number for number in ranking if piled.pages[number] != question.source]
        rank = next(
            (at for at, number in enumerate(allowed, 1) if _hits(question, piled, number)),
            DEPTH + 1,
        )
        cost = sum(piled.tokens[number] for number in allowed[: rank - 1])
        found = rank <= 10
        rows.append((found / math.log2(1 + rank), found, rank <= DEPTH and cost < READ))
    ndcg, recall, read = np.array(rows, np.float64).T
    return Scores(ndcg, recall, read)


def _hits(question: Question, piled: Piled, number: int) -> bool:
    one = piled.chunks[number]
    if piled.pages[number] != question.page:
        return False
    shared = min(one.end, question.end) - max(one.start, question.start)
    return 2 * shared >= min(one.end - one.start, question.end - question.start)


def joined(
    found: Ranked, *, offset: int = RANK_OFFSET, words: float = WORDS_AND_VECTORS[0]
) -> list[list[int]]:
    """Join each question's two rankings, as the store does it."""
    return [
        [number for number, _ in fuse(pair, weights=(words, 1 - words), offset=offset)]
        for pair in zip(found.lexical, found.dense, strict=True)
    ]


def compared(better: Scores, worse: Scores) -> dict[str, Any]:
    """Return by how much nDCG@10 differs, and how sure that is."""
    differences = better.ndcg - worse.ndcg
    chance = np.random.default_rng(1)
    drawn = chance.integers(0, len(differences), (10_000, len(differences)), dtype=np.int32)
    means = differences[drawn].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return {
        "difference": round(float(differences.mean()), 4),
        "middle_95": [round(float(low), 4), round(float(high), 4)],
        "wins": int((differences > 0).sum()),
        "losses": int((differences < 0).sum()),
    }


def told(scores: Scores) -> dict[str, float]:
    return {
        "ndcg@10": round(float(scores.ndcg.mean()), 4),
        "recall@10": round(float(scores.recall.mean()), 4),
        "within 1,000 tokens": round(float(scores.read.mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, help="a folder with Python's documentation in HTML")
    parser.add_argument("--library", type=int, default=30, help="how many of the library's pages")
    parser.add_argument("--each", type=int, default=200, help="the most questions of a kind")
    asked = parser.parse_args()
    tests = test_set(asked.docs, library=asked.library, each=asked.each)
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(Bench(tests, Path(folder) / "state.db").rankings(WAYS))
    ways = {name: one for name, one in found.items() if isinstance(one, Ranked)}
    scores = {
        name: {
            "dense": scored(tests.questions, one.piled, one.dense),
            "lexical": scored(tests.questions, one.piled, one.lexical),
            "hybrid": scored(tests.questions, one.piled, joined(one)),
        }
        for name, one in ways.items()
    }
    best, plain = scores[DEFAULT], scores[BASELINE]["dense"]
    report(
        "quality",
        _lines(best, plain),
        pages=len(tests.pages),
        characters=sum(map(len, tests.pages.values())),
        questions={kind: sum(one.kind == kind for one in tests.questions) for kind in KINDS},
        ways={name: _way(ways[name], scores[name], best) for name in ways},
        impossible={name: why for name, why in found.items() if isinstance(why, str)},
        kinds=_by_kind(tests.questions, {**best, "baseline": plain}),
        joining=_joining(tests.questions, ways[DEFAULT], best["hybrid"]),
        joining_static=_joining(tests.questions, ways[STATIC], scores[STATIC]["hybrid"]),
        default_against_baseline={mode: compared(best[mode], plain) for mode in MODES},
    )


def _lines(best: Mapping[str, Scores], plain: Scores) -> list[Line]:
    lines = [
        Line("fixed windows, f32, dense: nDCG@10", told(plain)["ndcg@10"]),
        Line("fixed windows, f32, dense: recall@10", told(plain)["recall@10"]),
    ]
    for mode in MODES:
        for what in ("ndcg@10", "recall@10"):
            target = told(plain)[what] if mode == "hybrid" else None
            name = what.replace("ndcg", "nDCG")
            lines.append(Line(f"{mode}: {name}", told(best[mode])[what], "", target, "at least"))
    return lines


def _way(found: Ranked, mine: Mapping[str, Scores], best: Mapping[str, Scores]) -> dict[str, Any]:
    return {
        "chunks": len(found.piled.chunks),
        "tokens": sum(found.piled.tokens),
        **{mode: told(mine[mode]) for mode in MODES},
        "against_default": {mode: compared(mine[mode], best[mode]) for mode in ("dense", "hybrid")},
    }


def _by_kind(questions: Sequence[Question], modes: Mapping[str, Scores]) -> dict[str, Any]:
    kinds = np.array([one.kind for one in questions])
    return {
        kind: {
            mode: told(
                Scores(s.ndcg[kinds == kind], s.recall[kinds == kind], s.read[kinds == kind])
            )
            for mode, s in modes.items()
        }
        for kind in KINDS
        if (kinds == kind).any()
    }


def _joining(questions: Sequence[Question], found: Ranked, best: Scores) -> list[dict[str, Any]]:
    rows = []
    for words in SHARES:
        for offset in OFFSETS:
            ranking = joined(found, offset=offset, words=words)
            mine = scored(questions, found.piled, ranking)
            rows.append(
                {"words": words, "offset": offset, **told(mine), "against": compared(mine, best)}
            )
    return rows


if __name__ == "__main__":
    main()

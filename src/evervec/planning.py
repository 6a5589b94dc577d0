"""What syncing would take, counted before any work: documents, chunks, tokens, time."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from evervec.ports import Embedder, Source
from evervec.recipe import Prepared, Recipe
from evervec.specs import Spec, from_json, open_source
from evervec.text.template import Template

if TYPE_CHECKING:
    from evervec.app import App
    from evervec.model import Document, Id, Reading

PAGE = 200
SAMPLE_TEXTS = 64
LOOKING = "plan"


@dataclass(slots=True)
class Estimate:
    """Counts so far. *new* is what has no vector yet."""

    documents: int = 0
    broken: int = 0
    chunks: int = 0
    tokens: int = 0
    new_chunks: int = 0
    new_tokens: int = 0
    rate: float = 0.0
    """Tokens a second, measured on a sample."""
    sample: list[str] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)

    @property
    def seconds(self) -> float:
        return self.new_tokens / self.rate if self.rate else 0.0

    @property
    def known_share(self) -> float:
        return 1 - self.new_chunks / self.chunks if self.chunks else 1.0

    def to_json(self) -> dict[str, Any]:
        counts = asdict(self)
        del counts["sample"], counts["seen"]
        return {**counts, "seconds": self.seconds}


class _Forgetful:
    """Notes for a source that is only looked at."""

    async def load(self, prefix: str = "") -> dict[str, bytes]:
        del prefix
        return {}

    async def save(self, notes: Mapping[str, bytes | None]) -> None:
        del notes


async def estimate(app: "App", specs: Sequence[Spec], *, tenant: str | None) -> Estimate:
    """Count what *specs* hold, or every registered collection (of *tenant*). Writes nothing."""
    total = Estimate()
    wanted = [(tenant or "", spec, Recipe(Template.parse("{text}"))) for spec in specs] or [
        (each.scope.tenant, from_json(each.source), Recipe.from_json(each.recipe))
        for each in await app.collections()
        if tenant in {None, each.scope.tenant}
    ]
    for whose, spec, recipe in wanted:
        source = open_source(spec, recipe, token=LOOKING, notebook=_Forgetful(), watched=False)
        try:
            await _count(total, app, source, recipe, whose)
        finally:
            await source.close()
    if total.sample:
        total.rate = await _rate(app.embedder, total.sample)
    return total


async def _count(total: Estimate, app: "App", source: Source, recipe: Recipe, tenant: str) -> None:
    space = await app.state.registry.space_number(app.space)
    after: Id | None = None
    while page := await source.scan(after, PAGE):
        after = page[-1]
        reading = await source.read(page)
        total.documents += len(reading.documents)
        total.broken += len(reading.broken)
        prepared = await asyncio.to_thread(_prepared, reading, recipe, app.embedder)
        texts = {piece.digest: piece.chunk.embedded for each in prepared for piece in each.pieces}
        total.chunks += sum(len(each.pieces) for each in prepared)
        known = await app.state.store.known(tenant, space, list(texts)) if space else frozenset()
        counts = await asyncio.to_thread(app.embedder.count_tokens, list(texts.values()))
        total.tokens += sum(counts)
        for (digest, text), count in zip(texts.items(), counts, strict=True):
            if digest in known or digest in total.seen:
                continue
            total.seen.add(digest)
            total.new_chunks += 1
            total.new_tokens += count
            if len(total.sample) < SAMPLE_TEXTS:
                total.sample.append(text)


def _prepared(reading: "Reading", recipe: Recipe, embedder: Embedder) -> list[Prepared]:
    documents: Sequence[Document] = list(reading.documents.values())
    return [recipe.prepare(document, embedder) for document in documents]


async def _rate(embedder: Embedder, sample: Sequence[str]) -> float:
    await embedder.embed(sample[:1], kind="document")
    began = time.perf_counter()
    await embedder.embed(sample, kind="document")
    return sum(embedder.count_tokens(sample)) / (time.perf_counter() - began)

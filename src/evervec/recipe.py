"""A recipe: which fields make a document's text, how it is cut, what its digest covers."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from evervec.model import TEXT_BYTES, Chunk, Document, Piece
from evervec.text.chunk import ChunkRecipe, chunk
from evervec.text.digest import text_digest
from evervec.text.normalise import normalise
from evervec.text.template import Template


class Tokens(Protocol):
    """The model's own count, the only one that matters for what fits into it."""

    def token_ends(self, text: str) -> Sequence[int]: ...

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]: ...


Rendered: TypeAlias = tuple[str, bytes, Mapping[str, Any]]
"""A document's text, its digest and its metadata."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document's text, cut, with the digest that decides whether anything changed."""

    digest: bytes
    pieces: tuple[Piece, ...]
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class Recipe:
    """From a document's fields to the texts that are embedded. Equal recipes, equal results."""

    template: Template
    chunking: ChunkRecipe = field(default_factory=ChunkRecipe)
    normalised: bool = False
    metadata: tuple[str, ...] = ()
    kind: str = "auto"
    """`markdown`, `code`, `plain`, or `auto`: what the source says, else plain."""

    def to_json(self) -> dict[str, Any]:
        return {
            "template": self.template.to_json(),
            "chunking": self.chunking.to_json(),
            "normalised": self.normalised,
            "metadata": list(self.metadata),
            "kind": self.kind,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Recipe":
        return cls(
            Template.from_json(value["template"]),
            ChunkRecipe.from_json(value["chunking"]),
            value["normalised"],
            tuple(value["metadata"]),
            value["kind"],
        )

    @cached_property
    def fingerprint(self) -> bytes:
        """Changes whenever the same fields could give other chunks."""
        text = json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def prepare(self, document: Document, tokens: Tokens) -> Prepared:
        """Render, digest and cut *document*. Pure, and CPU-bound: call it off the event loop."""
        return self.cut(document, self.rendered(document), tokens)

    def cut(self, document: Document, rendered: Rendered, tokens: Tokens) -> Prepared:
        """Cut what `rendered` made of *document*."""
        text, digest, metadata = rendered
        parts = chunk(text, kind=self._kind(document), tokens=tokens, recipe=self.chunking)
        pieces = tuple(
            Piece(part, text_digest(part.embedded)) for part in _paged(parts, text, document)
        )
        return Prepared(digest, pieces, metadata)

    def rendered(self, document: Document) -> Rendered:
        """Return the text, the digest over all that counts, and the metadata."""
        text = self.template.render(document.fields)
        if self.normalised:
            text = normalise(text)
        metadata = {
            **document.metadata,
            **{
                name: _scalar(document.fields.get(name, document.metadata.get(name)))
                for name in self.metadata
            },
        }
        digest = hashlib.blake2b(digest_size=TEXT_BYTES, key=self.fingerprint)
        digest.update(text.encode())
        digest.update(b"\0")
        # The same text may be cut otherwise, or fall on other pages.
        digest.update(json.dumps([self._kind(document), document.pages]).encode())
        told = json.dumps(metadata, sort_keys=True, default=str).encode()
        return text, digest.digest() + hashlib.blake2b(told, digest_size=8).digest(), metadata

    def _kind(self, document: Document) -> str:
        return str(document.fields.get("kind", "plain")) if self.kind == "auto" else self.kind


def _paged(parts: Iterable[Chunk], text: str, document: Document) -> Iterator[Chunk]:
    """Say of each part of *text* on which page it begins, where the template left pages whole."""
    at = text.find(str(document.fields.get("text", ""))) if document.pages else -1
    for part in parts:
        # What a template puts before the text goes with its first page.
        page = bisect_right(document.pages, max(part.start - at, 0)) if at >= 0 else 0
        yield replace(part, page=page) if page else part


def _scalar(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value

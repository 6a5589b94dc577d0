"""From a document's fields to its pieces: what is kept, in which order, and who decides their size."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from evervec.model import Document, encode_id, same_text
from evervec.recipe import Recipe
from evervec.text.chunk import ChunkRecipe
from evervec.text.digest import text_digest
from evervec.text.template import Template


class Words:
    """A tokenizer of words and marks."""

    def token_ends(self, text):
        return [found.end() for found in re.finditer(r"\w+|[^\w\s]", text)]

    def count_tokens(self, texts):
        return [2 + len(self.token_ends(text)) for text in texts]


PAGE = Document(
    encode_id(7),
    {"title": "Tea", "body": " ".join(f"Sentence {n} of the text." for n in range(90)), "price": 3},
    {"path": "a.md", "modified": 5},
)


def pieces(chunking):
    recipe = Recipe(Template.parse("{title}. {body}"), chunking, metadata=("price",))
    return recipe.prepare(PAGE, Words())


@pytest.mark.accepts("003-12")
def test_cutting_keeps_the_metadata_and_the_order_of_the_text():
    prepared = pieces(ChunkRecipe(tokens_max=64))

    text = f"Tea. {PAGE.fields['body']}"
    chunks = [piece.chunk for piece in prepared.pieces]
    assert prepared.metadata == {"path": "a.md", "modified": 5, "price": 3}
    assert len(chunks) > 5
    assert all(last.end <= part.start for last, part in pairwise(chunks))
    assert " ".join(part.text for part in chunks) == text
    assert [piece.digest for piece in prepared.pieces] == [
        text_digest(part.embedded) for part in chunks
    ]


@pytest.mark.accepts("003-12")
def test_size_and_overlap_of_chunks_are_whatever_was_asked_for():
    small, large = pieces(ChunkRecipe(tokens_max=32)), pieces(ChunkRecipe(tokens_max=128))
    repeating = pieces(ChunkRecipe(tokens_max=64, overlap=16))

    sizes = [Words().count_tokens([piece.chunk.embedded for piece in made.pieces])
             for made in (small, large)]  # fmt: skip
    assert max(sizes[0]) <= 32 < max(sizes[1]) <= 128
    assert small.digest != large.digest != repeating.digest
    assert all(part.chunk.start < last.chunk.end for last, part in pairwise(repeating.pieces))
    # The default is a size and an overlap like any other.
    assert pieces(ChunkRecipe()).pieces == pieces(ChunkRecipe.from_json({})).pieces


def test_the_digest_tells_another_text_from_other_metadata():
    recipe = Recipe(Template.parse("{title}"), metadata=("price",))

    def digest(**fields):
        return recipe.rendered(replace(PAGE, fields={**PAGE.fields, **fields}))[1]

    assert digest(body="not in the template") == digest()
    assert digest(price=4) != digest()
    assert same_text(digest(price=4), digest())
    assert not same_text(digest(title="Coffee"), digest())

"""What every embedder promises. Derive a class from `EmbedderSuite` and give it `embedder`:

class TestMine(EmbedderSuite):
    @pytest.fixture
    async def embedder(self):
        mine = Mine()
        yield mine
        await mine.close()
"""

import asyncio

import numpy as np
import pytest

from evervec.ports import Embedder

TEXTS = (
    "A lease is a worker's right to a batch of jobs until a time.",
    "Bread needs flour, water, salt and patience.",
    "Ünïcödé, 日本語 and \N{WRENCH} are text like any other.",
    "short",
    "",
    "  \n\t ",
    "a lone surrogate \ud800 and a nul \x00 inside",
)


class EmbedderSuite:
    """The meaning of the port `Embedder`."""

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError("give the suite the embedder to test")

    async def test_it_names_its_model_and_pins_its_revision(self, embedder: Embedder) -> None:
        assert embedder.model
        assert embedder.revision not in {"", "latest"}
        assert embedder.revision == embedder.revision

    async def test_its_limits_are_usable(self, embedder: Embedder) -> None:
        limits = embedder.limits

        assert limits.batch_texts_max >= 1
        assert limits.concurrency >= 1
        assert 1 <= limits.text_tokens_max <= limits.batch_tokens_max

    async def test_each_text_gets_one_unit_row_of_its_dimension(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS, kind="document")

        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)

    async def test_rows_come_in_the_order_of_the_texts(self, embedder: Embedder) -> None:
        """Whatever a request is sorted by inside, each row is that of its own text."""
        texts = [TEXTS[3], TEXTS[0], TEXTS[1]]
        together = await embedder.embed(texts, kind="document")

        for text, row in zip(texts, together, strict=True):
            (alone,) = await embedder.embed([text], kind="document")
            assert float(alone @ row) > 0.999

    async def test_different_texts_differ(self, embedder: Embedder) -> None:
        first, second = await embedder.embed(TEXTS[:2], kind="document")

        assert float(first @ second) < 0.99

    async def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        assert len(await embedder.embed([], kind="document")) == 0

    async def test_a_query_lies_in_the_same_space(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS[:1], kind="query")

        assert vectors.shape == (1, embedder.dimension)

    async def test_several_requests_at_once_do_not_mix(self, embedder: Embedder) -> None:
        alone = [await embedder.embed([text], kind="document") for text in TEXTS[:4]]
        at_once = await asyncio.gather(
            *(embedder.embed([text], kind="document") for text in TEXTS[:4])
        )

        for one, other in zip(alone, at_once, strict=True):
            assert float(one[0] @ other[0]) > 0.999

    async def test_every_text_has_a_count(self, embedder: Embedder) -> None:
        counts = list(embedder.count_tokens(TEXTS))

        assert len(counts) == len(TEXTS)
        assert all(count >= 0 for count in counts)
        assert counts[0] > counts[3]
        assert list(embedder.count_tokens([])) == []

    async def test_ends_agree_with_the_count(self, embedder: Embedder) -> None:
        """A text has as many ends as tokens, but for the special ones, which are always as many."""
        (special,) = embedder.count_tokens([""])
        for text, count in zip(TEXTS, embedder.count_tokens(TEXTS), strict=True):
            assert len(embedder.token_ends(text)) == count - special

    async def test_ends_never_fall_back_and_stay_in_the_text(self, embedder: Embedder) -> None:
        for text in TEXTS:
            ends = list(embedder.token_ends(text))
            assert ends == sorted(ends)
            assert all(0 < end <= len(text) for end in ends)

    async def test_a_text_cut_at_an_end_has_that_many_tokens(self, embedder: Embedder) -> None:
        """At a word's end, so that no token is cut: this is how chunks are made to fit."""
        text = TEXTS[0]
        (special,) = embedder.count_tokens([""])
        ends = list(embedder.token_ends(text))
        for place, end in enumerate(ends, 1):
            if text[end : end + 1].isspace():
                assert list(embedder.count_tokens([text[:end]])) == [place + special]

    async def test_a_very_long_text_is_counted_whole(self, embedder: Embedder) -> None:
        """Counts do not stop at what the model reads, or nothing could be chunked by them."""
        (special,) = embedder.count_tokens([""])
        sentence = "Every change arrives once. "
        (one,) = embedder.count_tokens([sentence])
        (many,) = embedder.count_tokens([sentence * 10_000])

        assert many - special == 10_000 * (one - special)

    async def test_closing_twice_is_harmless(self, embedder: Embedder) -> None:
        await embedder.close()
        await embedder.close()

"""Every embedder keeps the promises of the port."""

from collections.abc import AsyncIterator

import pytest

from evervec.embedders.function import FunctionEmbedder
from evervec.embedders.local import LocalEmbedder
from evervec.ports import Embedder
from evervec.testing.embedder import HashEmbedder
from evervec.testing.embedder_suite import EmbedderSuite


def letters(texts: list[str]) -> list[list[float]]:
    return [[1.0, *(float(text.count(letter)) for letter in "aeioust")] for text in texts]


async def letters_later(texts: list[str]) -> list[list[float]]:
    return letters(texts)


class TestLocal(EmbedderSuite):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        embedder = LocalEmbedder(threads=2)
        yield embedder
        await embedder.close()


class TestHash(EmbedderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return HashEmbedder()


class TestFunction(EmbedderSuite):
    @pytest.fixture(params=[letters, letters_later])
    async def embedder(self, request: pytest.FixtureRequest) -> AsyncIterator[Embedder]:
        embedder = FunctionEmbedder(request.param)
        yield embedder
        await embedder.close()

"""Every embedder keeps the promises of the port."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.models import model_folder

from evervec.embedders.folder import FolderEmbedder
from evervec.embedders.function import FunctionEmbedder
from evervec.embedders.local import LocalEmbedder
from evervec.embedders.local.engine import has_int8
from evervec.embedders.static import StaticEmbedder
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


class TestFast(EmbedderSuite):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        if not has_int8():
            pytest.skip("the processor has no VNNI")
        embedder = LocalEmbedder(threads=2, quality="fast")
        yield embedder
        await embedder.close()


class TestFolder(EmbedderSuite):
    """With prompts, which change what a text costs and nothing else that is promised."""

    @pytest.fixture
    async def embedder(self, tmp_path: Path) -> AsyncIterator[Embedder]:
        prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
        folder = model_folder(tmp_path, {"config_sentence_transformers.json": prompts})
        embedder = FolderEmbedder(folder, threads=2)
        yield embedder
        await embedder.close()


class TestStatic(EmbedderSuite):
    @pytest.fixture
    async def embedder(self) -> AsyncIterator[Embedder]:
        embedder = StaticEmbedder(threads=2)
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

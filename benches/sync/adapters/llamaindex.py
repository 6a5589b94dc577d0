"""LlamaIndex's ingestion pipeline: files of a folder, a docstore, a cache, PostgreSQL with pgvector.

Settings. `upserts_and_delete`, the one strategy that removes what is gone, over the whole folder in
each run. The cache of transformations is on, which is the default, and docstore and cache are
persisted to disk after each run, as its manual does. The embedding batch is the largest that it
allows, 2,048; within it the model has 8 requests under way. Documents carry no metadata, which
would be embedded with the text. There is no documented way to mend a store.
"""

from importlib.metadata import version
from typing import Any

from benches.sync.adapters.postgres import Stored
from benches.sync.wire import Model, paragraphs, serve, vector
from llama_index.core import Document
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser.interface import TextSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import VectorStoreQuery
from llama_index.vector_stores.postgres import PGVectorStore


class Paragraphs(TextSplitter):
    def split_text(self, text: str) -> list[str]:
        return paragraphs(text)


class Vectors(BaseEmbedding):
    _model: Model = PrivateAttr()

    def __init__(self, model: Model, **rest: Any) -> None:
        super().__init__(model_name="stub", embed_batch_size=2048, **rest)
        self._model = model

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._model.embed([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._model.embed(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return vector(query)


class LlamaIndex(Stored):
    name = "LlamaIndex"
    version = version("llama-index-core")
    settings = "ingestion pipeline, upserts_and_delete, cache, persisted; PGVectorStore"

    table = "data_chunk"
    document = "metadata_->>'ref_doc_id'"
    text = "text"

    def open(self) -> None:
        super().open()
        self.vectors = PGVectorStore.from_params(
            connection_string=self.uri.replace("postgresql://", "postgresql+psycopg2://"),
            async_connection_string=self.uri.replace("postgresql://", "postgresql+asyncpg://"),
            table_name="chunk",
            embed_dim=384,
        )
        self.pipeline = IngestionPipeline(
            transformations=[Paragraphs(), Vectors(self.model)],
            docstore=SimpleDocumentStore(),
            vector_store=self.vectors,
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
        )
        if (self.state / "docstore.json").exists():
            self.pipeline.load(str(self.state))

    def sync(self) -> str:
        documents = [Document(text=text, id_=name) for name, text in self.documents()]
        self.pipeline.run(documents=documents)
        self.pipeline.persist(str(self.state))
        return ""

    def search(self, text: str) -> str:
        query = VectorStoreQuery(query_embedding=vector(text), similarity_top_k=1)
        nodes = self.vectors.query(query).nodes
        return str(nodes[0].get_content()) if nodes else ""


if __name__ == "__main__":
    serve(LlamaIndex)

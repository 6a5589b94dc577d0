"""LangChain's indexing API: files of a folder, a SQL record manager, PostgreSQL with pgvector.

Settings. `cleanup="full"`, since only that deletes what is gone, over the whole folder in each run.
The batch is larger than all chunks together: its manual asks for one as big as possible, because a
source that lies across two batches is done twice. The record manager is the documented one, over
SQLite. The store is `PGVector`, which inserts in bulk; its successor `PGVectorStore` sends each row
as a statement with a commit of its own. Mending is
`force_update=True`, the one thing its manual has for it.
"""

from importlib.metadata import version

from benches.sync.adapters.postgres import Stored
from benches.sync.wire import Model, paragraphs, serve, vector
from langchain_classic.indexes import SQLRecordManager
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import index
from langchain_postgres import PGVector

BATCH = 1_000_000


class Vectors(Embeddings):
    def __init__(self, model: Model) -> None:
        self._model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return vector(text)


class LangChain(Stored):
    name = "LangChain"
    version = version("langchain-core")
    settings = "indexing API, cleanup full, one batch; records in SQLite, PGVector"

    table = "langchain_pg_embedding"
    document = "cmetadata->>'source'"
    text = "document"

    def open(self) -> None:
        super().open()
        self.vectors = PGVector(
            embeddings=Vectors(self.model),
            connection=self.uri.replace("postgresql://", "postgresql+psycopg://"),
            collection_name="bench",
        )
        self.records = SQLRecordManager("bench", db_url=f"sqlite:///{self.state}/records.db")
        self.records.create_schema()

    def sync(self, *, force: bool = False) -> str:
        chunks = [
            Document(page_content=paragraph, metadata={"source": name})
            for name, text in self.documents()
            for paragraph in paragraphs(text)
        ]
        index(
            chunks,
            self.records,
            self.vectors,
            batch_size=BATCH,
            cleanup="full",
            source_id_key="source",
            key_encoder="blake2b",
            force_update=force,
        )
        return ""

    def mend(self) -> str:
        self.sync(force=True)
        return "index(force_update=True)"

    def search(self, text: str) -> str:
        hits = self.vectors.similarity_search_by_vector(vector(text), k=1)
        return hits[0].page_content if hits else ""


if __name__ == "__main__":
    serve(LangChain)

"""Haystack: an indexing pipeline over the files of a folder, into PostgreSQL with pgvector.

Settings. Haystack tracks no changes. What it has is `CacheChecker`, which leaves out what the store
holds already; over the documents' ids, which are digests of text and metadata, it leaves out every
paragraph that did not change, so that this is what is used. The writer overwrites. Nothing of it
deletes: a run is given what exists and cannot know what went away. A paragraph is a `Document`.
"""

from importlib.metadata import version

from benches.sync.adapters.postgres import Stored
from benches.sync.wire import paragraphs, serve, vector
from haystack import Document
from haystack.components.caching import CacheChecker
from haystack.components.writers import DocumentWriter
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import Secret
from haystack_integrations.components.retrievers.pgvector import PgvectorEmbeddingRetriever
from haystack_integrations.document_stores.pgvector import PgvectorDocumentStore


class Haystack(Stored):
    name = "Haystack"
    version = version("haystack-ai")
    settings = "CacheChecker over ids, then embedder and writer; PgvectorDocumentStore"

    table = "haystack_documents"
    document = "meta->>'name'"
    text = "content"

    def open(self) -> None:
        super().open()
        self.vectors = PgvectorDocumentStore(
            connection_string=Secret.from_token(self.uri), embedding_dimension=384
        )
        # Its table is made at the first use.
        self.vectors.count_documents()
        self.cache = CacheChecker(self.vectors, cache_field="id")
        self.writer = DocumentWriter(self.vectors, policy=DuplicatePolicy.OVERWRITE)
        self.retriever = PgvectorEmbeddingRetriever(document_store=self.vectors, top_k=1)

    def sync(self) -> str:
        chunks = {
            chunk.id: chunk
            for name, text in self.documents()
            for chunk in (Document(content=each, meta={"name": name}) for each in paragraphs(text))
        }
        misses = [chunks[id_] for id_ in self.cache.run(items=list(chunks))["misses"]]
        if misses:
            vectors = self.model.embed([chunk.content or "" for chunk in misses])
            for chunk, embedding in zip(misses, vectors, strict=True):
                chunk.embedding = embedding
            self.writer.run(documents=misses)
        return ""

    def search(self, text: str) -> str:
        found = self.retriever.run(query_embedding=vector(text))["documents"]
        return found[0].content or "" if found else ""


if __name__ == "__main__":
    serve(Haystack)

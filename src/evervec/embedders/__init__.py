"""Models: adapters of the `Embedder` port."""

from evervec.embedders.function import FunctionEmbedder, as_embedder

__all__ = ["FunctionEmbedder", "as_embedder"]

"""The default model: real, local, and pinned by the hash of its bytes."""

from evervec.embedders.local.embedder import LocalEmbedder

__all__ = ["LocalEmbedder"]

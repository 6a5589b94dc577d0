"""Other models, by the folder that holds their files."""

from evervec.embedders.folder.embedder import FolderEmbedder

__all__ = ["FolderEmbedder"]

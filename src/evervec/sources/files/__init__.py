"""Documents that are files in a folder."""

from evervec.sources.files.source import FolderSource

__all__ = ["FolderSource"]

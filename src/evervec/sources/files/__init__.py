"""Documents that are files in a folder."""

from evervec.sources.files.source import FILE_BYTES_MAX, FolderSource
from evervec.sources.files.tree import PATTERNS

__all__ = ["FILE_BYTES_MAX", "PATTERNS", "FolderSource"]

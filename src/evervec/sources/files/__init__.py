"""Documents that are files in a folder."""

from evervec.sources.files.source import FolderSource
from evervec.sources.files.tree import PATTERNS

__all__ = ["PATTERNS", "FolderSource"]

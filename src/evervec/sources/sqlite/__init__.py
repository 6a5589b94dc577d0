"""A table in somebody's SQLite file as a source."""

from evervec.sources.sqlite.shape import TableSpec
from evervec.sources.sqlite.table import TableSource

__all__ = ["TableSource", "TableSpec"]

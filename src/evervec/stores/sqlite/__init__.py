"""The store in an SQLite file: truth in tables, speed in a derived matrix."""

from evervec.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]

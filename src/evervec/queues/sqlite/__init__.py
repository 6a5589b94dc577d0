"""The queue on SQLite: one row a document that is not in sync."""

from evervec.queues.sqlite.queue import SqliteQueue

__all__ = ["SqliteQueue"]

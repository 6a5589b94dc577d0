"""What is registered in the state database: collections, spaces, notes and settings."""

from evervec.registry.sqlite import SqliteRegistry

__all__ = ["SqliteRegistry"]

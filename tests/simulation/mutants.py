"""Each fence and rule, taken out on purpose: a regime that does not notice proves nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from tests.simulation import protocol

from evervec.model import Verdict
from evervec.queues.sqlite.rows import SQL
from evervec.stores.sqlite import publish, store


@contextmanager
def sql(**changes: tuple[str, str]) -> Iterator[None]:
    """Replace text in statements of the queue; it must be there."""
    new = {}
    for name, (old, with_) in changes.items():
        assert old in SQL[name], f"statement {name!r} no longer says {old!r}"
        new[name] = SQL[name].replace(old, with_)
    with patch.dict(SQL, new):
        yield


def accept_all(publication: Any, row: Any, fence: int) -> Verdict:
    return Verdict.PUBLISHED


async def accept_first(self: Any, source: Any, captured: Any, changes: Any, lane: Any) -> None:
    await source.accept(captured)
    await self.queue.put(changes, lane=lane)


async def all_known(self: Any, tenant: str, space: int, digests: Any) -> frozenset[bytes]:
    return frozenset(digests)


MUTANTS: dict[str, Callable[[], Any]] = {
    "no dirty check": lambda: sql(
        finish=("and want = took", ""), remove_finished=("and want = took", "")
    ),
    "dedupe ignores held jobs": lambda: sql(put=("want = want + 1", "want = want + (state <> 2)")),
    "unfenced settle": lambda: sql(
        **{
            name: ("lease = ?2", "?2 > 0")
            for name in ("finish", "remove_finished", "again", "held")
            if "lease = ?2" in SQL[name]
        }
    ),
    "settle what is not held": lambda: sql(
        finish=("and state = 2", ""), remove_finished=("and state = 2", "")
    ),
    "a dead job buries what is new": lambda: sql(
        put=("state = case when state in (3, 4, 5) then 0 else state end", "state = state"),
        held=("want > took", "0"),
    ),
    "quarantine of what was never tried": lambda: sql(quarantine=("and want = took", "")),
    "reap forgets jobs": lambda: sql(suspect=("where state = 2", "where state = 99")),
    "claim takes what others hold": lambda: sql(claim=("where state = 0", "where state in (0, 2)")),
    "no tenant in the store's vectors": lambda: patch.object(store.SqliteStore, "known", all_known),
    "no store fence": lambda: patch.object(publish, "judge", accept_all),
    "accept before put": lambda: patch.object(protocol.Worker, "put_then_accept", accept_first),
}

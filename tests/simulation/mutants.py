"""Each fence and rule, taken out on purpose: a regime that does not notice proves nothing."""

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, TypeAlias
from unittest.mock import patch

from tests.simulation import protocol
from tests.simulation.harness import SPACE, WatchedStore, World, digest, pieces, vector

from evervec.keeper import Keeper
from evervec.model import Key, Lease, Publication, Verdict, encode_id
from evervec.outcome import Done
from evervec.queues.sqlite.rows import SQL
from evervec.stores.sqlite import publish
from evervec.stores.sqlite.rows import StateRow, judge
from evervec.stores.sqlite.writes import SQL as STORE
from evervec.testing.world import Row


@contextmanager
def replaced(statements: dict[str, str], changes: dict[str, tuple[str, str]]) -> Iterator[None]:
    """Replace text in SQL statements; it must be there."""
    new = {}
    for name, (old, with_) in changes.items():
        assert old in statements[name], f"statement {name!r} no longer says {old!r}"
        new[name] = statements[name].replace(old, with_)
    with patch.dict(statements, new):
        yield


def sql(**changes: tuple[str, str]) -> AbstractContextManager[None]:
    return replaced(SQL, changes)


def store_sql(**changes: tuple[str, str]) -> AbstractContextManager[None]:
    return replaced(STORE, changes)


def judge_all(publication: Publication, row: StateRow | None, fence: int) -> Verdict:
    return Verdict.PUBLISHED


def judge_without_version(publication: Publication, row: StateRow | None, fence: int) -> Verdict:
    if row is not None and fence <= row.bar:
        return Verdict.BARRED
    later = row is None or row.version is None or fence > row.fence
    return Verdict.PUBLISHED if later else Verdict.SUPERSEDED


def judge_without_fence(publication: Publication, row: StateRow | None, fence: int) -> Verdict:
    if row is not None and fence <= row.bar:
        return Verdict.BARRED
    later = row is None or row.version is None or publication.version >= row.version
    return Verdict.PUBLISHED if later else Verdict.SUPERSEDED


def judge_without_bar(publication: Publication, row: StateRow | None, fence: int) -> Verdict:
    return judge(publication, None if row is None else replace(row, bar=0), fence)


def trust_touch(self: Any, publication: Publication, state: StateRow | None) -> bool:
    return (publication.touch and state is not None) or UNCHANGED(self, publication, state)


def publish_without_tombstones(self: Any) -> list[Verdict | None]:
    verdicts = PUBLISH(self)
    self._connection.execute("delete from store_document where deleted = 1")
    return verdicts


async def accept_first(self: Any, source: Any, captured: Any, changes: Any, lane: Any) -> None:
    await source.accept(captured)
    await self.queue.put(changes, lane=lane)


async def settle_first(self: Any, lease: Lease) -> None:
    await self.queue.settle(lease.fence, {job.job: Done() for job in lease.jobs})
    await self.attempt(lease)


def held_for_ever(self: Any, fence: int) -> frozenset[int]:
    return frozenset()


UNCHANGED = publish._Run._unchanged
PUBLISH = publish._Run.publish

WHO = "and name = ?4\n    and host = ?5\n    and pid = ?6\n    and started = ?7\n    and boot = ?8"
ANYONE = "and (?4, ?5, ?6, ?7, ?8) is not (1, 1, 1, 1, 1)"

Mutant: TypeAlias = Callable[[], AbstractContextManager[Any]]

MUTANTS: dict[str, Mutant] = {
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
    "a stranger renews": lambda: sql(renew=(WHO, ANYONE)),
    "reap ignores the fence": lambda: sql(suspect=("and lease = ?1", "and ?1 > 0")),
    "known to one tenant, known to all": lambda: store_sql(
        known=("tenant = :tenant", ":tenant <> ''")
    ),
    "one tenant's vectors serve all": lambda: store_sql(
        vectors=("tenant = :tenant", ":tenant <> ''")
    ),
    "no store fence": lambda: patch.object(publish, "judge", judge_all),
    "a store fence without lease": lambda: patch.object(publish, "judge", judge_without_fence),
    "publish without the bar": lambda: patch.object(publish, "judge", judge_without_bar),
    "delete without tombstone": lambda: patch.object(
        publish._Run, "publish", publish_without_tombstones
    ),
    "accept before put": lambda: patch.object(protocol.Worker, "put_then_accept", accept_first),
    "finish before publish": lambda: patch.object(protocol.Worker, "work", settle_first),
}

OF_THE_ENGINE: dict[str, Mutant] = {
    "a keeper that trusts for ever": lambda: patch.object(Keeper, "held", held_for_ever),
}
"""Rules that the smallest worker has not: they are broken in the whole engine."""


async def read_in_the_wrong_order(world: World) -> None:
    """The newer lease read first and publishes last; its older text must not show, even briefly."""
    table, key = world.tables[0], Key("one", "docs", encode_id(1))
    store = await _stored(world, "old", "new")
    await store.publish([_of(key, table.version, "new")], fence=5, space=SPACE)
    await store.publish([_of(key, table.version - 1, "old")], fence=6, space=SPACE)


async def change_and_change_back(world: World) -> None:
    """What was in sync when it was looked at is not when the touch arrives."""
    table, key = world.tables[0], Key("one", "docs", encode_id(1))
    store = await _stored(world, "same", "other", "same")
    await store.publish([_of(key, 1, "same")], fence=1, space=SPACE)
    await store.publish([_of(key, 2, "other")], fence=2, space=SPACE)
    touch = Publication(key, table.version, digest("same"), touch=True)
    (verdict,) = await store.publish([touch], fence=3, space=SPACE)
    if verdict is Verdict.INCOMPLETE:
        await store.publish([_of(key, table.version, "same")], fence=4, space=SPACE)


async def _stored(world: World, *texts: str) -> WatchedStore:
    store = world.store()
    for text in texts:
        world.tables[0].commit({encode_id(1): Row(text)}, ())
        await store.keep("one", SPACE, {digest(text): vector(text)})
    return store


def _of(key: Key, version: int, text: str) -> Publication:
    return Publication(key, version, digest(text), pieces(text))


DIRECTED: dict[str, tuple[Mutant, Callable[[World], Coroutine[Any, Any, None]]]] = {
    "a store fence without version": (
        lambda: patch.object(publish, "judge", judge_without_version),
        read_in_the_wrong_order,
    ),
    "touch without comparing": (
        lambda: patch.object(publish._Run, "_unchanged", trust_touch),
        change_and_change_back,
    ),
}
"""Needs three processes late in one order: random schedules meet them less than once in a thousand,
and the first one ends right by itself, so only the audit of each write can see it."""

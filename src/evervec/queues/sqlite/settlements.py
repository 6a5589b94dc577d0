"""Settle: record how held jobs ended, as one set in one commit."""

from collections.abc import Mapping

import apsw

from evervec.model import Id
from evervec.outcome import Done, Fail, Outcome, Release, Retry
from evervec.ports import Settled
from evervec.queues.sqlite.rows import (
    REASON_MAX,
    REST,
    SQL,
    STACK_MAX,
    Row,
    Scopes,
    bounded,
    ids,
    rows,
)
from evervec.sqlite.events import Fact, append


def settle(
    connection: apsw.Connection,
    fence: int,
    outcomes: Mapping[int, Outcome],
    scopes: Scopes,
    now: int,
) -> Settled:
    """Apply *outcomes* to the jobs that *fence* still holds; nothing happens to the others."""
    done = [job for job, outcome in outcomes.items() if isinstance(outcome, Done)]
    ended, again = _finish(connection, fence, done, now)
    if len(done) < len(outcomes):
        others = {job: outcome for job, outcome in outcomes.items() if outcome != Done()}
        facts: list[Fact] = []
        held = rows(connection, SQL["held"], (ids(others), fence))
        for row in held:
            _record(connection, row, others[row[0]], now)
            if not row[3]:
                facts += _facts(connection, row, others[row[0]], scopes)
            (again if row[3] else ended).add(row[0])
        append(connection, facts, at=now)
    connection.execute(SQL["end_lease"], (fence,))
    connection.execute(SQL["end_stopped"], (fence,))
    return Settled(ended=frozenset(ended), again=frozenset(again))


def _finish(
    connection: apsw.Connection, fence: int, done: list[int], now: int
) -> tuple[set[int], set[int]]:
    if not done:
        return set(), set()
    connection.execute(SQL["finish"], (ids(done), fence, now))
    ended = {job for (job,) in rows(connection, SQL["remove_finished"], (ids(done), fence))}
    if len(ended) == len(done):
        return ended, set()
    # What is held and left was changed meanwhile.
    values = ids(done), fence, now, now + REST
    again = {job for (job,) in rows(connection, SQL["again"], values)}
    return ended, again


def _record(connection: apsw.Connection, row: Row, outcome: Outcome, now: int) -> None:
    job, dirty = row[0], row[3]
    match outcome:
        case Release(after=after, reason=reason):
            text = bounded(reason, REASON_MAX)
            if after > 0:
                due = now + _milliseconds(after)
                connection.execute(SQL["release_later"], (job, text, due))
            else:
                connection.execute(SQL["release"], (job, text))
        case _ if dirty:
            connection.execute(SQL["anew"], (job, now))
        case Retry(after=after):
            connection.execute(SQL["retry"], (job, now + _milliseconds(after), *_error(outcome)))
        case Fail():
            connection.execute(SQL["fail"], (job, now, *_error(outcome)))


def _error(outcome: Retry | Fail) -> tuple[str, str, str]:
    return (
        bounded(outcome.reason, REASON_MAX),
        bounded(outcome.kind, REASON_MAX),
        # The end of a stack is where it broke.
        bounded(outcome.stack, STACK_MAX, end=True),
    )


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _facts(connection: apsw.Connection, row: Row, outcome: Outcome, scopes: Scopes) -> list[Fact]:
    job, number, document, _, attempts, _ = row
    if not isinstance(outcome, Retry | Fail):
        return []
    data = {
        "job": job,
        "attempts": attempts + 1,
        "reason": bounded(outcome.reason, REASON_MAX),
        "kind": bounded(outcome.kind, REASON_MAX),
    }
    name = "job.failed"
    if isinstance(outcome, Retry):
        name = "job.retry_scheduled"
        data["after"] = outcome.after
    return [Fact(name, scopes.name(connection, number), Id(document), data)]

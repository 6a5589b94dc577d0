"""What must never happen, as checks over the real tables. Names as in docs/guarantees.md.

`Audit` watches every statement through temporary triggers on the connection, so what is wrong for
one moment only is seen too. `owed` holds between any two commits, `at_rest` when nothing is left
to do. The numbers are those of the protocol's list of invariants:

S1 every live document's chunks and vectors are those of its newest text; S2 no accepted write with
a lower version; S3 fences of one document grow; S4 no vectors of a deleted document, and its
tombstone stays; S5 one holder a job, and its leases grow; S6 no change is lost: what is out of step
has a job or an unread log entry; S7 nobody settles what others hold; S9 a paused queue hands out
nothing; S10 no job is parked for what is not wanted any more; S12 no orphans, no vectors across
tenants; S13 each vector belongs to its text; S14 no text in events or reasons; S15 the books agree.

S8 (jobs in flight a tenant) and S11 (grants of a rate limiter) do not apply: the product has neither
limit, so there is nothing to break. S16 (everything holds across a migration up and down) does not
apply either: each component has one schema so far, and none is ever taken back.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import apsw

from evervec.model import Id, Key, Scope
from evervec.sqlite.statements import statements
from evervec.testing.world import Table

SQL = statements("evervec.testing", "invariants.sql")

STEPS = (
    "audit",
    "audit_version",
    "audit_tombstone",
    "audit_bar",
    "audit_reap",
    "audit_claim",
    "audit_hold",
    "audit_settle",
    "audit_remove",
    "audit_parked",
    "rare",
    "rare_states_of_jobs",
)


class Violation(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the store must hold of a text: the document's digest, and (text, vector) a chunk."""

    digest: bytes
    chunks: tuple[tuple[str, bytes], ...]


Expect = Callable[[str], Expected]


class Audit:
    """Temporary triggers that write down every step that breaks a rule."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        may_settle: Callable[[int], bool],
        may_reap: Callable[[int, int], bool],
    ) -> None:
        """Watch what *connection* does.

        *may_settle* says whether whoever writes now was ever given the lease of that fence;
        *may_reap* whether a lease is over whose holder's pid and end on the boot clock these are.
        """
        self._connection = connection

        def answer(*values: float | str | bytes | None) -> int:
            return int(may_settle(int(str(values[0]))))

        def reapable(*values: float | str | bytes | None) -> int:
            pid, expires = (int(str(value)) for value in values)
            return int(may_reap(pid, expires))

        connection.create_scalar_function("may_settle", answer, 1)
        connection.create_scalar_function("may_reap", reapable, 2)
        for name in STEPS:
            connection.execute(SQL[name])

    def check(self) -> None:
        """Raise Violation if a statement since the last check broke a rule."""
        found = self._connection.execute(SQL["audited"]).fetchall()
        if found:
            raise Violation("; ".join(f"{rule}: {detail}" for rule, detail in found))

    def reached(self) -> Counter[str]:
        """Return how often each rare state was reached."""
        return Counter(dict(self._connection.execute(SQL["rare_states"])))


def owed(connection: apsw.Connection, tables: Sequence[Table], expect: Expect) -> None:
    """S6: check that every document out of step is in the queue or in the unread log."""
    stored = _digests(connection)
    queued = {
        Key(tenant, collection, Id(document))
        for tenant, collection, document in connection.execute(SQL["queued"])
    }
    for table in tables:
        if table.lost:
            continue  # the scan that is due will find it
        unread = {document for _, document in table.log[table.cursor :]}
        for key in _keys(table, stored):
            row = table.rows.get(key.id)
            wanted = None if row is None else expect(row.body).digest
            if wanted != stored.get(key) and key.id not in unread and key not in queued:
                raise Violation(f"S6: the newest change of {key} is neither stored nor owed")


def at_rest(connection: apsw.Connection, tables: Sequence[Table], expect: Expect) -> None:
    """Check everything that must hold once all is done."""
    for check in (newest_text, no_orphans, books_agree, nothing_leaks):
        check(connection, tables, expect)


def newest_text(connection: apsw.Connection, tables: Sequence[Table], expect: Expect) -> None:
    """S1, S4, S13: the store says what the sources say, chunk by chunk and vector by vector."""
    stored: dict[Key, list[tuple[str, bytes]]] = {}
    for tenant, collection, document, text, vector in connection.execute(SQL["chunks"]):
        stored.setdefault(Key(tenant, collection, Id(document)), []).append((text, vector))
    digests = _digests(connection)
    for table in tables:
        for key in _keys(table, digests):
            row = table.rows.get(key.id)
            if row is None:
                if key in digests or key in stored:
                    raise Violation(f"S4: {key} is deleted and still searchable")
                continue
            wanted = expect(row.body)
            if digests.get(key) != wanted.digest:
                raise Violation(f"S1: {key} is not at its newest text {row.body!r}")
            if tuple(stored.get(key, ())) != wanted.chunks:
                raise Violation(f"S1, S13: {key} has other chunks or vectors than its text")


def no_orphans(connection: apsw.Connection, tables: Sequence[Table], expect: Expect) -> None:
    """S12: chunks belong to live documents, vectors to the tenant, full text to the chunks."""
    del tables, expect
    for name in ("orphan_chunks", "foreign_vectors", "wrong_counts", "unused_in_use"):
        found = connection.execute(SQL[name]).fetchall()
        if found:
            raise Violation(f"S12: {name}: {found}")
    connection.execute(SQL["check_full_text"])


def books_agree(connection: apsw.Connection, tables: Sequence[Table], expect: Expect) -> None:
    """S15: each job ended once, no lease outlives its jobs."""
    del tables, expect
    for name in ("ended_twice", "lease_without_jobs", "job_without_lease"):
        found = connection.execute(SQL[name]).fetchall()
        if found:
            raise Violation(f"S15: {name}: {found}")


def nothing_leaks(connection: apsw.Connection, tables: Sequence[Table], expect: Expect) -> None:
    """S14: no document's text is in an event, a reason or a stack."""
    del expect
    said = "\n".join(text for (text,) in connection.execute(SQL["said"]))
    for table in tables:
        for body in table.texts_ever:
            for paragraph in body.split("\n\n"):
                if paragraph and paragraph in said:
                    raise Violation(f"S14: the text {paragraph!r} is in the queue or the events")


def _digests(connection: apsw.Connection) -> Mapping[Key, bytes]:
    return {
        Key(tenant, collection, Id(document)): digest
        for tenant, collection, document, digest in connection.execute(SQL["digests"])
    }


def _keys(table: Table, stored: Mapping[Key, object]) -> list[Key]:
    scope: Scope = table.scope
    keys = {Key(scope.tenant, scope.collection, document) for document in table.rows}
    keys |= {key for key in stored if key.scope == scope}
    return sorted(keys)

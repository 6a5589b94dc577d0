"""Every hot statement finds its rows by an index, in an empty file and in a filled one.

A table: a component says which statements it runs and which tables they must never walk through.
Statements that may are named with the reason.
"""

import asyncio
import re
from array import array
from dataclasses import dataclass, field

import apsw
import pytest

from evervec.clock import SYSTEM
from evervec.model import Change, Key, Lane, Scope, encode_id
from evervec.outcome import Done, Fail, Retry
from evervec.queues.sqlite import SqliteQueue
from evervec.sqlite.database import Database
from evervec.sqlite.statements import statements
from evervec.stores.sqlite import SqliteStore
from evervec.stores.sqlite.lexical import prepare
from evervec.testing.queue_suite import holder
from evervec.testing.store_suite import publication, vector_of


@dataclass(frozen=True)
class Hot:
    package: str
    file: str
    tables: frozenset[str]
    """Those that grow: no statement may scan them."""
    indexes: dict[str, str]
    """What a statement's plan must name."""
    exempt: dict[str, str] = field(default_factory=dict)
    """Statements that may scan, and why."""


HOT = [
    Hot(
        "evervec.queues.sqlite",
        "queue.sql",
        frozenset({"job", "finished", "queue_scope", "queue_tenant", "lease_stopped"}),
        {
            "created": "PRIMARY KEY (rowid>?)",
            "promote": "job_delayed (run_key<?)",
            "due": "job_delayed",
            "suspects": "job_suspect",
            "claim_suspects": "job_suspect (together=?)",
            "lanes": "COVERING INDEX job_ready (lane>? AND lane<?)",
            "claim": "COVERING INDEX job_ready (lane=?)",
            "finish": "PRIMARY KEY (rowid=?)",
            "remove_finished": "PRIMARY KEY (rowid=?)",
            "again": "PRIMARY KEY (rowid=?)",
            "held": "PRIMARY KEY (rowid=?)",
            "end_lease": "COVERING INDEX job_leased (lease=?)",
            "orphans": "job_leased (lease=?)",
            "suspect": "job_leased (lease=?)",
            "find_scope": "(tenant=? AND collection=?)",
        },
        {
            "suspects": "walks the suspects alone, of the largest group first, to its first row",
            "quarantine": "walks the suspects alone",
        },
    ),
    Hot(
        "evervec.queues.sqlite",
        "control.sql",
        frozenset({"job", "finished"}),
        {
            "jobs": "PRIMARY KEY (rowid>?)",
            "parked": "job_parked (state=? AND rowid>?)",
            "find": "job_document (scope=? AND document=?)",
            "cancel": "job_document (scope=? AND document=?)",
            "replay": "PRIMARY KEY (rowid=?)",
            "forget": "job_document (scope=?)",
            "depth_parked": "job_parked (state=?)",
            "prune_parked": "job_ended (ended_at<?)",
        },
        {
            "depth": "counts over covering partial indexes",
            "mode": "counts what is held, over its own index",
            "stop_scope": "walks what is held",
            "prune_finished": "takes the first rows in the table's own order",
            "forget_finished": "a collection is forgotten rarely; in bounded steps",
        },
    ),
    Hot(
        "evervec.stores.sqlite",
        "store.sql",
        frozenset({"store_document", "store_chunk", "store_vector", "store_unused"}),
        {
            "collection": "store_collection_by_name (tenant=? AND name=?)",
            "save_collection": "PRIMARY KEY (rowid=?)",
            "look": "store_document_by_id (collection=? AND id=?)",
            "published": "store_document_by_id (collection=? AND id=?)",
            "states": "store_document_by_id (collection=? AND id=?)",
            "known": "COVERING INDEX store_vector_by_digest (tenant=? AND space=? AND digest=?)",
            "vectors": "COVERING INDEX store_vector_by_digest (tenant=? AND space=? AND digest=?)",
            "kept": "store_vector_by_digest (tenant=? AND space=? AND digest=?)",
            "width": "store_vector_by_digest (tenant=? AND space=?)",
            "use": "PRIMARY KEY (rowid=?)",
            "chunks_of_vector": "COVERING INDEX store_chunk_by_vector (vector=?)",
            "renumber": "PRIMARY KEY (rowid=?)",
            "chunks": "store_chunk_by_document (document=?)",
            "replace_document": "PRIMARY KEY (rowid=?)",
            "touch_document": "PRIMARY KEY (rowid=?)",
            "move_chunk": "PRIMARY KEY (rowid=?)",
            "remove_chunks": "PRIMARY KEY (rowid=?)",
            "leave": "COVERING INDEX store_chunk_by_vector (vector=?)",
            "documents": "store_document_by_id (collection=? AND id>?)",
            "damaged": "store_chunk_by_document (document=?)",
            "damaged_document": "store_document_by_id (collection=? AND id=?)",
            "lags": "COVERING INDEX store_document_by_age (collection=?)",
            "some_documents": "store_document_by_id (collection=?)",
            "chunks_to_remove": "store_chunk_by_document (document=?)",
            "add_words": "SEARCH store_chunk USING INTEGER PRIMARY KEY (rowid=?)",
            "remove_words": "SEARCH store_chunk USING INTEGER PRIMARY KEY (rowid=?)",
            "remove_documents": "PRIMARY KEY (rowid=?)",
            "renumber_document": "PRIMARY KEY (rowid=?)",
            "prune": "COVERING INDEX store_unused_by_age (since<?)",
            "remove_vector": "COVERING INDEX store_chunk_by_vector (vector=?)",
        },
        {"damaged": "looks at a whole collection, and is asked to"},
    ),
    Hot(
        "evervec.stores.sqlite",
        "hidden.sql",
        frozenset({"store_document", "store_chunk"}),
        {
            "grow": "store_hidden_by_document (document=?)",
            "complete": "store_hidden_by_document (document=?)",
            "some_chunks": "store_chunk_by_document (document=?)",
            "outline": "store_chunk_by_document (document=?)",
            "progress": "store_document_by_id (collection=? AND id=?)",
        },
    ),
    Hot(
        "evervec.stores.sqlite",
        "search.sql",
        frozenset({"store_document", "store_chunk", "store_vector", "c", "d"}),
        {
            "collection": "store_collection_by_name (tenant=? AND name=?)",
            "new_chunks": "SEARCH c USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
            "live_chunks": "PRIMARY KEY (rowid>? AND rowid<?)",
            "matching": "store_document_by_id (collection=?)",
            "places": "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
            "hits": "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
            # Words and both ends of the collection go into the full text itself.
            "lexical": "store_text VIRTUAL TABLE INDEX 0:M1><",
            "frequency": "store_text VIRTUAL TABLE INDEX 0:M1><",
            "having": "store_text VIRTUAL TABLE INDEX 0:M1><",
            "hidden": "SEARCH c USING COVERING INDEX store_chunk_by_document (document=?)",
        },
    ),
]

CASES = [
    pytest.param(hot, name, id=f"{hot.file}:{name}")
    for hot in HOT
    for name in statements(hot.package, hot.file)
]


def plan(connection, sql):
    """Explain *sql* with stand-ins for what it is given."""
    count = max((int(number) for number in re.findall(r"\?(\d+)", sql)), default=0)
    bound = [
        apsw.carray(array("q", [1])) if f"carray(?{place})" in sql else 1
        for place in range(1, count + 1)
    ]
    named = {
        name: apsw.carray(array("q", [1])) if f"carray(:{name})" in sql else 1
        for name in re.findall(r":(\w+)", sql)
    }
    return [row[3] for row in connection.execute(f"explain query plan {sql}", named or bound)]


async def fill(database):
    """A few thousand rows in every state."""
    await fill_queue(database)
    await fill_store(database)


async def fill_store(database):
    store = SqliteStore(database, clock=SYSTEM)
    for tenant in range(20):
        scope = Scope(f"t{tenant}", "articles")
        documents = [
            publication(number, [f"text {number}", f"more {number}"], scope=scope, since=1)
            for number in range(150)
        ]
        pieces = [piece for document in documents for piece in document.pieces]
        vectors = {piece.digest: vector_of(piece.chunk.text) for piece in pieces}
        await store.keep(scope.tenant, 1, vectors)
        await store.publish(documents, fence=1, space=1)
        gone = [publication(n, [], scope=scope, version=2, deleted=True) for n in range(20)]
        await store.publish(gone, fence=2, space=1)
    await store.close()


async def fill_queue(database):
    queue = SqliteQueue(database, clock=SYSTEM)
    for tenant in range(30):
        for lane in Lane:
            documents = [encode_id(number) for number in range(100)]
            put = [Change(Key(f"t{tenant}", lane.name, document)) for document in documents]
            await queue.put(put, lane=lane)
    for outcome in (Done(), Retry(99, "r", "E"), Fail("f", "E"), None):
        lease = await queue.claim(400, holder=holder(), lease_for=60)
        assert lease is not None
        if outcome is not None:
            await queue.settle(lease.fence, {job.job: outcome for job in lease.jobs})
    await queue.close()


@pytest.fixture(scope="module", params=["empty", "filled", "analysed"])
def connection(request, tmp_path_factory):
    database = Database(tmp_path_factory.mktemp(request.param) / "state.db")
    SqliteQueue(database).open()
    asyncio.run(SqliteStore(database).open())
    if request.param != "empty":
        asyncio.run(fill(database))
    if request.param == "analysed":
        database.write_now(lambda connection: connection.execute("analyze").fetchall())
    found = apsw.Connection(database.path)
    prepare(found)
    yield found
    found.close()
    database.close_now()


@pytest.mark.parametrize(("hot", "name"), CASES)
@pytest.mark.accepts("001-61")
def test_a_hot_statement_uses_its_index_and_never_sorts(connection, hot, name):
    steps = plan(connection, statements(hot.package, hot.file)[name])
    text = " ; ".join(steps)
    assert "TEMP B-TREE" not in text
    assert hot.indexes.get(name, "") in text
    if name not in hot.exempt:
        walked = [step for step in steps if re.match(r"SCAN (\w+)", step)]
        assert not [step for step in walked if step.split()[1] in hot.tables]

"""The check at the end of a history: compares the files themselves, without the product's eyes."""

import sqlite3
from collections import Counter
from contextlib import closing

import apsw
import numpy as np
from tests.crash.history import History

from evervec.model import Document, Id
from evervec.ports import Vector
from evervec.recipe import Recipe
from evervec.testing.embedder import HashEmbedder, asked_in
from evervec.text.template import Template
from evervec.writeback import one_vector

QUEUE_REST = ("job", "lease", "lease_stopped")


def violations(history: History, *, parked: int = 0) -> list[str]:
    """Settle *history* and return every promise it broke; *parked* jobs may wait for a person."""
    report = history.settle()
    found: list[str] = []
    texts = history.texts()
    if not parked:
        drift = {name: count for name, count in report.items() if name != "checked" and count}
        found += [f"verify found drift {drift}"] if drift else []
        found += [f"verify checked {report['checked']} of {len(texts)}"] * (
            report["checked"] != len(texts)
        )
    with closing(apsw.Connection(str(history.state))) as state:
        found += wrong_documents(state, texts, parked)
        found += orphans(state)
        found += damage(state, "the state")
    queue = history.queue_path if history.queue else history.state
    with closing(apsw.Connection(str(queue))) as connection:
        for table in QUEUE_REST:
            left = connection.execute(f"select * from {table}").fetchall()
            if len(left) > (parked if table == "job" else 0):
                found.append(f"{table} is not empty: {left[:3]}")
    if history.kind == "table":
        with closing(apsw.Connection(str(history.place))) as shop:
            found += damage(shop, "the source")
            found += wrong_columns(shop, texts, parked)
    return found + asked_too_often(history)


def wrong_documents(state: apsw.Connection, texts: dict[str, str], parked: int) -> list[str]:
    stored: dict[str, list[tuple[str, bytes]]] = {
        id_: [] for (id_,) in state.execute("select id from store_document where deleted = 0")
    }
    chunks = state.execute(
        "select d.id, c.text, v.value from store_chunk c join store_document d using (document)"
        " join store_vector v on v.number = c.vector order by c.document, c.position"
    )
    for id_, text, value in chunks:
        stored.setdefault(id_, []).append((text, value))
    found = [f"{id_} is stored and not in the source" for id_ in stored.keys() - texts.keys()]
    missing = texts.keys() - stored.keys()
    if len(missing) != parked:
        found.append(f"{sorted(missing)} are not stored")
    model, recipe = HashEmbedder(), Recipe(Template.parse("{text}"))
    for id_ in stored.keys() & texts.keys():
        document = Document(Id(id_), {"text": texts[id_], "kind": "plain"})
        pieces = recipe.prepare(document, model).pieces
        wanted = [piece.chunk for piece in pieces]
        if [text for text, _ in stored[id_]] != [chunk.text for chunk in wanted]:
            found.append(f"{id_} holds {stored[id_][:1]!r:.90}, newest is {texts[id_]!r:.60}")
            continue
        for (_, value), chunk in zip(stored[id_], wanted, strict=True):
            if not np.allclose(np.frombuffer(value, "<f4"), model.vector(chunk.embedded)):
                found.append(f"{id_} holds a vector of another text than {chunk.text!r:.60}")
    return found


def wrong_columns(shop: apsw.Connection, texts: dict[str, str], parked: int) -> list[str]:
    model, recipe = HashEmbedder(), Recipe(Template.parse("{text}"))
    wrong = []
    for id_, value in shop.execute("select id, vector from article"):
        document = Document(Id(str(id_)), {"text": texts[str(id_)], "kind": "plain"})
        pieces = recipe.prepare(document, model).pieces
        wanted = one_vector([model.vector(piece.chunk.embedded) for piece in pieces])
        if wanted is None or value is None or not same(value, wanted):
            wrong.append(f"row {id_} does not hold the vector of its text")
    return wrong if len(wrong) > parked else []


def same(value: bytes, wanted: Vector) -> bool:
    return np.allclose(np.frombuffer(value, "<f4"), wanted, atol=1e-6)


def orphans(state: apsw.Connection) -> list[str]:
    left = state.execute(
        "select c.chunk from store_chunk c left join store_document d using (document)"
        " left join store_hidden h on h.document = c.document"
        " where h.document is null and (d.document is null or d.deleted)"
    ).fetchall()
    return [f"chunks without a document: {left[:3]}"] if left else []


def damage(connection: apsw.Connection, what: str) -> list[str]:
    verdict = connection.execute("pragma quick_check").fetchall()
    return [] if verdict == [("ok",)] else [f"quick_check of {what}: {verdict[:3]}"]


def asked_too_often(history: History) -> list[str]:
    """Each text once, and once more for each kill that caught it in a request in flight.

    What a worker asked that was frozen beyond its lease is not counted at all.
    """
    asked: Counter[str] = asked_in(history.ledger)
    for line in history.lines():
        if line["pid"] in history.frozen:
            asked.subtract(line["texts"])
    return [
        f"the model saw {text[:40]!r} {count} times, {1 + history.allowed[text]} are allowed"
        for text, count in asked.items()
        if count > 1 + history.allowed[text]
    ]


def parked_jobs(history: History) -> list[tuple[str, int, str]]:
    """Return (id, state, reason) of every job that waits in the queue."""
    queue = history.queue_path if history.queue else history.state
    with closing(sqlite3.connect(queue)) as connection:
        return connection.execute("select document, state, reason from job").fetchall()

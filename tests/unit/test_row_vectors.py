"""A vector into its own row of a SQLite table: only where it belongs, and nothing else with it."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from evervec.errors import ConfigError, SourceError
from evervec.model import decode_id, encode_id
from evervec.ports import Wanted
from evervec.sources.sqlite import TableSource, TableSpec
from evervec.testing.notebook import MemoryNotebook

pytestmark = pytest.mark.anyio

NOTE = "create table note (id integer primary key, body, seen, vector)"
VECTOR = np.array([0.6, 0.8], np.float32)


class Shop:
    """A table with a column for vectors, and the program that owns it."""

    def __init__(self, path, schema):
        self.path = path
        self.writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.writer.execute(schema)
        self.source = None

    def run(self, statement, *values):
        return self.writer.execute(statement, values).fetchall()

    async def watch(self, table="note", **spec):
        asked = TableSpec(self.path, table, ("body",), **{"into": "vector", **spec})
        self.source = TableSource(asked, token="t1", notebook=MemoryNotebook())
        await self.source.open()
        return self.source

    async def close(self):
        if self.source is not None:
            await self.source.close()
        self.writer.close()


@pytest.fixture
async def shop(tmp_path, request):
    shop = Shop(tmp_path / "shop.db", getattr(request, "param", NOTE))
    yield shop
    await shop.close()


def digest_of(document):
    return str(document.fields["body"]).encode()


def wanted(key, text, vector=VECTOR):
    return {encode_id(key): Wanted(text.encode(), vector)}


@pytest.mark.accepts("000-46")
async def test_a_vector_is_written_as_float32_and_every_other_column_stays(shop):
    """And the write is no change: nothing is captured, and no version moves."""
    source = await shop.watch()
    shop.run("insert into note values (1, 'one', 7, null), (2, 'two', 8, x'00')")
    while captured := await source.changes(10):
        await source.accept(captured)
    before = (await source.read([encode_id(1)])).version

    assert await source.write_back(wanted(1, "one"), digest_of) == {encode_id(1): ""}

    (row,) = shop.run("select * from note where id = 1")
    assert row == (1, "one", 7, VECTOR.astype("<f4").tobytes())
    assert shop.run("select * from note where id = 2") == [(2, "two", 8, b"\0")]
    assert await source.changes(10) is None
    assert (await source.read([encode_id(1)])).version == before
    assert await source.write_back(wanted(1, "one"), digest_of) == {}, "it is there already"


async def test_a_vector_of_an_older_text_never_lands_on_a_newer_one(shop):
    """Whether the text changed long ago or between the comparison and the write."""
    source = await shop.watch()
    shop.run("insert into note (id, body) values (1, 'new'), (2, 'old'), (3, 'same')")

    assert await source.write_back(wanted(1, "old"), digest_of) == {}

    def changed_meanwhile(document):
        if document.id == encode_id(2):
            shop.run("update note set body = 'new' where id = 2")
            return b"old"
        return digest_of(document)

    answers = await source.write_back(wanted(2, "old") | wanted(3, "same"), changed_meanwhile)

    assert answers == {encode_id(3): ""}
    assert shop.run("select id from note where vector is not null") == [(3,)]


async def test_a_row_that_is_gone_is_left_alone(shop):
    source = await shop.watch()
    assert await source.write_back(wanted(1, "one"), digest_of) == {}
    assert shop.run("select * from note") == []


async def test_an_empty_text_has_no_vector(shop):
    """What an older text left in the column goes."""
    source = await shop.watch()
    shop.run("insert into note values (1, '', 0, x'0102')")
    assert await source.write_back(wanted(1, "", None), digest_of) == {encode_id(1): ""}
    assert shop.run("select vector from note") == [(None,)]


async def test_looking_only_names_what_differs_and_writes_nothing(shop):
    source = await shop.watch()
    shop.run("insert into note (id, body, vector) values (1, 'one', 'odd'), (2, 'two', ?)", b"")
    shop.run("update note set vector = cast(x'ff' as text) where id = 2")
    before = shop.run("select id, cast(vector as blob) from note")
    both = wanted(1, "one") | wanted(2, "two")
    assert set(await source.write_back(both, digest_of, dry=True)) == set(both)
    assert shop.run("select id, cast(vector as blob) from note") == before


async def test_a_row_that_refuses_its_vector_says_why_and_stops_no_other(shop):
    """A trigger or a constraint of the user's."""
    source = await shop.watch()
    shop.run("insert into note (id, body) values (1, 'one'), (2, 'two')")
    shop.run(
        "create trigger guard before update of vector on note when new.id = 1"
        " begin select raise(abort, 'row 1 is under review'); end"
    )
    answers = await source.write_back(wanted(1, "one") | wanted(2, "two"), digest_of)
    assert answers == {encode_id(1): "row 1 is under review", encode_id(2): ""}
    assert shop.run("select id from note where vector is not null") == [(2,)]


KEYS = {
    "text": ("create table note (id text primary key, body, vector)", ("'a'", "a")),
    "without rowid": (
        'create table note ("a ""b" text, n int, body, vector, primary key ("a ""b", n)) without rowid',
        ("'x', 1", ("x", 1)),
    ),
    "no case": (
        "create table note (id text primary key collate nocase, body, vector)",
        ("'Aé'", "Aé"),
    ),
    "blob": ("create table note (id blob primary key, body, vector)", ("x'00ff'", b"\0\xff")),
}


@pytest.mark.parametrize(("shop", "key"), KEYS.values(), ids=KEYS, indirect=["shop"])
async def test_every_kind_of_key_finds_its_row(shop, key):
    source = await shop.watch()
    written, plain = key
    shop.run(f"insert into note values ({written}, 'one', null)")
    (listed,) = await source.scan(None, 10)
    assert decode_id(listed) == plain
    assert await source.write_back(wanted(plain, "one"), digest_of) == {listed: ""}
    assert shop.run("select vector from note") == [(VECTOR.tobytes(),)]


@pytest.mark.accepts("000-48")
async def test_the_column_has_to_be_there_before_anything_is_watched(shop):
    """The error has the statement that adds it; nothing of ours is in the file until then."""
    before = shop.run("select * from sqlite_master")
    with pytest.raises(ConfigError, match="no column 'meaning'") as refused:
        await shop.watch(into="meaning")
    assert 'alter table "note" add column "meaning" blob' in (refused.value.hint or "")
    assert shop.run("select * from sqlite_master") == before

    shop.run('alter table "note" add column "meaning" blob')
    source = await shop.watch(into="Meaning")
    shop.run("insert into note (id, body) values (1, 'one')")
    await source.write_back(wanted(1, "one"), digest_of)
    assert shop.run("select meaning from note") == [(VECTOR.tobytes(),)]


@pytest.mark.parametrize(
    ("schema", "spec", "said"),
    [
        (NOTE, {"into": "body"}, "is part of the document"),
        (NOTE, {"into": "id"}, "is part of the document"),
        (NOTE, {"where": "vector is null"}, "is part of the document"),
        ("create table note (id integer primary key, body, vector as (body))", {}, "is computed"),
    ],
)
async def test_a_column_that_cannot_take_vectors_is_refused(tmp_path, schema, spec, said):
    shop = Shop(tmp_path / "shop.db", schema)
    with pytest.raises(ConfigError, match=said):
        await shop.watch(**spec)
    await shop.close()


async def test_a_table_that_changed_on_the_way_is_trouble_and_nothing_is_written(shop):
    """The triggers tell what changed; without them nothing says that a text is still the same."""
    source = await shop.watch()
    shop.run("insert into note (id, body) values (1, 'one')")

    def torn_out(document):
        with closing(sqlite3.connect(shop.path)) as other:
            for (name,) in other.execute("select name from sqlite_master where type = 'trigger'"):
                other.execute(f'drop trigger "{name}"')
        return digest_of(document)

    with pytest.raises(SourceError, match="changed while vectors were on their way"):
        await source.write_back(wanted(1, "one"), torn_out)
    assert shop.run("select vector from note") == [(None,)]

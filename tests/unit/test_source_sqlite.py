"""What is captured from a watched table, whatever is done to it and by whom."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from evervec.errors import ConfigError, SourceError
from evervec.model import Id, decode_id, encode_id
from evervec.sources.sqlite import TableSource, TableSpec
from evervec.testing.notebook import MemoryNotebook

NOTE = "create table note (id integer primary key, title, body, seen integer)"


class Shop:
    """A database file, a program that writes it, and sources that watch it."""

    def __init__(self, folder: Path, journal: str = "wal") -> None:
        self.path = folder / "shop.db"
        self.writer = sqlite3.connect(self.path, isolation_level=None)
        self.writer.execute(f"pragma journal_mode = {journal}")
        self.sources: list[TableSource] = []
        self.notebook = MemoryNotebook()

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.writer.execute(statement)

    async def watch(self, table="note", *, token="t1", notebook=None, ring=1 << 20, **spec):
        spec.setdefault("fields", ("body",))
        source = TableSource(
            TableSpec(self.path, table, **spec),
            token=token,
            notebook=self.notebook if notebook is None else notebook,
            ring=ring,
            busy_seconds=2.0,
        )
        self.sources.append(source)
        await source.open()
        return source

    def schema(self):
        return self.writer.execute("select * from sqlite_master order by name").fetchall()

    async def close(self) -> None:
        self.writer.close()
        for source in self.sources:
            await source.close()


@pytest.fixture
async def shop(tmp_path):
    shop = Shop(tmp_path)
    yield shop
    await shop.close()


async def taken(source):
    """Accept everything that changed and return the plain ids."""
    ids = set()
    while (captured := await source.changes(1000)) is not None:
        assert not captured.gap
        ids |= {decode_id(document) for document in captured.ids}
        await source.accept(captured)
    return ids


async def listed(source, limit=1000):
    ids: list[Id] = []
    while page := await source.scan(ids[-1] if ids else None, limit):
        ids += page
    return [decode_id(document) for document in ids]


async def fields_of(source, *ids):
    reading = await source.read([encode_id(value) for value in ids])
    return {decode_id(name): dict(found.fields) for name, found in reading.documents.items()}


TEXT_KEY = "create table note (slug text primary key, body, code unique, seen)"
WRITES = [
    # name, table, rows, statement, the ids that must come
    ("insert", NOTE, "", "insert into note (body) values ('a'), ('b')", {1, 2}),
    ("update", NOTE, "(1,'t','a',0),(2,'t','b',0)", "update note set body = 'c' where id = 1", {1}),
    ("delete", NOTE, "(1,'t','a',0),(2,'t','b',0)", "delete from note where id = 2", {2}),
    ("delete all", NOTE, "(1,'t','a',0),(2,'t','b',0)", "delete from note", {1, 2}),
    ("unwatched column", NOTE, "(1,'t','a',0)", "update note set seen = 1, title = 'x'", set()),
    ("same value again", NOTE, "(1,'t','a',0)", "update note set body = 'a'", set()),
    ("case only", NOTE, "(1,'t','a',0)", "update note set body = 'A'", {1}),
    (
        "case in a caseless column",
        "create table note (id integer primary key, title, body text collate nocase, seen)",
        "(1,'t','a',0)",
        "update note set body = 'A'",
        {1},
    ),
    ("type only", NOTE, "(1,'t',1,0)", "update note set body = 1.0", {1}),
    ("text for a number", NOTE, "(1,'t',1,0)", "update note set body = '1'", {1}),
    ("blob for text", NOTE, "(1,'t','a',0)", "update note set body = x'61'", {1}),
    ("null", NOTE, "(1,'t','a',0)", "update note set body = null", {1}),
    ("from null", NOTE, "(1,'t',null,0)", "update note set body = ''", {1}),
    ("replace", NOTE, "(1,'t','a',0)", "replace into note values (1, 't', 'b', 0)", {1}),
    (
        "upsert",
        NOTE,
        "(1,'t','a',0)",
        "insert into note values (1,'t','b',0) on conflict (id) do update set body = excluded.body",
        {1},
    ),
    (
        "upsert of an unwatched column",
        NOTE,
        "(1,'t','a',0)",
        "insert into note values (1,'t','b',0) on conflict (id) do update set seen = 5",
        set(),
    ),
    ("key change", NOTE, "(1,'t','a',0)", "update note set id = 9", {1, 9}),
    ("key change as rowid", NOTE, "(1,'t','a',0)", "update note set rowid = 9", {1, 9}),
    ("key change as oid", NOTE, "(1,'t','a',0)", "update note set oid = 9", {1, 9}),
    (
        "update or replace onto another key",
        NOTE,
        "(1,'t','a',0),(2,'t','b',0)",
        "update or replace note set id = 2 where id = 1",
        {1, 2},
    ),
    ("insert or ignore of the new", NOTE, "", "insert or ignore into note (id) values (4)", {4}),
    ("text key", TEXT_KEY, "('1','a',1,0)", "update note set body = 'b'", {"1"}),
    ("case of a text key", TEXT_KEY, "('a','x',1,0)", "update note set slug = 'A'", {"a", "A"}),
    (
        "case of a caseless key",
        TEXT_KEY.replace("text", "text collate nocase"),
        "('a','x',1,0)",
        "update note set slug = 'A'",
        {"a", "A"},
    ),
    (
        "replace that pushes another row out",
        TEXT_KEY,
        "('a','x',1,0),('b','y',2,0)",
        "insert or replace into note values ('c', 'z', 2, 0)",
        {"b", "c"},
    ),
    (
        "update that pushes another row out",
        TEXT_KEY,
        "('a','x',1,0),('b','y',2,0)",
        "update or replace note set code = 2 where slug = 'a'",
        {"b"},
    ),
    (
        "a column that replaces by itself",
        "create table note (slug text primary key, body, code unique on conflict replace, seen)",
        "('a','x',1,0),('b','y',2,0)",
        "insert into note values ('c', 'z', 1, 0)",
        {"a", "c"},
    ),
    (
        "caseless index that pushes another row out",
        TEXT_KEY.replace("code unique", "code text collate nocase unique"),
        "('a','x','K',0)",
        "replace into note values ('c', 'z', 'k', 0)",
        {"a", "c"},
    ),
    (
        "without rowid, composite and typed",
        "create table note (a, b, body, primary key (a, b)) without rowid",
        "(1,'x','p'),('1','x','q')",
        "update note set body = body || '!' where typeof(a) = 'text'",
        {("1", "x")},
    ),
    (
        "composite key change",
        "create table note (a, b, body, primary key (a, b))",
        "(1,2,'p')",
        "update note set b = 3",
        {(1, 2), (1, 3)},
    ),
    (
        "blob key",
        "create table note (id blob primary key, body)",
        "(x'00ff','p')",
        "delete from note",
        {b"\x00\xff"},
    ),
    (
        "row without a key",
        "create table note (id text primary key, body)",
        "('a','p')",
        "insert into note values (null, 'q')",
        set(),
    ),
]


@pytest.mark.accepts("000-01", "000-12", "000-16", "000-17", "R-36")
@pytest.mark.parametrize(
    ("table", "rows", "statement", "expected"),
    [case[1:] for case in WRITES],
    ids=[case[0].replace(" ", "-") for case in WRITES],
)
async def test_a_write_is_captured_exactly(shop, table, rows, statement, expected):
    shop.run(table)
    if rows:
        shop.run(f"insert into note values {rows}")
    source = await shop.watch()
    shop.run(statement)
    assert await taken(source) == expected


async def test_a_generated_column_is_watched_through_what_it_is_made_of(shop):
    shop.run(
        "create table note (id integer primary key, a, b, seen,"
        " body generated always as (a || b) virtual)",
        "insert into note (a, b) values ('x', 'y')",
    )
    source = await shop.watch()
    shop.run("update note set seen = 1")
    assert await taken(source) == set()
    shop.run("update note set b = 'z'")
    assert await taken(source) == {1}
    assert await fields_of(source, 1) == {1: {"body": "xz"}}


@pytest.mark.parametrize("recursive", [0, 1])
async def test_rows_that_a_foreign_key_deletes_or_changes_are_captured(shop, recursive):
    shop.run(
        "pragma foreign_keys = on",
        f"pragma recursive_triggers = {recursive}",
        "create table author (id integer primary key)",
        "create table note (id integer primary key, body,"
        " author references author on delete cascade on update cascade)",
        "insert into author values (1), (2), (3)",
        "insert into note values (10, 'a', 1), (11, 'b', 1), (12, 'c', 2), (13, 'd', 3)",
    )
    source = await shop.watch(metadata=("author",))
    shop.run("delete from author where id = 1")
    assert await taken(source) == {10, 11}
    shop.run("update author set id = 7 where id = 2")
    assert await taken(source) == {12}
    shop.run("replace into author values (3)")
    assert await taken(source) == {13}


@pytest.mark.accepts("000-11")
async def test_a_rolled_back_change_leaves_nothing(shop):
    """The log is written in the writer's own transaction, so it goes with it."""
    shop.run(NOTE)
    source = await shop.watch()
    shop.run("begin", "insert into note (body) values ('a')", "rollback")
    assert await taken(source) == set()
    shop.run(
        "begin", "savepoint s", "insert into note (body) values ('a')", "rollback to s", "commit"
    )
    assert await taken(source) == set()


@pytest.mark.accepts("000-13")
async def test_the_sqlite_shell_is_captured_like_anybody(shop):
    shell = shutil.which("sqlite3")
    if shell is None:
        pytest.skip("no sqlite3 shell here")
    shop.run(NOTE)
    source = await shop.watch()
    script = "insert into note (id, body) values (5, 'a'), (6, 'b'); delete from note where id = 6;"
    await asyncio.to_thread(subprocess.run, [shell, str(shop.path), script], check=True)
    assert await taken(source) == {5, 6}


async def test_a_file_attached_under_another_name_is_captured(shop, tmp_path):
    shop.run(NOTE)
    source = await shop.watch()
    with closing(sqlite3.connect(tmp_path / "other.db", isolation_level=None)) as other:
        other.execute("attach ? as elsewhere", (str(shop.path),))
        other.execute("create table note (id integer primary key, body)")
        other.execute("insert into elsewhere.note (id, body) values (3, 'a')")
    assert await taken(source) == {3}


@pytest.mark.parametrize("name", ['we"ird', "select", "with space", "été", "a.b", "[x]", "it's"])
async def test_odd_names_are_only_names(shop, name):
    quoted = '"' + name.replace('"', '""') + '"'
    shop.run(f'create table {quoted} ({quoted} text primary key, "the body" unique)')
    source = await shop.watch(table=name, fields=(name, "the body"))
    shop.run(f"insert into {quoted} values ('k', 'v')")
    assert await taken(source) == {"k"}
    assert await fields_of(source, "k") == {"k": {name: "k", "the body": "v"}}
    assert await listed(source) == ["k"]
    await source.remove()
    assert not [row for row in shop.schema() if "evervec" in row[1]]


@pytest.mark.accepts("000-15")
async def test_two_states_watch_one_table_without_knowing_of_each_other(shop):
    """Each has its own log; removing one leaves the other at work."""
    shop.run(NOTE)
    first = await shop.watch()
    second = await shop.watch(token="t2", notebook=MemoryNotebook())
    shop.run("insert into note (body) values ('a')")
    assert await taken(first) == await taken(second) == {1}
    await first.remove()
    shop.run("insert into note (body) values ('b')")
    assert await taken(second) == {2}


async def test_a_row_filter_counts_the_columns_that_it_uses(shop):
    shop.run(NOTE, "insert into note values (1, 'draft', 'a', 0), (2, 'live', 'b', 0)")
    source = await shop.watch(where="title = 'live' -- only these")
    assert await listed(source) == [2]
    shop.run("update note set title = 'live' where id = 1")
    assert await taken(source) == {1}
    assert await fields_of(source, 1, 2) == {1: {"body": "a"}, 2: {"body": "b"}}
    shop.run("update note set title = 'draft' where id = 2")
    assert await taken(source) == {2}
    assert await fields_of(source, 1, 2) == {1: {"body": "a"}}
    shop.run("update note set seen = 7")
    assert await taken(source) == set()


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_values_come_as_they_are(tmp_path, journal):
    shop = Shop(tmp_path, journal)
    shop.run(NOTE)
    values = {1: 7, 2: 2.5, 3: "x\0y", 4: None, 5: b"\0\xff", 6: "long " * 400_000, 7: 2**63 - 1}
    shop.writer.executemany("insert into note (id, body) values (?, ?)", values.items())
    source = await shop.watch(metadata=("seen",))
    assert await fields_of(source, *values) == {n: {"body": v} for n, v in values.items()}
    await shop.close()


async def test_text_that_is_not_utf8_is_read_with_a_replacement(shop):
    shop.run(NOTE)
    source = await shop.watch()
    shop.run("insert into note (id, body) values (1, cast(x'61ff62' as text)), (2, 'fine')")
    assert await taken(source) == {1, 2}
    assert await fields_of(source, 1, 2) == {1: {"body": "a�b"}, 2: {"body": "fine"}}


async def test_a_key_that_is_not_utf8_is_passed_over(shop):
    """It names no document; its neighbours are found all the same."""
    shop.run(TEXT_KEY, "insert into note values ('a', 'x', 1, 0), ('zz', 'y', 2, 0)")
    source = await shop.watch()
    shop.run(
        *(f"insert into note values (cast(x'61f{n:x}' as text), '', 1{n}, 0)" for n in range(9))
    )
    assert await taken(source) == set()
    assert await listed(source, limit=2) == ["a", "zz"]


@pytest.mark.accepts("R-36")
async def test_a_key_is_matched_by_type_and_letter(shop):
    shop.run(
        "create table note (id text collate nocase primary key, body)",
        "insert into note values ('a', 'x'), ('1', 'y')",
    )
    source = await shop.watch()
    assert await fields_of(source, "a", "A", "1", 1, 1.0, b"1", ("a",), True) == {
        "a": {"body": "x"},
        "1": {"body": "y"},
    }
    assert await fields_of(source, 2**70, "a:b", ("a", "b")) == {}


KEYS = [
    ("id integer primary key", "id", [(-5,), (0,), (3,), (10,), (2**62,)]),
    ("id primary key", "id", [(1,), (2.5,), ("1",), ("a:b",), (b"1",)]),
    ("id text collate nocase primary key", "id", [("a",), ("B",), ("c",), ("D",)]),
    (
        "a, b, primary key (a, b)",
        "a, b",
        [(a, b) for a in (1, "1", b"1") for b in (1, "x", "y")],
    ),
    (
        "a, b, primary key (a, b desc)",
        "a, b desc",
        [(a, b) for a in (1, 2) for b in (3, 2, 1)],
    ),
    (
        "a text collate nocase, b int, c, primary key (a, b, c)",
        "a, b, c",
        [(a, b, c) for a in ("x", "Y") for b in (1, 2) for c in ("p", "q")],
    ),
]


@pytest.mark.accepts("000-63")
@pytest.mark.parametrize("rowid", ["", "without rowid"])
@pytest.mark.parametrize(("columns", "order", "keys"), KEYS, ids=[key[0] for key in KEYS])
@pytest.mark.parametrize("limit", [1, 2, 1000])
async def test_a_scan_follows_the_index(shop, columns, order, keys, rowid, limit):
    constraint = columns.rpartition(", primary key")
    names, rest = (constraint[0], constraint[1] + constraint[2]) if constraint[1] else (columns, "")
    shop.run(f"create table note ({names}, body{rest}) {rowid}")
    marks = ", ".join("?" * (len(keys[0]) + 1))
    shop.writer.executemany(f"insert into note values ({marks})", [(*key, "") for key in keys])
    source = await shop.watch()
    expected = [key if len(key) > 1 else key[0] for key in keys]
    found = await listed(source, limit)
    assert [(type(key), key) for key in found] == [(type(key), key) for key in expected]


@pytest.mark.accepts("001-50")
async def test_a_page_of_a_scan_never_sorts(shop):
    """Each page is a range of the key's index, whatever its collation and direction."""
    shop.run("create table note (a text collate nocase, b, body, primary key (a, b desc))")
    source = await shop.watch()
    for statement in source._rows._pages:
        depth = statement.count("?")
        plan = shop.writer.execute(f"explain query plan {statement}", (1,) * depth).fetchall()
        assert all("TEMP B-TREE" not in step[3] for step in plan)
        assert all("INDEX" in step[3] for step in plan)


async def test_a_key_of_ones_own_needs_a_unique_index(shop):
    shop.run("create table note (id integer primary key, slug, body)")
    with pytest.raises(ConfigError, match="unique index"):
        await shop.watch(key=("slug",))
    shop.run("create unique index by_slug on note (slug)")
    source = await shop.watch(key=("slug",))
    shop.run("insert into note values (1, 'a', 'x')")
    assert await taken(source) == {"a"}
    # The row is pushed out through the primary key, which is the other unique one here.
    shop.run("replace into note values (1, 'b', 'y')")
    assert await taken(source) == {"a", "b"}
    assert await fields_of(source, "a", "b") == {"b": {"body": "y"}}


async def test_what_replace_does_on_a_partial_index_is_admitted(shop):
    shop.run(NOTE, "create unique index live on note (title) where seen = 1")
    source = await shop.watch()
    assert "'live'" in source.describe()
    assert "verify" in source.describe()


WRONG = [
    ("create view note as select 1 as id, 2 as body", {}, "view"),
    ("create virtual table note using fts5(body)", {}, "virtual"),
    ("create table notes (id integer primary key, body)", {}, "did you mean 'notes'"),
    ("create table note (body)", {}, "--key"),
    (NOTE, {"fields": ("bdy",)}, "did you mean 'body'"),
    (NOTE, {"metadata": ("sen",)}, "did you mean 'seen'"),
    (NOTE, {"key": ("idd",)}, "did you mean 'id'"),
    (NOTE, {"where": "title ="}, "not understood"),
    (NOTE, {"where": "titel = 'x'"}, "no such column: titel"),
    (NOTE, {"where": '"titel" = 1'}, "single quotes"),
    (NOTE, {"where": "1); drop table note; --"}, "not understood"),
    (NOTE, {"where": "id in (select id from note)"}, "beyond the row"),
    (NOTE, {"where": "id in (select rowid from sqlite_master)"}, "beyond the row"),
    (NOTE, {"where": "random() > 0"}, "beyond the row"),
    (NOTE, {"where": "title < datetime('now')"}, "beyond the row"),
]


@pytest.mark.parametrize(("table", "spec", "words"), WRONG, ids=range(len(WRONG)))
async def test_what_cannot_be_watched_is_said_at_once(shop, table, spec, words):
    shop.run(table)
    before = shop.schema()
    with pytest.raises(ConfigError) as caught:
        await shop.watch(**spec)
    assert words in str(caught.value)
    assert caught.value.hint
    assert shop.schema() == before


@pytest.mark.accepts("000-68")
async def test_a_list_of_tables_names_the_users_own_and_none_of_ours(shop):
    shop.run(NOTE, "create table plain (id integer primary key autoincrement, body)")
    await shop.watch()
    assert len([row for row in shop.schema() if row[1].startswith("evervec_")]) > 1
    with pytest.raises(ConfigError) as caught:
        await shop.watch("xyzzy")
    assert caught.value.hint == "there are 'note', 'plain'"


async def test_a_file_that_is_no_database_is_refused(tmp_path):
    for name, content in (("none.db", None), ("text.db", b"hello there " * 500), ("folder", "")):
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif content == "":
            path.mkdir()
        spec = TableSpec(path, "note", fields=("body",))
        source = TableSource(spec, token="t1", notebook=MemoryNotebook())
        with pytest.raises(ConfigError) as caught:
            await source.open()
        assert str(path) in str(caught.value)
        assert caught.value.hint
        await source.close()
    assert not (tmp_path / "none.db").exists()


async def test_a_locked_file_is_named_and_nothing_is_left_behind(tmp_path):
    shop = Shop(tmp_path, "delete")
    shop.run(NOTE, "begin exclusive")
    spec = TableSpec(shop.path, "note", fields=("body",))
    source = TableSource(spec, token="t1", notebook=MemoryNotebook(), busy_seconds=0.05)
    with pytest.raises(SourceError, match="locked"):
        await source.open()
    shop.run("rollback")
    await source.open()
    shop.run("insert into note (body) values ('a')")
    assert await taken(source) == {1}
    await source.close()
    await shop.close()


@pytest.mark.accepts("000-17")
async def test_unwatching_leaves_the_file_as_it_was(shop):
    shop.run(TEXT_KEY, "create table auto (id integer primary key autoincrement)")
    shop.run("insert into auto default values")
    before = shop.schema(), shop.writer.execute("select * from sqlite_sequence").fetchall()
    source = await shop.watch()
    shop.run("insert into note values ('a', 'x', 1, 0)", "analyze")
    await source.remove()
    kept = [row for row in shop.schema() if not row[1].startswith("sqlite_stat")]
    assert (kept, shop.writer.execute("select * from sqlite_sequence").fetchall()) == before
    with pytest.raises(SourceError, match="not watched"):
        await source.changes(10)


async def test_the_log_stays_bounded_when_nobody_consumes_it(shop):
    shop.run(NOTE, "insert into note (id, body) values (1, 0)")
    source = await shop.watch(ring=256)
    rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000)"
    shop.run(f"{rows} insert into note (body) select i from n")
    (kept,) = shop.writer.execute("select count(*) from evervec_t1_log").fetchone()
    assert 256 <= kept <= 256 + 64
    captured = await source.changes(10)
    assert captured is not None
    assert captured.gap


@pytest.mark.accepts("000-06")
async def test_a_thousand_edits_of_one_row_are_one_id_and_no_other_row_is_looked_at(shop):
    shop.run(NOTE, "insert into note (id, body) values (1, 0), (2, 0)")
    source = await shop.watch()
    shop.run("begin", *(f"update note set body = {n + 1} where id = 1" for n in range(1000)))
    shop.run("commit")
    captured = await source.changes(1000)
    assert captured is not None
    assert [decode_id(document) for document in captured.ids] == [1]


async def test_edits_between_the_first_open_and_a_crash_are_not_lost(shop):
    """The first cursor is durable as soon as `open` returns, not only when something was accepted."""
    shop.run(NOTE)
    source = await shop.watch()
    await source.close()
    shop.run("insert into note (body) values ('a')")
    assert await taken(await shop.watch()) == {1}


async def gap_of(source):
    captured = await source.changes(10)
    assert captured is not None
    assert captured.gap
    return captured


async def test_vacuum_loses_nothing(shop):
    shop.run(NOTE, "insert into note (body) values ('a'), ('b')", "delete from note where id = 1")
    source = await shop.watch()
    shop.run("update note set body = 'c'", "vacuum", "insert into note (id, body) values (7, 'd')")
    assert await taken(source) == {2, 7}


@pytest.mark.parametrize("running", [True, False])
async def test_a_restored_older_copy_is_a_gap_and_versions_go_on_growing(shop, tmp_path, running):
    """Also when it was written to so much that its log's numbers are past ours again."""
    shop.run(NOTE)
    source = await shop.watch()
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(copy)) as target:
        shop.writer.backup(target)
    shop.run("insert into note (body) values ('a'), ('b')")
    assert await taken(source) == {1, 2}
    version = (await source.read([encode_id(1)])).version
    if not running:
        await source.close()
    with closing(sqlite3.connect(copy)) as older:
        older.backup(shop.writer)
    shop.run("insert into note (id, body) values (1, 'x'), (3, 'y'), (4, 'z')")
    if not running:
        source = await shop.watch()
    captured = await gap_of(source)
    assert (await source.read([encode_id(1)])).version > version
    await source.accept(captured)
    assert await taken(source) == set()


@pytest.mark.parametrize("watched", [True, False])
async def test_a_replaced_file_is_a_gap_and_is_watched_from_then_on(shop, tmp_path, watched):
    shop.run(NOTE, "insert into note (body) values ('a')")
    source = await shop.watch()
    before = (await source.read([encode_id(1)])).version
    new = tmp_path / "new.db"
    with closing(sqlite3.connect(new, isolation_level=None)) as made:
        if watched:
            shop.writer.backup(made)
        else:
            made.execute(NOTE)
    shop.writer.close()
    for end in ("-wal", "-shm"):
        Path(f"{shop.path}{end}").unlink(missing_ok=True)
    new.rename(shop.path)
    await source.accept(await gap_of(source))
    assert (await source.read([encode_id(1)])).version > before
    shop.writer = sqlite3.connect(shop.path, isolation_level=None)
    shop.run("insert into note (id, body) values (9, 'b')")
    assert await taken(source) == {9}


async def test_a_table_that_was_made_anew_is_watched_anew(shop):
    """As migrations do it: a new table is filled, the old one dropped, the new one renamed."""
    shop.run(NOTE, "insert into note (body) values ('a')")
    source = await shop.watch()
    shop.run(
        "begin",
        "create table fresh (id integer primary key, body, more)",
        "insert into fresh select id, body, 1 from note",
        "drop table note",
        "alter table fresh rename to note",
        "commit",
        "update note set body = 'b'",
    )
    await source.accept(await gap_of(source))
    shop.run("update note set body = 'c'")
    assert await taken(source) == {1}


async def test_a_column_that_is_added_does_not_matter(shop):
    shop.run(NOTE)
    source = await shop.watch()
    shop.run("alter table note add column more", "insert into note (body, more) values ('a', 1)")
    assert await taken(source) == {1}


async def test_watching_other_columns_replaces_the_triggers_and_asks_for_a_scan(shop):
    shop.run(NOTE, "insert into note (body) values ('a')")
    source = await shop.watch()
    await source.close()
    source = await shop.watch(fields=("body", "title"))
    await source.accept(await gap_of(source))
    shop.run("update note set title = 'x'")
    assert await taken(source) == {1}


@pytest.mark.parametrize("loss", ["drop table note", "alter table note rename to other"])
async def test_a_table_that_vanished_is_named_and_comes_back(shop, loss):
    shop.run(NOTE)
    source = await shop.watch()
    shop.run(loss)
    begun, rounds = time.monotonic(), 0
    while time.monotonic() - begun < 0.3:
        with pytest.raises(SourceError, match="unwatch"):
            await source.changes(10)
        await source.wait(0.1)
        rounds += 1
    assert rounds < 12  # it waits; it does not spin
    shop.run(NOTE)
    await source.accept(await gap_of(source))
    shop.run("insert into note (body) values ('a')")
    assert await taken(source) == {1}


async def test_a_file_that_vanished_is_named(shop):
    shop.run(NOTE)
    source = await shop.watch()
    shop.path.rename(shop.path.with_suffix(".away"))
    with pytest.raises(SourceError, match="is gone"):
        await source.changes(10)
    shop.path.with_suffix(".away").rename(shop.path)
    shop.run("insert into note (body) values ('a')")
    assert await taken(source) == {1}


@pytest.mark.accepts("000-64")
async def test_removed_triggers_are_put_back_and_asked_about(shop):
    shop.run(NOTE)
    source = await shop.watch()
    shop.run("drop trigger evervec_t1_insert", "insert into note (body) values ('a')")
    await source.accept(await gap_of(source))
    shop.run("insert into note (body) values ('b')")
    assert await taken(source) == {2}


@pytest.fixture
def readonly_folder():
    """Where nobody, the superuser included, may write once `close_off` was called."""
    folder = Path(tempfile.mkdtemp(prefix="evervec-test-"))
    user = os.geteuid()

    def close_off() -> None:
        for path in (*folder.iterdir(), folder):
            path.chmod(0o555 if path.is_dir() else 0o444)
        if user == 0:
            os.seteuid(65534)

    yield folder, close_off
    if user == 0:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_a_file_that_cannot_be_written_is_scanned_and_says_so(readonly_folder, journal):
    folder, close_off = readonly_folder
    shop = Shop(folder, journal)
    shop.run(NOTE, "insert into note (body) values ('a')")
    shop.writer.close()
    os.utime(shop.path, (1, 1))
    close_off()
    source = await shop.watch()
    assert "scanned" in source.describe()
    assert await source.changes(10) is None
    assert await listed(source) == [1]
    assert await fields_of(source, 1) == {1: {"body": "a"}}
    os.seteuid(0) if os.getuid() == 0 else None
    folder.chmod(0o755)
    shop.path.chmod(0o644)
    shop.writer = sqlite3.connect(shop.path, isolation_level=None)
    shop.run("update note set body = 'b'")
    captured = await gap_of(source)
    assert await fields_of(source, 1) == {1: {"body": "b"}}
    # By now it can be written, so it is watched properly from here on.
    assert "every change" in source.describe()
    await source.accept(captured)
    shop.run("update note set body = 'c'")
    assert await taken(source) == {1}
    await shop.close()


async def test_a_file_watched_before_needs_no_right_to_write(readonly_folder):
    folder, close_off = readonly_folder
    shop = Shop(folder, "delete")
    shop.run(NOTE)
    source = await shop.watch()
    await source.close()
    shop.run("insert into note (body) values ('a')")
    shop.writer.close()
    close_off()
    source = await shop.watch()
    assert await taken(source) == {1}
    await shop.close()


WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
refused = 0
for turn in range(int(sys.argv[2])):
    try:
        connection.execute("insert into note (body) values (?)", (turn,))
    except sqlite3.OperationalError:
        refused += 1
print(refused)
"""


@pytest.mark.accepts("000-13", "001-21")
async def test_a_writer_without_patience_is_never_refused(shop):
    """In WAL mode no reader stands in a writer's way, and we do not write."""
    shop.run(NOTE)
    source = await shop.watch()
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(shop.path), "300", stdout=asyncio.subprocess.PIPE
    )
    seen: set[object] = set()
    ended = asyncio.ensure_future(writer.communicate())
    while not ended.done():
        seen |= await taken(source)
        await listed(source, 100)
        await fields_of(source, *range(50))
    assert (await ended)[0].split() == [b"0"]
    seen |= await taken(source)
    assert seen == set(range(1, 301))


async def test_with_a_rollback_journal_an_idle_watch_refuses_nobody(tmp_path):
    """There any reader can refuse a commit, so we read only after one, and briefly."""
    shop = Shop(tmp_path, "delete")
    shop.run(NOTE)
    source = await shop.watch()
    await taken(source)
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(shop.path), "50", stdout=asyncio.subprocess.PIPE
    )
    assert (await writer.communicate())[0].split() == [b"0"]
    assert await taken(source) == set(range(1, 51))
    await shop.close()

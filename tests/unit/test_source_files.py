"""A folder as a source: what is seen, what is read, and what is never taken for deleted."""

import errno
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from evervec.errors import ConfigError, Permanent, SourceError, Transient
from evervec.model import Captured, Id, Lane, decode_id, encode_id
from evervec.parsing import Limits, ParserProcess
from evervec.sources.files import FolderSource, watcher
from evervec.sources.files.ignore import Rules, parse_rules
from evervec.sources.files.tree import signature_of
from evervec.testing.notebook import MemoryNotebook


@pytest.fixture
def notes() -> MemoryNotebook:
    return MemoryNotebook()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@asynccontextmanager
async def opened(root: Path, notes: MemoryNotebook, **settings: Any) -> AsyncIterator[FolderSource]:
    source = FolderSource(root, notebook=notes, **settings)
    try:
        await source.open()
        yield source
    finally:
        await source.close()


def write(path: Path, text: str = "text", *, aged: bool = True) -> Path:
    """Write a file, by default one that was not written just now (as far as signatures tell)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if aged:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def paths(ids: Any) -> list[str]:
    return [str(decode_id(document)) for document in ids]


async def drain(source: FolderSource, limit: int = 1000) -> list[str]:
    """Accept everything that changes has now."""
    seen: list[str] = []
    while captured := await source.changes(limit):
        seen += paths(captured.ids)
        await source.accept(captured)
    return seen


async def settle(source: FolderSource) -> None:
    """Accept everything, the walk that follows the watch's start included."""
    await watched(source)
    await drain(source)


async def watched(source: FolderSource) -> None:
    async def ready() -> bool:
        return source.watching

    await until(ready, source)


async def until(
    work: Callable[[], Awaitable[Any]], source: FolderSource, seconds: float = 10
) -> Any:
    deadline = time.monotonic() + seconds
    while not (answer := await work()):
        assert time.monotonic() < deadline, "it did not happen"
        await source.wait(0.5)
    return answer


async def next_change(source: FolderSource) -> Captured:
    captured: Captured = await until(lambda: source.changes(100), source)
    return captured


async def all_ids(source: FolderSource, limit: int) -> list[Id]:
    found: list[Id] = []
    while page := await source.scan(found[-1] if found else None, limit):
        assert len(page) <= limit
        found += page
    return found


IGNORED = [
    # rules, path, is a folder, is ignored
    ("*.log", "a.log", False, True),
    ("*.log", "deep/er/a.log", False, True),
    ("*.log", "a.login", False, False),
    ("/a.md", "a.md", False, True),
    ("/a.md", "x/a.md", False, False),
    ("build/", "build", True, True),
    ("build/", "build", False, False),
    ("build/", "x/build", True, True),
    ("doc/frotz", "doc/frotz", False, True),
    ("doc/frotz", "a/doc/frotz", False, False),
    ("doc/frotz/", "a/doc/frotz", True, False),
    ("**/foo", "foo", False, True),
    ("**/foo", "a/b/foo", False, True),
    ("abc/**", "abc/x/y", False, True),
    ("abc/**", "abc", True, False),
    ("a/**/b", "a/b", False, True),
    ("a/**/b", "a/x/y/b", False, True),
    ("a/**/b", "a/xb", False, False),
    ("a**b", "a/b", False, False),
    ("/****/b", "a/x/b", False, True),
    ("a**b", "axxb", False, True),
    ("foo/*", "foo/x", False, True),
    ("foo/*", "foo/x/y", False, False),
    ("?.md", "a.md", False, True),
    ("?.md", "ab.md", False, False),
    ("a?b", "a/b", False, False),
    ("[a-c].md", "b.md", False, True),
    ("[!a-c].md", "b.md", False, False),
    ("[^a-c].md", "d.md", False, True),
    ("x[!a]y", "x/y", False, False),
    ("[]]", "]", False, True),
    ("[a", "[a", False, False),
    ("[\\]]", "]", False, True),
    ("[a\\-c]", "b", False, False),
    ("[a\\-c]", "-", False, True),
    ("[a-]", "-", False, True),
    ("[z-a]", "z", False, True),
    ("[[:digit:]_]x", "7x", False, True),
    ("[![:alpha:]]x", "ax", False, False),
    ("[[:unknown:]]x", "ux", False, False),
    ("a\x0cb", "a\x0cb", False, True),
    ("*.md\n!keep.md", "keep.md", False, False),
    ("*.md\n!keep.md", "drop.md", False, True),
    ("!keep.md\n*.md", "keep.md", False, True),
    ("# a.md", "# a.md", False, False),
    ("\\#a.md", "#a.md", False, True),
    ("\\!a.md", "!a.md", False, True),
    ("a.md   ", "a.md", False, True),
    ("a\\ ", "a ", False, True),
    ("a.md\r\nb.md\r\n", "a.md", False, True),
    ("\ufeffa.md", "a.md", False, True),
    ("", "a.md", False, False),
    ("/", "a.md", False, False),
    ("*", "a", True, True),
    ("*\n!*/\n!*.md", "x.md", False, False),
    ("*\n!*/\n!*.md", ".venv", True, True),
    ("!.hidden", ".hidden", True, True),
    ("", ".hidden.md", False, True),
    ("", "node_modules", True, True),
    ("", "web/pnpm-lock.yaml", False, True),
    ("", "mkdocs.yml", False, False),
    ("", "pyproject.toml", False, False),
    ("", "evervec.db-wal", False, True),
    ("a.+b", "a.+b", False, True),
    ("a.+b", "axxb", False, False),
]


@pytest.mark.parametrize(("rules", "path", "folder", "ignored"), IGNORED)
def test_an_ignore_rule_means_what_it_means_to_git(
    rules: str,
    path: str,
    *,
    folder: bool,
    ignored: bool,
) -> None:
    assert Rules(parse_rules(rules)).excludes(path, folder=folder) is ignored


def test_the_rules_of_an_inner_folder_go_first_and_hold_below_it_only() -> None:
    rules = Rules(parse_rules("*.md")).inside(parse_rules("!a.md\n/b.txt", folder="in"))

    assert not rules.excludes("in/a.md", folder=False)
    assert not rules.excludes("in/deep/a.md", folder=False)
    assert rules.excludes("a.md", folder=False)
    assert rules.excludes("in/b.txt", folder=False)
    assert not rules.excludes("b.txt", folder=False)


def test_our_own_ignore_file_brings_hidden_names_back_but_never_git_or_the_state() -> None:
    rules = Rules(parse_rules("!.github\n!.git\n!evervec.db", ours=True))

    assert not rules.excludes(".github", folder=True)
    assert rules.excludes(".git", folder=True)
    assert rules.excludes("evervec.db", folder=False)


async def test_the_first_walk_is_backfill_and_what_comes_later_is_live(root, notes):
    for name in ("b.md", "a.md", "z/c.txt", "skip.png"):
        write(root / name)
    async with opened(root, notes) as source:
        first = await source.changes(2)
        again = await source.changes(2)

        assert first is not None
        assert again is not None
        assert first.ids == again.ids
        assert paths(first.ids) == ["a.md", "b.md"]
        assert first.lane is Lane.BACKFILL
        await source.accept(first)
        assert await drain(source) == ["z/c.txt"]
        await settle(source)

        write(root / "new.md")
        captured = await next_change(source)
        assert paths(captured.ids) == ["new.md"]
        assert captured.lane is Lane.LIVE


async def test_an_edit_goes_ahead_of_the_rest_of_the_backfill(root, notes):
    for n in range(20):
        write(root / f"{n:02}.md")
    async with opened(root, notes) as source:
        captured = await source.changes(5)
        assert captured is not None
        await source.accept(captured)
        await watched(source)

        write(root / "00.md", "other")

        async def live() -> Captured | None:
            found = await source.changes(5)
            return found if found and found.lane is Lane.LIVE else None

        assert paths((await until(live, source)).ids) == ["00.md"]


async def test_edits_moves_and_deletions_while_nobody_looked_are_found_at_the_start(root, notes):
    for name in ("same.md", "edit.md", "old.md", "gone.md", "dir/in.md"):
        write(root / name)
    async with opened(root, notes) as source:
        await drain(source)
    write(root / "edit.md", "new text")
    (root / "old.md").rename(root / "moved.md")
    (root / "gone.md").unlink()
    shutil.rmtree(root / "dir")

    async with opened(root, notes) as source:
        assert sorted(await drain(source)) == [
            "dir/in.md",
            "edit.md",
            "gone.md",
            "moved.md",
            "old.md",
        ]
        reading = await source.read([encode_id("old.md"), encode_id("moved.md")])
    assert paths(reading.documents) == ["moved.md"]
    assert reading.broken == {}


async def test_an_edit_that_keeps_size_and_modification_time_is_seen(root, notes):
    write(root / "a.md", "one")
    async with opened(root, notes) as source:
        await settle(source)
        write(root / "a.md", "two")

        assert paths((await next_change(source)).ids) == ["a.md"]


async def test_a_new_file_deleted_before_it_was_accepted_is_reported_after_a_crash(root, notes):
    """It may have been published in between, so its deletion must arrive."""
    path = write(root / "a.md")
    async with opened(root, notes) as source:
        assert await source.changes(10) is not None
    path.unlink()

    async with opened(root, notes) as source:
        captured = await source.changes(10)
        assert captured is not None
        assert paths(captured.ids) == ["a.md"]
        await source.accept(captured)
        assert await source.changes(10) is None
    assert not [note for note in notes.notes if note.startswith("file:")]


async def test_a_change_between_changes_and_accept_comes_again(root, notes):
    write(root / "a.md", "one")
    async with opened(root, notes) as source:
        captured = await source.changes(10)
        assert captured is not None
        write(root / "a.md", "two!")
        await source.accept(captured)

        assert paths((await next_change(source)).ids) == ["a.md"]


async def test_a_file_written_as_it_was_looked_at_is_looked_at_once_more(root, notes):
    """Two writes within one tick of the clock leave the same signature."""
    async with opened(root, notes) as source:
        await settle(source)
        write(root / "a.md", aged=False)
        seen = await next_change(source)
        await source.accept(seen)
        signature = notes.notes["file:a.md"]

        again = await next_change(source)
        await source.accept(again)

        assert paths(again.ids) == ["a.md"]
        assert signature[0] == 1
        assert notes.notes["file:a.md"] == b"\0" + signature[1:]
        assert source._known is not None
        assert not source._known.fresh


async def test_a_file_that_is_only_looked_at_once_more_is_not_told_as_a_change(root, notes):
    """Its status was "1 change waits" after a `sync` that ended at once."""
    write(root / "a.md")
    async with opened(root, notes) as source:
        await settle(source)
    notes.notes["file:a.md"] = b"\1" + notes.notes["file:a.md"][1:]

    async def unseen() -> list[str]:
        source = FolderSource(root, notebook=notes)
        try:
            return paths(await source.unseen(10))
        finally:
            await source.close()

    assert await unseen() == []
    write(root / "a.md", "another text")
    assert await unseen() == ["a.md"]


def test_a_signature_is_fresh_only_while_another_write_could_leave_the_same(root):
    status = write(root / "a.md", aged=False).stat()
    at = max(status.st_mtime_ns, status.st_ctime_ns)

    assert signature_of(status, at + 1_000_000)[0] == 1
    assert signature_of(status, at + 3_000_000_000)[0] == 0
    os.utime(root / "a.md", ns=(at - 10**10, at - 10**10))
    assert signature_of((root / "a.md").stat(), at + 1_000_000)[0] == 0


async def test_changes_below_a_new_and_a_vanished_folder_are_seen_live(root, notes, tmp_path):
    write(tmp_path / "outside/deep/a.md")
    write(tmp_path / "outside/b.md")
    async with opened(root, notes) as source:
        await settle(source)
        (tmp_path / "outside").rename(root / "in")
        seen: set[str] = set()

        async def both() -> bool:
            seen.update(await drain(source))
            return seen == {"in/b.md", "in/deep/a.md"}

        assert await until(both, source)
        seen.clear()
        (root / "in").rename(tmp_path / "outside")
        assert await until(both, source)
    assert not [note for note in notes.notes if note.startswith("file:")]


async def test_a_rule_that_is_added_takes_documents_out_and_one_removed_brings_them_back(
    root, notes
):
    write(root / "a.md")
    write(root / "draft/b.md")
    write(root / "draft/sub/c.md")
    async with opened(root, notes) as source:
        await settle(source)

        (root / ".gitignore").write_text("draft/\n")
        captured = await next_change(source)
        assert sorted(paths(captured.ids)) == ["draft/b.md", "draft/sub/c.md"]
        await source.accept(captured)
        assert (await source.read(captured.ids)).documents == {}
        assert paths(await all_ids(source, 10)) == ["a.md"]

        (root / ".gitignore").unlink()
        captured = await next_change(source)
        assert sorted(paths(captured.ids)) == ["draft/b.md", "draft/sub/c.md"]
        assert len((await source.read(captured.ids)).documents) == 2


async def test_rules_of_the_repository_above_hold_unless_they_exclude_the_root_itself(root, notes):
    (root.parent / ".git").mkdir()
    write(root.parent / ".gitignore", "/notes/_build/\n*.tmp.md\nkept.md")
    write(root / "_build/a.md")
    write(root / "deep/b.tmp.md")
    write(root / "c.md")
    async with opened(root, notes) as source:
        assert await drain(source) == ["c.md"]
        (root.parent / ".gitignore").write_text("*\n")
        await source.remove()
        assert sorted(await drain(source)) == ["_build/a.md", "c.md", "deep/b.tmp.md"]


async def test_hidden_files_tool_folders_and_the_state_are_no_documents(root, notes):
    for name in (
        ".git/a.md",
        ".venv/lib/a.md",
        "node_modules/x/readme.md",
        "__pycache__/a.txt",
        ".hidden.md",
        "evervec.db",
        "evervec.db-wal",
        "evervec.db.txt",
    ):
        write(root / name)
    write(root / "a.md")
    async with opened(root, notes, patterns=["*"]) as source:
        assert await drain(source) == ["a.md"]
        reading = await source.read([encode_id(".hidden.md"), encode_id(".git/a.md")])
        assert reading.documents == {}


async def test_settings_choose_the_files_over_any_ignore_file(root, notes):
    for name in ("a.md", "b.rst", "x/c.md", "x/.well/d.md", "README.MD"):
        write(root / name)
    (root / ".gitignore").write_text("a.md\n")
    async with opened(root, notes, patterns=["*.md"], ignore=["!a.md", "!.well", "c.md"]) as source:
        assert sorted(await drain(source)) == ["README.MD", "a.md", "x/.well/d.md"]


async def test_scan_lists_every_file_once_in_one_order_whatever_the_page(root, notes):
    names = [f"{folder}/{n}.md" for folder in ("a", "a/b", "a.b", "z") for n in range(7)]
    for name in [*names, "top.md"]:
        write(root / name)
    async with opened(root, notes) as source:
        whole = await all_ids(source, 1000)
        assert sorted(paths(whole)) == sorted([*names, "top.md"])
        assert await all_ids(source, 1) == whole
        assert await all_ids(source, 5) == whole
        # Another reader begins in the middle, behind an id that is not there any more.
        middle = paths(whole)[10]
        (root / middle).unlink()
        assert list(await source.scan(encode_id(middle), 1000)) == whole[11:]


@pytest.mark.accepts("R-36")
async def test_names_with_colons_or_invalid_text_are_documents_of_their_own(root, notes):
    write(root / os.fsdecode(b"caf\xe9.md"), "latin")
    for name in ("a:b.md", "1.md", "é.md", "new\nline.md", 'quo"te.md'):
        write(root / name, name)
    async with opened(root, notes) as source:
        ids = await all_ids(source, 2)
        for document in ids:
            document.encode()
        reading = await source.read(ids)
        await drain(source)
    assert len(reading.documents) == len(set(ids)) == 6
    odd = reading.documents[encode_id(b"caf\xe9.md")]
    assert odd.fields["text"].strip() == "latin"
    json.dumps(dict(odd.fields)).encode()
    assert reading.documents[encode_id("a:b.md")].fields["text"].strip() == "a:b.md"

    async with opened(root, notes) as source:
        assert await drain(source) == []


async def test_a_document_has_fields_to_render_and_metadata_to_filter_on(root, notes):
    path = write(root / "guide/Install.md", "# Install\n\nRun it.\n")
    async with opened(root, notes) as source:
        reading = await source.read([encode_id("guide/Install.md"), encode_id("guide/none.md")])
    (document,) = reading.documents.values()
    assert reading.version == 0
    assert "Run it." in document.fields["text"]
    assert document.fields["path"] == "guide/Install.md"
    assert document.fields["name"] == "Install.md"
    assert document.fields["title"] == "Install"
    assert document.fields["kind"] == "markdown"
    assert document.metadata["path"] == "guide/Install.md"
    assert document.metadata["folder"] == "guide"
    assert document.metadata["suffix"] == ".md"
    assert document.metadata["modified"] == path.stat().st_mtime_ns // 1_000_000


async def test_what_cannot_be_read_is_broken_with_its_own_reason_and_its_mates_are_read(
    root, notes
):
    write(root / "good.md")
    write(root / "large.md", "x" * 2000)
    (root / "binary.md").write_bytes(b"\x00\x01\x02\xff" * 400)
    (root / "device.md").symlink_to("/proc/self/mem")
    ids = [encode_id(name) for name in ("good.md", "large.md", "binary.md", "device.md")]
    async with opened(root, notes, file_bytes_max=1999) as source:
        reading = await source.read(ids)

    good, large, binary, device = ids
    assert list(reading.documents) == [good]
    assert isinstance(reading.broken[large], Permanent)
    assert "file_bytes_max" in str(reading.broken[large])
    assert "'large.md'" in str(reading.broken[large])
    assert isinstance(reading.broken[binary], Permanent)
    assert "binary.md" in str(reading.broken[binary])
    assert isinstance(reading.broken[device], Transient)
    assert "'device.md'" in str(reading.broken[device])


async def test_what_is_no_regular_file_is_no_document_and_never_blocks(root, notes):
    os.mkfifo(root / "pipe.md")
    (root / "folder.md").mkdir()
    (root / "loop.md").symlink_to("loop.md")
    (root / "nowhere.md").symlink_to("none")
    write(root / "a.md")
    ids = [encode_id(n) for n in ("pipe.md", "folder.md", "loop.md", "nowhere.md")]
    async with opened(root, notes) as source:
        assert await drain(source) == ["a.md"]
        reading = await source.read(ids)
    assert reading.documents == {}
    assert reading.broken == {}


async def test_an_id_never_leads_out_of_the_root(root, notes, tmp_path):
    write(tmp_path / "secret.md")
    outside = ["../secret.md", str(tmp_path / "secret.md"), "x/../../secret.md", "", "a\0.md"]
    async with opened(root, notes) as source:
        reading = await source.read([*(encode_id(path) for path in outside), encode_id(7)])
    assert reading.documents == {}
    assert reading.broken == {}


async def test_links_are_followed_and_loops_end(root, notes, tmp_path):
    write(tmp_path / "other/c.md")
    (tmp_path / "other/loop").symlink_to(tmp_path / "other")
    (tmp_path / "other/home").symlink_to(root)
    write(tmp_path / "third/d.md")
    (tmp_path / "other/third").symlink_to(tmp_path / "third")
    (root / "above").symlink_to(tmp_path)
    write(root / "a/b.md")
    (root / "a/up").symlink_to("..")
    (root / "again").symlink_to("a")
    (root / "alias.md").symlink_to("a/b.md")
    (root / "linked").symlink_to(tmp_path / "other")
    (root / "linked2").symlink_to(tmp_path / "other")
    async with opened(root, notes) as source:
        expected = ["a/b.md", "above/other/c.md", "above/third/d.md", "alias.md", "linked/c.md"]
        expected.append("linked2/c.md")
        assert sorted(await drain(source)) == expected
        assert sorted(paths(await all_ids(source, 2))) == expected
        unseen = ["again/b.md", "a/up/alias.md", "above/notes/a/b.md", "linked/third/d.md"]
        assert not (await source.read([encode_id(path) for path in unseen])).documents


async def test_a_second_link_to_a_folder_leaves_the_documents_of_the_first(root, notes, tmp_path):
    """Each real folder was walked once, under whichever name came first in the walk.

    A new link earlier in the order took the other's documents out of the walk but not out of what
    can be read, so they stayed searchable when the files were long gone. No suite added a link.
    """
    write(tmp_path / "other/c.md")
    (root / "m").symlink_to(tmp_path / "other")
    async with opened(root, notes) as source:
        await settle(source)
        (root / "a").symlink_to(tmp_path / "other")
        await source.look_again()
        assert await drain(source) == ["a/c.md"]
        (tmp_path / "other/c.md").unlink()
        await source.look_again()
        assert sorted(await drain(source)) == ["a/c.md", "m/c.md"]


async def test_a_folder_that_vanishes_is_an_error_and_deletes_nothing(root, notes, tmp_path):
    write(root / "a.md")
    async with opened(root, notes) as source:
        await settle(source)
        root.rename(tmp_path / "away")
        with pytest.raises(SourceError, match="nothing was deleted"):
            await until(lambda: source.changes(10), source)
        with pytest.raises(SourceError):
            await source.read([encode_id("a.md")])
        assert "file:a.md" in notes.notes
    async with opened_refused(root, notes):
        pass

    (tmp_path / "away").rename(root)
    async with opened(root, notes) as source:
        assert await drain(source) == []


@asynccontextmanager
async def opened_refused(root: Path, notes: MemoryNotebook) -> AsyncIterator[None]:
    source = FolderSource(root, notebook=notes)
    with pytest.raises(SourceError, match="not there any more"):
        await source.open()
    yield
    await source.close()


async def test_hints_come_again_after_the_folder_was_replaced(root, notes, tmp_path):
    write(root / "a.md")
    async with opened(root, notes) as source:
        await settle(source)
        write(tmp_path / "next/a.md", "other")
        root.rename(tmp_path / "before")
        (tmp_path / "next").rename(root)

        async def seen() -> list[str]:
            try:
                return await drain(source)
            except SourceError:
                return []

        assert await until(seen, source) == ["a.md"]
        await settle(source)
        write(root / "b.md")
        assert await until(seen, source, 5) == ["b.md"]


async def test_the_empty_place_of_an_unmounted_disk_deletes_nothing(root, notes):
    write(root / "a.md")
    async with opened(root, notes) as source:
        await drain(source)
    (root / "a.md").unlink()
    real = notes.notes["root"]
    notes.notes["root"] = json.dumps({"kind": "folder", "device": -1}).encode()

    async with opened(root, notes) as source:
        with pytest.raises(SourceError, match="another disk"):
            await source.changes(10)
        with pytest.raises(SourceError, match="another disk"):
            await source.read([encode_id("a.md")])

    notes.notes["root"] = real
    async with opened(root, notes) as source:
        assert await drain(source) == ["a.md"]


async def test_a_missing_folder_names_its_neighbours(root, notes, tmp_path):
    source = FolderSource(tmp_path / "nots", notebook=notes)
    with pytest.raises(ConfigError, match=r"did you mean .*notes"):
        await source.open()
    await source.close()


async def test_one_file_is_a_source_too_whatever_its_suffix(root, notes):
    write(root / "one.log", "first")
    write(root / "two.log")
    async with opened(root / "one.log", notes) as source:
        assert await drain(source) == ["one.log"]
        assert paths(await all_ids(source, 10)) == ["one.log"]
        await settle(source)
        write(root / "two.log", "x")
        write(root / "one.log", "second")
        assert await drain_until(source, "one.log")
        (root / "one.log").unlink()
        assert await drain_until(source, "one.log")
        assert (await source.read([encode_id("one.log")])).documents == {}
    async with opened(root / "one.log", notes) as source:
        assert await drain(source) == []


async def drain_until(source: FolderSource, path: str) -> list[str]:
    seen: list[str] = await until(lambda: drain(source), source)
    assert set(seen) == {path}
    return seen


async def test_an_ignore_file_that_is_a_pipe_or_a_folder_has_no_rules_and_stops_nobody(root, notes):
    """Opening a pipe waits for a writer: the whole engine stood still, and no test had one here."""
    os.mkfifo(root / ".gitignore")
    (root / ".evervecignore").mkdir()
    write(root / "a.md")
    async with opened(root, notes) as source:
        assert await drain(source) == ["a.md"]
        assert len((await source.read([encode_id("a.md")])).documents) == 1


async def test_hints_go_on_after_a_name_that_is_no_valid_text(root, notes, caplog):
    """The watch ends with such an event; the suites had such names, but not while watching."""
    name = b"\xff\xfe.md"
    async with opened(root, notes, walk_every=3600) as source:
        await settle(source)
        (root / os.fsdecode(name)).write_text("bytes")
        captured = await next_change(source)
        assert captured.ids == (encode_id(name),)
        await source.accept(captured)
        write(root / "later.md")
        captured = await next_change(source)
        assert paths(captured.ids) == ["later.md"]
    assert "cannot be watched" not in caplog.text


async def test_a_root_that_is_a_link_is_followed_when_it_leads_elsewhere(root, notes, tmp_path):
    """So is `current` moved to the next release. Nobody had moved a link while it was followed."""
    write(tmp_path / "one/a.md", "old")
    write(tmp_path / "one/b.md")
    write(tmp_path / "two/a.md", "new text")
    link = root / "current"
    link.symlink_to(tmp_path / "one")
    async with opened(link, notes, walk_every=0.05) as source:
        await settle(source)
        link.unlink()
        await until(lambda: refused(source), source)
        link.symlink_to(tmp_path / "two")
        assert sorted(await until(lambda: drained(source), source)) == ["a.md", "b.md"]
        reading = await source.read([encode_id("a.md"), encode_id("b.md")])
        assert [found.fields["text"] for found in reading.documents.values()] == ["new text"]
        write(tmp_path / "two/c.md")
        assert await until(lambda: drained(source), source) == ["c.md"]


async def refused(source: FolderSource) -> bool:
    try:
        return await source.changes(10) is not None
    except SourceError:
        return True


async def test_hints_come_again_after_the_folder_was_away_for_a_while(root, notes, tmp_path):
    """A watch on a folder that is not there is not refused and tells of nothing, for ever.

    The suites replaced the folder at once, or looked for its files by a walk.
    """
    async with opened(root, notes, walk_every=3600) as source:
        await settle(source)
        root.rename(tmp_path / "away")
        await until(lambda: refused(source), source)
        # As long as it takes for a watch to be tried on nothing.
        over = time.monotonic() + 3 * watcher.AGAIN

        async def tried() -> bool:
            return time.monotonic() > over

        await until(tried, source)
        (tmp_path / "away").rename(root)
        for name in ("one.md", "two.md"):
            write(root / name)
            assert await until(lambda: drained(source), source) == [name]


async def drained(source: FolderSource) -> list[str]:
    try:
        return await drain(source)
    except SourceError:
        return []


async def test_hints_come_again_after_the_folder_was_deleted_and_made_anew(root, notes):
    """The new one may be given the old one's inode, so that it looks like the same."""
    async with opened(root, notes, walk_every=3600) as source:
        await settle(source)
        for name in ("one.md", "two.md", "three.md"):
            root.rmdir()
            root.mkdir()
            write(root / name)
            assert name in await until(lambda: drained(source), source)
            (root / name).unlink()
            assert name in await until(lambda: drained(source), source)


async def test_without_hints_the_folder_is_walked_instead_and_one_warning_says_what_to_raise(
    root, notes, monkeypatch, caplog
):
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "OS file watch limit reached.")

    monkeypatch.setattr(watcher, "RustNotify", refuse)
    write(root / "a.md")
    async with opened(root, notes, walk_every=0.05) as source:
        assert await until(lambda: drain(source), source) == ["a.md"]
        write(root / "b.md")
        assert await until(lambda: drain(source), source) == ["b.md"]
    (record,) = caplog.records
    assert "fs.inotify.max_user_watches" in record.getMessage()


async def test_a_full_walk_finds_what_no_hint_told(root, notes, tmp_path):
    """A file outside the root, linked into it, changes without a hint."""
    write(tmp_path / "far.md", "one")
    (root / "near.md").symlink_to(tmp_path / "far.md")
    async with opened(root, notes, walk_every=0.05) as source:
        await settle(source)
        write(tmp_path / "far.md", "two, longer")
        assert await until(lambda: drain(source), source) == ["near.md"]


async def test_a_file_that_changes_at_every_read_is_tried_again_later(root, notes, monkeypatch):
    path = write(root / "a.md", "x" * 1000)
    read = os.read

    def read_while_another_program_writes(handle: int, size: int) -> bytes:
        part = read(handle, size)
        if len(part) > 1:
            with path.open("a") as file:
                file.write("y")
        return part

    async with opened(root, notes) as source:
        monkeypatch.setattr(os, "read", read_while_another_program_writes)
        reading = await source.read([encode_id("a.md")])
        monkeypatch.undo()
        assert isinstance(reading.broken[encode_id("a.md")], Transient)
        assert "being written" in str(reading.broken[encode_id("a.md")])
        assert (await source.read([encode_id("a.md")])).broken == {}


async def test_remove_forgets_every_file_and_leaves_the_folder_as_it_was(root, notes):
    write(root / "a.md")
    before = sorted(path.name for path in root.iterdir())
    notes.notes["other"] = b"kept"
    async with opened(root, notes) as source:
        await drain(source)
        await source.remove()
        assert notes.notes == {"other": b"kept"}
        assert sorted(path.name for path in root.iterdir()) == before


async def test_unchanged_files_are_compared_without_being_read(root, notes, monkeypatch):
    for n in range(2000):
        write(root / f"{n % 20}/{n}.md")
    async with opened(root, notes) as source:
        assert len(await drain(source)) == 2000
    monkeypatch.setattr(os, "open", None)
    source = FolderSource(root, notebook=notes)
    began = time.monotonic()
    assert await source.changes(1000) is None
    assert time.monotonic() - began < 1
    await source.close()


async def test_a_file_that_kills_its_parser_does_not_touch_its_mates(root, notes):
    for name in ("a.html", "b.crash", "c.spin", "d.html"):
        write(root / name)
    limits = Limits(processor_seconds=1)
    parsers = ParserProcess(limits, also="tests.unit.killers")
    ids = [encode_id(name) for name in ("a.html", "b.crash", "c.spin", "d.html")]
    async with opened(root, notes, patterns=["*"], parsers=parsers) as source:
        reading = await source.read(ids)

    assert list(reading.documents) == [ids[0], ids[3]]
    assert "'b.crash' brought its parser down" in str(reading.broken[ids[1]])
    assert "'c.spin' took more than 1 seconds" in str(reading.broken[ids[2]])


async def test_a_file_of_two_gigabytes_is_refused_by_its_size_before_it_is_read(root, notes):
    path = write(root / "large.pdf")
    os.truncate(path, 2_000_000_000)
    began = time.monotonic()
    async with opened(root, notes) as source:
        reading = await source.read([encode_id("large.pdf")])

    (reason,) = reading.broken.values()
    assert "more than 200,000,000 bytes" in str(reason)
    assert "file_bytes_max" in str(reason)
    assert time.monotonic() - began < 5

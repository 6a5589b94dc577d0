"""The whole way on the command line, with the real model: shapes, words and exit codes."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from tests.cli.program import evervec, names, shop, surroundings, write

FOLLOW = """
import evervec, evervec.sync
app = evervec.sync.App()
app.open()
app.collection("notes", source=evervec.folder("notes"))
app.close()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a watched table and a followed folder, both in sync; one file has failed."""
    place = tmp_path_factory.mktemp("place")
    shop(place)
    notes = place / "notes"
    notes.mkdir()
    (notes / "guide.md").write_text("# Guide\n\n## Install\n\nRun the installer twice.\n")
    (notes / "broken.txt").write_bytes(bytes(range(256)) * 40)
    watched = evervec(place, "watch", "shop.db", "articles", "--text", r"{title}\n\n{body}")
    assert watched.code == 0, watched.err
    assert "every change is captured" in watched.out.lower()
    assert evervec(place, "sync", "--json").code == 0
    subprocess.run(
        [sys.executable, "-c", FOLLOW], cwd=place, env=surroundings(), check=True, timeout=50
    )
    synced = evervec(place, "sync")
    assert synced.code == 1, synced.out + synced.err
    assert "1 documents failed; see why with `evervec failed ls`" in synced.out
    return place


def test_names_and_texts_never_command_the_terminal(tmp_path):
    """A line end in a file's name broke the listing, and an escape sequence went through."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "two\nlines.md").write_text("A text with \x1b[31mred\x1b[0m words.")
    (notes / "\x1b[31mred.md").write_bytes(bytes(range(256)))
    subprocess.run(
        [sys.executable, "-c", FOLLOW], cwd=tmp_path, env=surroundings(), check=True, timeout=50
    )
    assert evervec(tmp_path, "sync").code == 1

    found = evervec(tmp_path, "search", "red words")
    listed = evervec(tmp_path, "failed", "ls")
    drift = evervec(tmp_path, "verify")

    assert r"two\nlines.md" in found.out
    assert r"\x1b[31mred.md" in listed.out
    assert listed.out.count("red.md'") == 1, "the reason names the file once"
    assert r"\x1b[31mred.md" in drift.out
    assert "\x1b" not in found.out + listed.out + drift.out


@pytest.mark.accepts("001-45", "001-46")
def test_what_failed_is_listed_and_shown_with_its_reason(place):
    """The number in the list is what show, retry and drop take."""
    (job,) = evervec(place, "failed", "ls", "--json").json["jobs"]
    assert (job["collection"], job["id"], job["state"]) == ("notes", "broken.txt", "failed")
    assert (job["attempts"], job["kind"]) == (1, "permanent")
    assert job["reason"]
    listed = evervec(place, "failed", "ls")
    assert listed.code == 0
    assert "broken.txt" in listed.out
    assert "evervec failed show JOB" in listed.out
    shown = evervec(place, "failed", "show", str(job["job"]))
    assert shown.code == 0
    assert job["reason"].splitlines()[0] in shown.out
    assert "after 1 attempts" in shown.out
    assert evervec(place, "failed", "show", "999999").code == 1


@pytest.mark.accepts("000-45", "002-24")
def test_a_rows_vector_comes_into_the_column_that_was_named(tmp_path):
    """As float32 bytes of unit length; letting go of the table leaves them there."""
    path = shop(tmp_path)
    write(path, "alter table articles add column meaning blob")
    asked = ("watch", "shop.db", "articles", "--text", "{body}", "--into", "meaning")
    watched = evervec(tmp_path, *asked)
    assert "Each row's vector is kept in its column 'meaning'" in watched.out, watched.err
    assert evervec(tmp_path, "sync").code == 0
    assert evervec(tmp_path, "verify").code == 0
    write(path, "update articles set meaning = null where id = 1")
    assert evervec(tmp_path, "verify").code == 3
    assert evervec(tmp_path, "unwatch", "articles").code == 0
    with closing(sqlite3.connect(path)) as reader:
        rows = reader.execute("select id, meaning from articles order by id").fetchall()
    assert rows[0] == (1, None)
    for _, value in rows[1:]:
        assert np.linalg.norm(np.frombuffer(value, "<f4")) == pytest.approx(1)


def test_search_answers_in_the_agreed_shape(place):
    """The best hit for a question is the document that answers it."""
    found = evervec(place, "search", "why does the ocean rise and fall?", "-k", "2", "--json")
    assert found.code == 0
    hits = found.json["hits"]
    assert len(hits) == 2
    first = hits[0]
    assert {"collection", "id", "score", "text", "start", "end", "fresh"} <= first.keys()
    assert (first["collection"], first["id"], first["fresh"]) == ("articles", 1, True)
    assert "Tides\n\nThe moon pulls the sea."[first["start"] : first["end"]] == first["text"]
    assert isinstance(first["score"], float)
    plain = evervec(place, "search", "installer", "-c", "notes")
    assert plain.code == 0
    assert "guide.md" in plain.out
    assert "Guide > Install" in plain.out


def test_status_answers_in_the_agreed_shape_and_3_when_something_failed(place):
    """A failed document makes it DEGRADED."""
    done = evervec(place, "status", "--json")
    assert done.code == 3
    assert done.json["health"] == "DEGRADED"
    by_name = {each["name"]: each for each in done.json["collections"]}
    articles = by_name["articles"]
    assert {
        "name",
        "documents",
        "fresh",
        "lag_p50",
        "lag_p99",
        "backlog",
        "oldest",
        "failed",
        "model",
    } <= articles.keys()
    assert (articles["documents"], articles["fresh"], articles["backlog"]) == (3, 1.0, 0)
    assert (articles["failed"], by_name["notes"]["failed"]) == (0, 1)
    assert articles["model"] == "all-MiniLM-L6-v2"
    assert articles["oldest"] is None
    assert articles["lag_p50"] > 0
    plain = evervec(place, "status")
    assert "100 %" in plain.out
    assert "health DEGRADED" in plain.out


def test_what_nobody_has_taken_from_a_source_is_told(tmp_path):
    """It was "100 %" and "Nothing waits: everything is in sync"."""
    shop(tmp_path)
    evervec(tmp_path, "watch", "shop.db", "articles", "--text", r"{title}\n\n{body}")
    evervec(tmp_path, "sync", "-q")
    assert "Nothing waits" in evervec(tmp_path, "jobs").out
    write(tmp_path / "shop.db", "update articles set body = 'another' where id = 1")
    told = "articles: 1 change waits in its source; `evervec up` or `evervec sync` takes it"
    jobs, status = evervec(tmp_path, "jobs"), evervec(tmp_path, "status")
    assert "No job waits." in jobs.out
    assert told in jobs.out
    assert told in status.out
    assert "66.67 %" in status.out


def test_verify_answers_in_the_agreed_shape_and_3_on_drift(place):
    """The broken file is missing; the table is in sync."""
    fine = evervec(place, "verify", "-c", "articles", "--json")
    assert fine.code == 0
    wanted = {"checked": 3, "missing": 0, "stale": 0, "orphaned": 0, "wrong_space": 0}
    assert fine.json == wanted
    drifted = evervec(place, "verify")
    assert drifted.code == 3
    assert "missing: notes broken.txt (failed in the queue)" in drifted.out


def test_doctor_looks_at_everything_and_says_the_fix(place):
    """A failed job is a finding; so is each collection."""
    done = evervec(place, "doctor", "--json")
    assert done.code == 3
    findings = done.json["findings"]
    assert done.json["healthy"] is False
    bad = [finding for finding in findings if not finding["fine"]]
    assert [finding["what"] for finding in bad] == ["1 failed jobs"]
    assert "evervec failed ls" in bad[0]["fix"]
    assert any("MiniLM" in finding["what"] for finding in findings)
    assert any("collection 'articles'" in finding["what"] for finding in findings)


def test_events_are_printed_as_facts(place):
    """The newest last, one a line."""
    facts = evervec(place, "events", "tail", "-n", "100", "--json").lines
    assert [fact["number"] for fact in facts] == sorted(fact["number"] for fact in facts)
    types = {fact["type"] for fact in facts}
    assert {"document.indexed", "job.failed"} <= types
    assert len(evervec(place, "events", "tail", "-n", "2").out.splitlines()) == 2


@pytest.mark.accepts("001-54", "001-57")
def test_force_names_the_document_and_says_what_it_did(place):
    """Once it is in the queue, a second force says so; jobs lists it; cancel takes it out."""
    forced = evervec(place, "force", "articles", "2")
    assert forced.code == 0
    assert forced.out == "articles 2 is in the queue.\n"
    again = evervec(place, "force", "articles", "2", "--json")
    assert again.json == {"collection": "articles", "id": "2", "created": False}
    jobs = evervec(place, "jobs", "-c", "articles", "--json").json["jobs"]
    assert [(job["id"], job["state"]) for job in jobs] == [(2, "ready")]
    assert "articles" in evervec(place, "jobs").out
    cancelled = evervec(place, "cancel", "articles", "2")
    assert cancelled.out == "articles 2 is cancelled until it changes again.\n"
    missing = evervec(place, "force", "articles", '"2"')
    assert missing.code == 2
    assert "ids keep their type" in missing.err
    dropped = evervec(place, "failed", "ls", "--json").json["jobs"]
    number = next(job["job"] for job in dropped if job["collection"] == "articles")
    assert evervec(place, "failed", "drop", str(number), "--json").json == {"drop": 1}


def test_repair_finds_nothing_where_nothing_drifted(place):
    """What waits for a person is not put in the queue again."""
    done = evervec(place, "repair", "--json")
    assert (done.code, done.json) == (0, {"discovered": 0, "queued": 0})


@pytest.mark.accepts("R-25")
def test_the_queue_is_paused_drained_and_resumed(place):
    """Each answer is what holds now."""
    assert evervec(place, "stage", "pause", "--json").json["mode"] == "paused"
    assert "evervec stage resume" in evervec(place, "status").out
    drained = evervec(place, "stage", "drain", "--json")
    assert drained.json == {"mode": "draining", "held": 0, "drained": True}
    assert evervec(place, "stage", "resume").code == 0
    shown = evervec(place, "stage", "show", "--json")
    assert shown.json == {"mode": "running", "held": 0, "drained": False}


def test_plan_says_what_it_would_take_and_writes_nothing(place, tmp_path):
    """Neither into the table it looks at, nor a state where there is none."""
    before = names(place / "shop.db")
    done = evervec(place, "plan", "--json")
    assert done.code == 0
    counts = done.json
    assert (counts["documents"], counts["broken"], counts["new_chunks"]) == (4, 1, 0)
    assert counts["chunks"] >= 4
    assert names(place / "shop.db") == before

    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# New\n\nNothing of this is known.")
    fresh = evervec(tmp_path, "plan", "docs", "--json")
    assert fresh.json["documents"] == 1
    assert fresh.json["new_chunks"] == fresh.json["chunks"] == 1
    assert fresh.json["seconds"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs"]


def test_a_write_by_another_program_is_searchable_after_a_sync(tmp_path):
    """watch, write, sync, search, verify, failed retry, unwatch: the main job."""
    database = shop(tmp_path)
    schema = names(database)
    state = ("--state", "my.db")
    watched = evervec(
        tmp_path, "watch", "shop.db", "articles", "--text", "{body}", "--name", "texts", *state
    )
    assert watched.code == 0, watched.err
    write(database, "insert into articles values (9, 'Owls', 'Owls hunt by night.')")
    synced = evervec(tmp_path, "sync", "--json", *state)
    assert synced.code == 0
    lines = synced.lines
    assert lines[-1] == {"done": True, "documents": 4, "failed": 0, "not_served": 0}
    assert sum(line.get("embedded", 0) for line in lines) == 4
    assert sum(line.get("indexed", 0) for line in lines) == 4
    (hit,) = evervec(
        tmp_path, "search", "birds active in darkness", "-k", "1", "--json", *state
    ).json["hits"]
    assert (hit["id"], hit["collection"]) == (9, "texts")
    write(database, "delete from articles where id = 9")
    drifted = evervec(tmp_path, "verify", "--json", EVERVEC_STATE="my.db")
    assert (drifted.code, drifted.json["orphaned"]) == (3, 1)
    assert evervec(tmp_path, "sync", "-q", *state).code == 0
    assert evervec(tmp_path, "verify", "-q", *state).code == 0
    gone = evervec(tmp_path, "unwatch", "texts", *state)
    assert (gone.code, names(database)) == (0, schema)
    assert "nothing of it is left" in gone.out
    assert evervec(tmp_path, "search", "owls", "--json", *state).json == {"hits": []}

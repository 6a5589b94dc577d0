"""Wrong input on the command line: what happened, to what, and what to do; never a traceback."""

import sqlite3
from contextlib import closing

import pytest
from tests.cli.program import names, shop, write

import evervec
import evervec.sync
from evervec.cli import main
from evervec.testing.embedder import HashEmbedder

WATCH = ("watch", "shop.db", "articles", "--text")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("EVERVEC_STATE", "EVERVEC_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    shop(tmp_path)
    return tmp_path


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused; return what it says."""

    def run(*arguments, code):
        try:
            ended = main(arguments)
        except SystemExit as exit_:
            ended = int(exit_.code or 0)
        told = capsys.readouterr()
        assert ended == code, told
        assert told.out == ""
        assert "Traceback" not in told.err
        assert "defect" not in told.err
        return told.err

    return run


def test_a_missing_database_is_named(place, refused):
    told = refused("watch", "shpo.db", "articles", "--text", "{body}", code=2)
    assert "shpo.db" in told
    assert "is not a file" in told
    assert "name an existing SQLite database" in told


def test_a_file_that_is_no_database_is_named(place, refused):
    (place / "notes.txt").write_text("not a database at all, but long enough to have a header" * 20)
    told = refused("watch", "notes.txt", "articles", "--text", "{body}", code=2)
    assert "is not an SQLite database" in told


def test_a_missing_table_names_the_near_ones(place, refused):
    told = refused("watch", "shop.db", "artciles", "--text", "{body}", code=2)
    assert "artciles" in told
    assert "'articles'" in told


def test_an_unknown_field_of_the_template_names_the_near_ones(place, refused):
    told = refused(*WATCH, "{titel}", code=2)
    assert "titel" in told
    assert "'title'" in told
    assert names(place / "shop.db") == ["articles"], "nothing was installed"


@pytest.mark.parametrize("text", ["no field", "{title", "{}"])
def test_a_broken_template_says_how_to_write_one(place, refused, text):
    told = refused(*WATCH, text, code=2)
    assert "{" in told
    assert text.strip("{}") in told


def test_a_template_is_asked_for(place, refused):
    told = refused("watch", "shop.db", "articles", code=2)
    assert "which columns make a document's text is not said" in told
    assert "text=" in told or "--text" in told


def test_an_unknown_key_column_is_named(place, refused):
    told = refused(*WATCH, "{body}", "--key", "idd", code=2)
    assert "idd" in told
    assert "'id'" in told


def test_a_table_without_a_key_says_what_to_do(place, refused):
    write(place / "shop.db", "create view v as select * from articles")
    write(place / "shop.db", "create table bare (title, body)")
    told = refused("watch", "shop.db", "v", "--text", "{body}", code=2)
    assert "'v'" in told


def test_a_condition_that_is_no_sql_is_refused(place, refused):
    told = refused(*WATCH, "{body}", "--where", "id >", code=2)
    assert "id >" in told
    assert names(place / "shop.db") == ["articles"]


def test_a_column_for_vectors_has_to_exist(place, refused):
    told = refused(*WATCH, "{body}", "--into", "vektor", code=2)
    assert "has no column 'vektor', named by --into" in told
    assert 'alter table "articles" add column "vektor" blob' in told


def test_nothing_is_left_behind_by_what_was_refused(place, refused, capsys):
    refused(*WATCH, "{titel}", code=2)
    assert main(["status", "--json"]) == 0
    assert '"collections": []' in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ("search", "anything"),
        ("status",),
        ("verify",),
        ("sync",),
        ("jobs",),
        ("worker",),
        ("repair",),
        ("unwatch", "articles"),
        ("stage", "show"),
        ("events", "tail"),
        ("failed", "ls"),
    ],
)
def test_without_a_state_every_command_says_how_to_start(place, refused, command):
    """And none of them makes one."""
    told = refused(*command, code=2)
    assert "evervec up FOLDER" in told or "evervec watch" in told
    assert not (place / "evervec.db").exists()


def test_an_unknown_collection_names_those_that_exist(place, refused, capsys):
    assert main([*WATCH, "{body}", "-q"]) == 0
    for command in (
        ("search", "x", "-c", "artikel"),
        ("verify", "-c", "artikel"),
        ("repair", "-c", "artikel"),
        ("force", "artikel", "1"),
        ("cancel", "artikel", "1"),
        ("unwatch", "artikel"),
    ):
        told = refused(*command, code=2)
        assert "no collection 'artikel' is registered" in told
        assert "'articles'" in told


def test_numbers_and_conditions_are_checked(place, refused):
    assert main([*WATCH, "{body}", "-q"]) == 0
    told = refused("search", "x", "--mode", "lexical", "-k", "0", code=2)
    assert "0" in told
    told = refused("search", "x", "--where", "lang", code=2)
    assert "--where 'lang' is no condition" in told
    assert "FIELD=VALUE" in told
    assert "the query is empty" in refused("search", "  ", code=2)
    assert "does nothing" in refused("repair", "--limit", "0", code=2)
    assert "which jobs to retry is not said" in refused("failed", "retry", code=2)
    told = refused("failed", "retry", "abc", code=2)
    assert "abc" in told


def test_an_unknown_command_or_option_is_a_matter_of_usage(place, refused):
    assert "invalid choice: 'serach'" in refused("serach", "x", code=2)
    assert "--josn" in refused("status", "--josn", code=2)


def test_a_state_that_is_a_folder_or_no_database_is_unreachable(place, refused):
    (place / "folder").mkdir()
    told = refused("status", "--state", "folder", code=4)
    assert "folder" in told
    (place / "text.db").write_text("no database " * 100)
    told = refused("status", "--state", "text.db", code=4)
    assert "text.db" in told
    told = refused("status", "--state", "postgresql://localhost/x", code=2)
    assert "is not a file" in told


def test_a_database_of_another_program_is_never_made_the_state(place, refused):
    before = (place / "shop.db").read_bytes()
    told = refused(*WATCH, "{body}", "--state", "shop.db", code=4)
    assert "is a database of another program" in told
    assert "give the state a file of its own" in told
    assert (place / "shop.db").read_bytes() == before


def test_the_state_itself_is_no_source(place, refused, capsys):
    assert main([*WATCH, "{body}"]) == 0
    capsys.readouterr()
    told = refused("watch", "evervec.db", "job", "--text", "{document}", code=2)
    assert "evervec's own state, which is no source" in told


def test_a_source_that_went_away_is_unreachable(place, refused):
    assert main([*WATCH, "{body}", "-q"]) == 0
    (place / "shop.db").rename(place / "elsewhere.db")
    told = refused("verify", code=4)
    assert "shop.db" in told
    assert "put the file back" in told


def test_another_recipe_is_refused_and_the_choices_are_named(place, refused):
    assert main([*WATCH, "{body}", "-q"]) == 0
    told = refused(*WATCH, "{title}", code=2)
    assert "collection 'articles' is registered with another recipe" in told
    assert "--change" in told
    assert main([*WATCH, "{title}", "-q", "--change"]) == 0


def test_a_state_made_with_another_model_says_which(place, refused):
    with evervec.sync.App("evervec.db", model=HashEmbedder()) as app:
        app.collection(
            "articles", source=evervec.table("shop.db", "articles"), text="{body}"
        ).synced()
    told = refused("search", "x", code=2)
    assert "is embedded with hash-not-semantic@1/32" in told
    assert "this process has all-MiniLM-L6-v2@" in told
    assert "gives App the same model" in told
    assert main(["sync", "-q"]) == 1


def test_settings_that_are_wrong_name_the_key(place, refused, monkeypatch):
    (place / "evervec.toml").write_text("[worker]\nclam = 5\n")
    told = refused("status", code=2)
    assert "'worker.clam', which is not a setting" in told
    assert "did you mean 'worker.claim'?" in told
    (place / "evervec.toml").write_text("[worker]\nclaim = 'many'\n")
    assert "is not a whole number" in refused("status", code=2)
    (place / "evervec.toml").write_text("[worker\n")
    assert "is not TOML" in refused("status", code=2)
    (place / "evervec.toml").unlink()
    monkeypatch.setenv("EVERVEC_WORKER_CLAIM", "many")
    told = refused("status", code=2)
    assert "EVERVEC_WORKER_CLAIM='many' is not a whole number" in told


def test_up_without_anything_to_follow_says_what_to_name(place, refused):
    told = refused("up", "nots", code=2)
    assert "no folder or file 'nots'" in told
    assert "evervec up FOLDER" in refused("up", code=2)
    assert not (place / "evervec.db").exists()
    assert main([*WATCH, "{body}", "-q"]) == 0
    assert main(["unwatch", "articles", "-q"]) == 0
    told = refused("up", code=2)
    assert "there is nothing to follow" in told
    assert "evervec up notes/" in told
    told = refused("up", "shop.db", code=2)
    assert "evervec watch" in told


def test_a_locked_source_is_waited_for_no_longer_than_it_takes(place, refused):
    """Reading goes on while another program holds the write lock."""
    assert main([*WATCH, "{body}", "-q"]) == 0
    with closing(sqlite3.connect(place / "shop.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        assert main(["repair", "-q"]) == 0
        other.execute("rollback")


def test_a_filter_on_a_field_that_nobody_keeps_names_the_near_ones(place, refused, capsys):
    """It was "Nothing found."."""
    assert main([*WATCH, "{body}", "--metadata", "title"]) == 0
    capsys.readouterr()
    told = refused("search", "owls", "--where", "titel=x", code=2)
    assert "keeps a field 'titel' to filter on" in told
    assert "did you mean 'title'?" in told
    told = refused("search", "owls", "--where", "price<3", code=2)
    assert "kept: 'title'" in told


def test_a_search_among_no_collections_says_so(place, capsys):
    assert main([*WATCH, "{body}"]) == 0
    assert main(["search", "owls", "--tenant", "acme"]) == 0
    assert "No collection is registered for tenant 'acme'." in capsys.readouterr().out


def test_a_job_that_did_not_fail_cannot_be_tried_again(place, capsys):
    assert main([*WATCH, "{body}"]) == 0
    assert main(["failed", "retry", "99"]) == 1
    told = capsys.readouterr().out
    assert "0 jobs are in the queue again" in told
    assert "1 do not wait for a person; `evervec failed ls`" in told

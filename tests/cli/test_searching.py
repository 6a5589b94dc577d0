"""`evervec search`: conditions, reasons, recall, and words that stand out in a terminal."""

import os
import pty
import subprocess

import pytest
from tests.cli.program import command, evervec, shop, surroundings, write
from tests.cli.test_terminal import PATIENCE, read_until
from tests.unit.test_crossencoder import write_network, write_tokenizer


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A state with one table in sync."""
    place = tmp_path_factory.mktemp("searching")
    path = shop(place)
    write(path, "alter table articles add column price real")
    write(path, "update articles set price = id * 10")
    write(path, "insert into articles values (4, 'nan', ?, null)", "far " * 100 + "off, the wheel")
    asked = ("watch", "shop.db", "articles", "--text", "{title}\n\n{body}")
    done = evervec(place, *asked, "--metadata", "price", "--metadata", "title")
    assert done.code == 0, done.err
    assert evervec(place, "sync").code == 0
    return place


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        (["price<20"], {1}),
        (["price<=20"], {1, 2}),
        (["price>20"], {3}),
        (["price>=10", "price<30", "title!=Tides"], {2}),
        (["price=10", "price=30"], {1, 3}),
        (["title!=Tides", "title!=Bread"], {2, 4}),
        (["title>=C"], {1, 2, 4}),
        (["title=nan"], {4}),
        (["price=null"], {4}),
        (["title=a=b"], set()),
    ],
)
def test_conditions_compare(place, conditions, ids):
    where = [each for condition in conditions for each in ("--where", condition)]
    told = evervec(place, "search", "x", "--mode", "dense", *where, "--json")
    assert {hit["id"] for hit in told.json["hits"]} == ids


def test_json_has_highlights_and_reasons(place):
    asked = ("search", "a LEASE expires", "-k", "1", "--json")
    (plain,) = evervec(place, *asked).json["hits"]
    assert [plain["text"][first:last] for first, last in plain["highlights"]][-2:] == [
        "lease",
        "expires",
    ]
    assert "explained" not in plain
    (hit,) = evervec(place, *asked, "--explain").json["hits"]
    assert hit["explained"]["lexical"]["rank"] == hit["explained"]["dense"]["rank"] == 1
    assert {"LEASE", "expires"} <= set(hit["explained"]["words"])
    assert (hit["explained"]["index"], hit["explained"]["compared"]) == ("exact", 4)


def test_reasons_are_told_in_words(place):
    told = evervec(place, "search", "lease expires", "-k", "1", "--explain").out
    assert "vectors #1 (" in told
    assert "words #1 (" in told
    assert "has lease, expires" in told
    assert "compared all 4" in told
    words = evervec(place, "search", "lease", "--mode", "lexical", "--explain").out
    assert "vectors" not in words
    assert "compared" not in words


def test_a_cross_encoder_decides_the_order(place, tmp_path):
    write_tokenizer(tmp_path)
    write_network(tmp_path / "openvino_model.xml")
    asked = ("search", "moon flour", "-k", "2", "--rerank", str(tmp_path), "--json")
    hits = evervec(place, *asked).json["hits"]
    # It counts the words it does not know: the longest text wins.
    assert hits[0]["id"] == 4
    assert hits[0]["reranked"] > hits[1]["reranked"]
    refused = evervec(place, "search", "x", "--rerank", "nowhere")
    assert refused.code == 2
    assert "'nowhere' holds no cross-encoder" in refused.err


def test_recall_is_checked(place):
    told = evervec(place, "search", "--check-recall")
    assert told.code == 0, told.err
    assert "articles: recall@10 1.000 by exact, 4 of 4 chunks asked" in told.out
    json = evervec(place, "search", "--check-recall", "2", "--json").json
    assert json["enough"] is True
    (one,) = json["collections"]
    assert (one["collection"], one["sampled"], one["recall"], one["index"]) == (
        "articles",
        2,
        1.0,
        "exact",
    )


def test_too_little_recall_exits_3(place, monkeypatch, capsys):
    """Here no collection finds as much as is asked for."""
    from evervec.cli import main, searching

    monkeypatch.chdir(place)
    monkeypatch.setattr(searching, "RECALL_LEAST", 1.01)
    assert main(["search", "--check-recall"]) == 3
    assert "delete the index folder" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ((), "nothing is asked"),
        (("x", "--check-recall"), "--check-recall takes no query"),
        (("--check-recall", "0"), "0 samples tell nothing"),
        (("x", "--where", "price<5", "--where", "price<7"), "compares 'price' twice"),
        (("x", "--where", "<5"), "is no condition"),
        (("x", "--where", "price<true"), "cannot be < True"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(place, asked, told):
    # What follows --check-recall would be its number, so a query stands before it.
    refused = evervec(place, "search", *asked)
    assert refused.code == 2
    assert told in refused.err


def test_words_stand_out_in_a_terminal_and_nowhere_else(place):
    """Also where they come late in the text: the excerpt begins shortly before them."""
    assert "\x1b" not in evervec(place, "search", "wheel", "--mode", "lexical").out
    for colour, wanted in ({"NO_COLOR": ""}, b"\x1b[1mwheel\x1b[0m"), ({"NO_COLOR": "1"}, b"wheel"):
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            command("search", "wheel", "--mode", "lexical"),
            cwd=place,
            env=surroundings(TERM="xterm", **colour),
            stdout=theirs,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            seen = read_until(ours, wanted)
            assert process.wait(PATIENCE) == 0
        os.close(ours)
        assert "…far".encode() in seen
        assert (b"\x1b[1m" in seen) == (colour["NO_COLOR"] == "")

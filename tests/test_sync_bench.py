"""The sync bench: its judge, its charts, and a run of it with our own tool at a tiny size."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benches.sync import page
from benches.sync.__main__ import COUNTED, lines
from benches.sync.judge import Verdict, judge
from benches.sync.scenarios import SCENARIOS, Result
from benches.sync.stub import packed, signs
from benches.sync.svg import DASH
from benches.sync.tools import chosen
from benches.sync.wire import floats, signs_of

ROOT = Path(__file__).parent.parent
TINY = ["--documents", "24", "--paragraphs", "3", "--milliseconds", "5"]


def row(name, text, vector=None):
    return name, text, signs(text if vector is None else vector).hex()


def test_a_store_that_holds_every_paragraph_is_right():
    truth = {"a": ["one", "two"], "b": ["one"]}
    rows = [row("a", "one"), row("a", "two\n"), row("b", "one")]
    assert judge(truth, rows) == Verdict(0, 0, 0, 0)
    assert judge(truth, rows).clean


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([row("a", "one")], Verdict(1, 0, 0, 0)),
        ([], Verdict(1, 0, 0, 0)),
        ([row("a", "one"), row("a", "old")], Verdict(0, 1, 0, 0)),
        ([row("a", "one"), row("a", "two"), row("a", "old")], Verdict(0, 1, 0, 0)),
        ([row("a", "one"), row("a", "two", vector="other")], Verdict(0, 1, 0, 0)),
        ([row("a", "one"), row("a", "two"), row("gone", "x")], Verdict(0, 0, 1, 0)),
        ([row("a", "one"), row("a", "two"), row("a", "two")], Verdict(0, 0, 0, 1)),
    ],
    ids=["half", "nothing", "instead", "beside", "wrong vector", "orphan", "twice"],
)
def test_each_kind_of_wrong_is_told(rows, verdict):
    found = judge({"a": ["one", "two"]}, rows)
    assert found == verdict
    assert not found.clean


def test_a_document_apart_is_not_judged():
    rows = [row("a", "one"), row("b", "old"), row("c", "x")]
    assert judge({"a": ["one"], "b": ["new"]}, rows, apart=["b", "c"]).clean


def test_a_vector_is_known_by_its_signs():
    values = floats(packed("a text"))
    assert len(values) == 384
    assert sum(each * each for each in values) == pytest.approx(1)
    assert signs_of(values) == signs("a text").hex()


def test_tools_are_chosen_by_how_their_names_begin():
    assert chosen("evervec") == ["evervec-table", "evervec-folder"]
    assert chosen("langchain,evervec-table") == ["evervec-table", "langchain"]
    with pytest.raises(SystemExit, match="no tool is called 'nobody'"):
        chosen("nobody")


def results(seconds, **wrong):
    """What a tool would have that took so long everywhere and embedded what was necessary."""
    also = {"p50_ms": seconds * 1000, "p99_ms": seconds * 1000, "resident_mb": 10, "disk_mb": 1}
    return {
        name: Result(
            seconds=seconds, embedded=5, necessary=5, lost=0, stale=0, orphaned=0, doubled=0
        )
        if name not in wrong
        else Result(
            seconds=seconds, embedded=0, necessary=5, lost=1, stale=0, orphaned=0, doubled=0
        )
        for name in SCENARIOS
    } | {
        "latency": Result(also=also, lost=0, embedded=5, necessary=5),
        "backfill": Result(seconds, 5, 5, 0, 0, 0, 0, also=also),
    }


def told(found):
    return {line.what: line for line in lines(found)}


def test_a_faster_peer_is_counted_and_one_that_lost_something_is_not():
    faster = {"evervec-table": results(1.0), "peer": results(0.5)}
    behind = told(faster)["scenarios in which a peer is faster than evervec-table"]
    assert (behind.value, behind.met) == (16, False)
    careless = {"evervec-table": results(1.0), "peer": results(2.0) | {"edit": Result(0.1, lost=1)}}
    assert told(careless)["scenarios in which a peer is faster than evervec-table"].value == 0


def test_what_is_embedded_for_nothing_and_what_is_lost_fails_a_line():
    found = {"evervec-table": results(1.0)}
    assert told(found)["texts embedded ÷ necessary, evervec-table"].met
    found["evervec-table"]["touch"].embedded = 6
    found["evervec-table"]["copy"].lost = 1
    assert not told(found)["texts embedded ÷ necessary, evervec-table"].met
    wrong = told(found)["scenarios with anything lost, stale or orphaned, evervec-table"]
    assert (wrong.value, wrong.met) == (1, False)


@pytest.fixture(scope="module")
def result():
    command = [sys.executable, "-m", "benches.sync", "--only", "evervec", *TINY]
    done = subprocess.run(
        [*command, "--trouble", "0.2", "--edits", "4"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=100,
    )
    return json.loads(done.stdout)


@pytest.mark.timeout(120)
def test_our_own_tool_embeds_what_is_necessary_and_ends_right_in_every_scenario(result):
    assert result["bench"] == "sync"
    assert result["met"], result["lines"]
    for name, scenarios in result["numbers"]["scenarios"].items():
        assert scenarios.keys() == SCENARIOS.keys()
        for scenario, found in scenarios.items():
            assert found["right"], (name, scenario, found)
            if scenario in COUNTED:
                assert found["embedded"] == found["necessary"], (name, scenario, found)


@pytest.mark.timeout(120)
def test_the_page_and_its_charts_are_made_of_the_result(result):
    numbers = result["numbers"]
    table = page.table(numbers)
    assert all(called in table for called in page.NAMES.values())
    assert "**" not in table, "nothing is wrong"
    assert "Evervec, folder" in page.tools(numbers)
    assert "mends it" in page.notes(numbers)
    drawings = page.charts(numbers)
    for drawing in drawings.values():
        ET.fromstring(drawing)  # we have just written it
    shown = (ROOT / "docs" / "sync-bench.md").read_text("utf-8")
    assert all(f"images/sync-{name}.svg" in shown for name in drawings)


def test_the_page_says_when_others_worked_on_the_machine():
    calm = {"python": "3", "processors": 2, "load": [1.0, 1.5, 1.0]}
    assert page.machine(calm).endswith("load averages at the end 1.0, 1.5, 1.0.\n")
    assert "read the times as relations" in page.machine(calm | {"load": [2.0, 5.0, 4.0]})


def test_a_tool_that_could_not_be_installed_is_on_the_page_with_the_reason(result):
    about = {"name": "other", "not_installable": "no such version"}
    numbers = result["numbers"]
    with_it = numbers | {"tools": numbers["tools"] | {"other": about}}
    assert f"| other | {DASH} | not installable: no such version |" in page.tools(with_it)
    assert page.table(with_it) == page.table(numbers)

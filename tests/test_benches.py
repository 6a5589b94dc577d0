"""Benchmarks run at tiny sizes, so that they cannot rot. No time is judged here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benches.quality_page import TABLES, filled
from benches.table import table

ROOT = Path(__file__).parent.parent

TINY = {
    "asking": ["--starts", "1", "--queries", "20"],
    "capture": ["--rows", "400", "--repeats", "1", "--wakes", "5"],
    "chunks": ["--edits", "2", "--alone", "--folder", "docs", "--passes", "1"],
    "fidelity": ["--texts", "40", "--queries", "10", "--passes", "1", "--against", "shipped"],
    "folder": ["1000", "2"],
    "help": ["--repeats", "1"],
    "large": ["--chunks", "40"],
    "latency": ["--edits", "4", "--rows", "4", "--pause", "0.02"],
    "memory": ["--small", "20", "--large", "60"],
    "model": ["64", "--passes", "1"],
    "noop": ["--files", "100", "--repeats", "1"],
    "parsing": ["40", "--passes", "1"],
    "quality": ["--docs", "tests/data/manual", "--each", "4"],
    "queueing": ["--large", "4000"],
    "rivals": ["--texts", "40", "--rounds", "1", "--no-install"],
    "scale": ["--rows", "200", "--searches", "2"],
    "search": ["--rows", "500", "--rounds", "2"],
    "search_large": ["--rows", "2000", "--rounds", "3"],
    "sync_real": ["--texts", "120"],
    "sync_stub": ["--documents", "40", "--paragraphs", "5", "--milliseconds", "20"],
}


def measured(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", f"benches.{name}", *TINY[name]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True, timeout=280
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_benchmark_is_run_here():
    files = (ROOT / "benches").glob("*.py")
    runnable = {file.stem for file in files if "\ndef main" in file.read_text("utf-8")}
    assert runnable - {"table"} == set(TINY)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_tells_its_numbers_and_whether_its_targets_are_met(name: str):
    result = measured(name)
    assert result["bench"] == name
    assert isinstance(result["met"], bool)
    assert result["lines"]
    for line in result["lines"]:
        assert {"what", "value", "unit", "target", "bound", "met"} <= line.keys()
    assert name in table([result])
    page = "".join(f"<!-- {each} --><!-- end of {each} -->" for each in TABLES)
    assert filled(page, {name: result}).count("| --- |") == sum(
        bench == name for bench, _ in TABLES.values()
    )
    if name == "sync_stub":
        for what, scenario in result["numbers"]["scenarios"].items():
            assert scenario["embedded"] == scenario["necessary"], what

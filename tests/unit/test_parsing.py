"""The process that parses: a file that kills it fails alone, and nothing that it says is trusted."""

import os
import platform
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evervec.errors import Permanent, Transient
from evervec.parsing import Limits, ParserProcess

KILLERS = "tests.unit.killers"


@pytest.fixture
def parsers() -> Iterator[ParserProcess]:
    made = ParserProcess(also=KILLERS)
    yield made
    made.close()


def limited(**limits: Any) -> ParserProcess:
    return ParserProcess(Limits(**limits), also=KILLERS)


def process_of(parsers: ParserProcess) -> int:
    return int(parsers.parse("a.asking", b"").text.splitlines()[0])


def refusal(parsers: ParserProcess, name: str, data: bytes = b"") -> str:
    with pytest.raises(Permanent) as refused:
        parsers.parse(name, data)
    assert refused.value.hint
    return str(refused.value.args[0])


def test_files_are_parsed_in_a_process_that_is_kept(parsers):
    assert parsers.parse("a.html", b"<h1>Tea</h1>").text == "# Tea"
    assert process_of(parsers) == process_of(parsers) != os.getpid()


def test_what_is_only_decoded_needs_no_process():
    parsers = ParserProcess()
    parsers.close()

    assert parsers.parse("a.md", b"# Tea").text == "# Tea"
    assert parsers.parse("a.log", b"text").kind == "plain"
    with pytest.raises(Transient, match="stopped"):
        parsers.parse("a.html", b"")


@pytest.mark.parametrize(
    ("limits", "name", "reason"),
    [
        ({"processor_seconds": 1}, "a.spin", "took more than 1 seconds of processor time"),
        ({"seconds": 3}, "a.wait", "took longer than 3 seconds"),
        ({"memory_bytes": 300_000_000}, "a.eat", "needs more than 0.3 GB of memory"),
        ({}, "a.crash", r"brought its parser down \(SIGSEGV\)"),
        ({}, "a.leave", r"brought its parser down \(code 7\)"),
        ({"text_chars_max": 6}, "a.flood", "holds more than 6 characters of text"),
        ({}, "a.raising", "it cannot be parsed: ValueError: 7"),
        ({}, "a.refusing", "'a.refusing' is a test"),
    ],
)
def test_a_killer_file_fails_alone_with_its_reason(limits, name, reason):
    """Also where another file was read before by the same process: that one is not blamed."""
    parsers = limited(**limits)
    try:
        parsers.parse("a.html", b"before")
        with pytest.raises(Permanent, match=reason) as refused:
            parsers.parse(name, b"7")
        assert refused.value.hint
        assert parsers.parse("a.html", b"after").text == "after"
    finally:
        parsers.close()


def test_processor_time_is_counted_for_each_file_alone():
    parsers = limited(processor_seconds=2)
    try:
        before = process_of(parsers)
        pages = b"<p>Some words and more.</p>" * 60_000
        for _ in range(8):
            parsers.parse("a.html", pages)
        assert process_of(parsers) == before
    finally:
        parsers.close()


def test_one_that_was_ended_from_outside_is_tried_again(parsers):
    with pytest.raises(Transient, match=r"'a.end': its parser was ended from outside \(SIGKILL\)"):
        parsers.parse("a.end", b"")


def test_a_process_that_went_meanwhile_is_replaced_unnoticed(parsers):
    first = process_of(parsers)
    os.kill(first, 9)

    assert process_of(parsers) != first


def test_a_process_without_work_ends_by_itself():
    parsers = limited(idle_seconds=0.05)
    try:
        first = process_of(parsers)
        until_gone(first)
        assert parsers.parse("a.html", b"x").text == "x"
    finally:
        parsers.close()


def until_gone(process: int) -> None:
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_is_replaced_after_so_many_files():
    parsers = limited(files_max=2)
    try:
        assert len({process_of(parsers) for _ in range(6)}) == 3
    finally:
        parsers.close()


def test_closing_ends_what_is_under_way(parsers):
    with ThreadPoolExecutor() as pool:
        parsers.parse("a.html", b"")
        waiting = pool.submit(parsers.parse, "a.wait", b"")
        threading.Timer(0.2, parsers.close).start()
        with pytest.raises(Transient, match="stopped"):
            waiting.result(timeout=20)


def test_a_process_that_does_not_start_says_why():
    parsers = ParserProcess(also="no.such.module")
    try:
        with pytest.raises(Transient, match="does not start: ModuleNotFoundError: No module"):
            parsers.parse("a.html", b"")
    finally:
        parsers.close()


def test_an_interpreter_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    parsers = ParserProcess()

    with pytest.raises(Transient, match=r"does not start: .*No such file"):
        parsers.parse("a.html", b"")
    parsers.close()


FRAME = struct.Struct(">QQ")


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.pack(1 << 40, 0),
        FRAME.pack(0, 1 << 40),
        FRAME.pack(2, 1) + b"[]x",
        FRAME.pack(2, 1) + b"{}x",
        FRAME.pack(3, 0) + b"\xff{}",
        FRAME.pack(9000, 0) + b"[" * 9000,
        b"\xff" * 100,
    ],
)
def test_an_answer_out_of_bounds_is_nonsense(parsers, frame):
    assert "answered with" in refusal(parsers, "a.babbling", frame)
    assert parsers.parse("a.html", b"after").text == "after"


@pytest.mark.parametrize("lie", ["kind", "pages", "backwards", "metadata"])
def test_an_answer_that_makes_no_sense_is_refused(parsers, lie):
    told = refusal(parsers, "a.lying", lie.encode())

    assert "answered with" in told or "cannot be parsed" in told
    assert parsers.parse("a.html", b"after").text == "after"


def test_what_a_library_prints_does_not_get_among_the_answers(parsers):
    assert parsers.parse("a.printing", b"noise").text == ""
    assert parsers.parse("a.html", b"after").text == "after"


def test_no_secret_of_our_environment_gets_there(parsers, monkeypatch):
    monkeypatch.setenv("EVERVEC_SECRET", "hunter2")

    assert "EVERVEC_SECRET" not in parsers.parse("a.asking", b"").text


def test_there_is_no_network(parsers):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1]).encode()

        assert "may not do this: socket" in refusal(parsers, "a.connecting", port)
        if parsers.protection()["network"].startswith("none"):
            assert parsers.parse("a.connecting_past_python", port).text == "-1"


def test_the_system_itself_refuses_sockets_and_programs(parsers):
    """Where the kernel can filter calls: on Linux, on the usual machines."""
    if parsers.protection()["network"] == "none":
        assert parsers.parse("a.calling", b"").text == "[-1, -1]"
    else:
        assert platform.machine() not in {"x86_64", "aarch64"} or sys.platform != "linux"


def test_no_file_is_written_and_no_process_started(parsers, tmp_path):
    path = tmp_path / "kept"
    path.write_text("kept")

    assert "may not write files" in refusal(parsers, "a.writing", bytes(path))
    if sys.platform == "linux":
        assert parsers.parse("a.writing_past_python", bytes(path)).text == "-1"
    assert "may not do this: subprocess" in refusal(parsers, "a.starting", b"true")
    assert path.read_text() == "kept"

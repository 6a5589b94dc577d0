"""What people see: quick help, plain lines, a live view in a terminal, and a clean end."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from tests.cli.program import command, evervec, surroundings

PATIENCE = 40.0


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "tides.md").write_text("# Tides\n\nThe moon pulls the sea.")
    return tmp_path


def test_help_comes_at_once_and_imports_nothing_heavy():
    """Below 100 ms at its best: no numpy, no database, no terminal library, no event loop."""
    code = (
        "import sys, contextlib, io\n"
        "from evervec.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(['--help'])\n"
        "print(*({'numpy', 'apsw', 'rich', 'openvino', 'tokenizers', 'asyncio', 'watchfiles'}"
        " & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == ""

    def took():
        # Processor time: what others do on this machine meanwhile does not count.
        before = os.times()
        subprocess.run(command("--help"), capture_output=True, check=True, timeout=30)
        after = os.times()
        return (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )

    assert min(took() for _ in range(5)) < 0.1


def test_help_names_every_command_and_exit_code(tmp_path):
    told = evervec(tmp_path, "--help").out
    for word in ("up", "watch", "sync", "search", "verify", "repair", "failed", "stage", "doctor"):
        assert f"    {word} " in told
    assert "0 fine · 1 failed · 2 usage · 3 drift or unhealthy · 4 unreachable" in told
    assert evervec(tmp_path, "--version").out.startswith("evervec ")
    assert evervec(tmp_path).code == 2


def until(lines, wanted):
    """Read lines up to one with *wanted*; fail if the program ends or takes too long."""
    seen = []
    for line in lines:
        seen.append(line)
        if wanted in line:
            return seen
    raise AssertionError(f"{wanted!r} was not printed, only {seen}")


def test_up_tells_what_happened_in_plain_lines_and_ends_cleanly(notes):
    """Ctrl-C drains: nothing is left half done, and the exit code is 0."""
    process = subprocess.Popen(
        command("up", "notes"),
        cwd=notes,
        env=surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert "Ctrl-C ends" in until(process.stdout, "Ctrl-C ends")[-1]
        assert "1 indexed (1 chunks embedded, 0 reused)" in until(process.stdout, "1 indexed")[-1]
        (notes / "notes" / "owls.md").write_text("Owls hunt by night.")
        told = until(process.stdout, "2 searchable, all fresh")[-1]
        assert "1 indexed (1 chunks embedded" in told
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Stopping" in out
    assert "Stopped." in out
    assert err == ""
    (held,) = [evervec(notes, "jobs", "--json").json["jobs"]]
    assert held == []
    (hit,) = evervec(notes, "search", "owls", "--mode", "lexical", "--json").json["hits"]
    assert hit["id"] == "owls.md"


def test_a_terminal_shows_a_live_table_and_ctrl_c_ends_it_with_0(notes):
    """The table is drawn in place: collection, documents, fresh, failed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("up", "notes"),
        cwd=notes,
        env=surroundings(TERM="xterm", COLUMNS="120", LINES="40"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    try:
        seen += read_until(ours, b"1 indexed")
        process.send_signal(signal.SIGINT)
        seen += read_until(ours, b"Stopped.")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"collection" in seen
    assert b"100 %" in seen
    assert b"\x1b[" in seen
    assert b"Traceback" not in seen


def read_until(terminal, wanted):
    seen = b""
    limit = time.monotonic() + PATIENCE
    while wanted not in seen:
        assert time.monotonic() < limit, seen
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                seen += os.read(terminal, 65536)
            except OSError as error:  # the other side is closed
                raise AssertionError(seen) from error
    return seen

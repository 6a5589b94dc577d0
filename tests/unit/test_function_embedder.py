"""A user's function as a model: checked, normalised, and its errors told apart."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evervec.embedders import FunctionEmbedder, as_embedder
from evervec.embedders.local import LocalEmbedder
from evervec.errors import (
    ConfigError,
    Critical,
    EvervecError,
    Permanent,
    Transient,
    Unavailable,
)
from evervec.testing.embedder import HashEmbedder, Trouble, asked_in


def pairs(texts: list[str]) -> list[list[float]]:
    return [[3.0, 4.0] for _ in texts]


class Model:
    def __call__(self, texts: list[str]) -> Any:
        return np.full((len(texts), 4), 2, np.int64)


class LaterModel:
    async def __call__(self, texts: list[str]) -> Any:
        return pairs(texts)


def answering(answer: Any) -> FunctionEmbedder:
    return FunctionEmbedder(lambda _texts: answer, dimension=2, name="mine")


def raising(error: BaseException) -> FunctionEmbedder:
    def broken(texts: list[str]) -> Any:
        raise error

    return FunctionEmbedder(broken, dimension=2, name="mine")


async def test_answers_are_normalised() -> None:
    vectors = await FunctionEmbedder(pairs).embed(["a"], kind="document")

    assert vectors.tolist() == [[np.float32(0.6), np.float32(0.8)]]


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
async def test_no_scale_is_too_large_or_too_small(scale: float) -> None:
    vectors = await answering([[3 * scale, 4 * scale]]).embed(["a"], kind="document")

    assert np.allclose(vectors, [[0.6, 0.8]])


async def test_the_dimension_is_found_by_one_call_with_a_fixed_text() -> None:
    asked: list[list[str]] = []

    def counting(texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        return pairs(texts)

    embedder = FunctionEmbedder(counting)

    assert (embedder.dimension, embedder.dimension) == (2, 2)
    assert len(asked) == 1
    assert len(asked[0]) == 1


async def test_a_dimension_that_is_given_is_not_asked_for() -> None:
    assert raising(RuntimeError()).dimension == 2


@pytest.mark.parametrize("function", [Model(), LaterModel(), partial(pairs), partial(LaterModel())])
async def test_anything_callable_will_do(function: Any) -> None:
    embedder = FunctionEmbedder(function)

    assert len(await embedder.embed(["a", "b", "c"], kind="document")) == 3
    assert embedder.dimension in {2, 4}
    assert embedder.model
    assert len(embedder.revision) == 64


async def test_a_sync_function_never_blocks_the_loop_and_runs_one_at_a_time() -> None:
    entered, release = threading.Event(), threading.Event()
    inside: list[int] = []

    def slow(texts: list[str]) -> list[list[float]]:
        inside.append(threading.get_ident())
        entered.set()
        assert release.wait(20)
        return pairs(texts)

    embedder = FunctionEmbedder(slow, dimension=2)
    calls = [asyncio.create_task(embedder.embed(["a"], kind="document")) for _ in range(2)]
    assert await asyncio.to_thread(entered.wait, 20)
    assert len(inside) == 1
    release.set()
    await asyncio.gather(*calls)

    assert len(set(inside)) == 1
    assert inside[0] != threading.get_ident()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ([[1.0, 2.0], [1.0, 2.0]], "answered 2 x 2 where 1 x 2 was due"),
        ([[1.0, 2.0, 3.0]], "answered 1 x 3 where 1 x 2 was due"),
        ([1.0, 2.0], "answered 2 where 1 x 2 was due"),
        ([], "answered 0 where 1 x 2 was due"),
        (None, "answered"),
        ("vector", "not rows of numbers"),
        ([[1.0], [1.0, 2.0]], "not rows of numbers"),
        ([[float("nan"), 1.0]], "NaN or infinity for text 1 of 1"),
        ([[float("inf"), 1.0]], "NaN or infinity for text 1 of 1"),
        ([[0.0, 0.0]], "zeros, which have no direction for text 1 of 1"),
    ],
)
async def test_a_wrong_answer_is_refused_with_what_is_wrong(answer: Any, told: str) -> None:
    with pytest.raises(Permanent, match=told):
        await answering(answer).embed(["a"], kind="document")


@pytest.mark.parametrize("answer", [5.0, [1.0, 2.0], [[]], None, [[1.0], [1.0, 2.0]]])
async def test_a_wrong_answer_to_the_probe_is_refused(answer: Any) -> None:
    with pytest.raises(Permanent, match="no row of numbers for each text"):
        _ = FunctionEmbedder(lambda _texts: answer).dimension


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("slow"), Transient),
        (ConnectionResetError("gone"), Transient),
        (OSError("disk"), Transient),
        (KeyError("model"), Permanent),
        (ValueError("bad"), Permanent),
    ],
)
async def test_errors_become_ours_and_keep_their_cause(
    error: Exception, kind: type[EvervecError]
) -> None:
    with pytest.raises(kind, match=f"'mine'.*{type(error).__name__}") as caught:
        await raising(error).embed(["a"], kind="document")

    assert caught.value.__cause__ is error


async def test_a_stray_stop_iteration_does_not_hang_the_call() -> None:
    """A future cannot carry one, so it must not travel as an exception."""
    with pytest.raises(Permanent, match="StopIteration"):
        await raising(StopIteration()).embed(["a"], kind="document")


@pytest.mark.parametrize("error", [Unavailable("down"), Critical("stop"), Transient("later")])
async def test_our_own_errors_pass_unchanged(error: EvervecError) -> None:
    with pytest.raises(type(error)) as caught:
        await raising(error).embed(["a"], kind="document")

    assert caught.value is error


def test_the_revision_follows_the_functions_code() -> None:
    def compiled(source: str) -> Callable[[list[str]], Any]:
        names: dict[str, Any] = {}
        exec(source, names)
        function: Callable[[list[str]], Any] = names["f"]
        return function

    source = "def f(texts):\n    return [[1.0, len(t)] for t in texts]"
    revisions = {
        FunctionEmbedder(compiled(text)).revision for text in (source, "\n\n# moved\n" + source)
    }
    edited = FunctionEmbedder(compiled(source.replace("1.0", "2.0"))).revision

    assert len(revisions) == 1
    assert edited not in revisions


def test_a_revision_that_is_given_counts() -> None:
    assert FunctionEmbedder(pairs, revision="v7").revision == "v7"
    assert FunctionEmbedder(pairs).model == "pairs"


@pytest.mark.parametrize("revision", ["latest", "", " "])
def test_a_revision_that_pins_nothing_is_refused(revision: str) -> None:
    with pytest.raises(ConfigError, match="pins nothing"):
        FunctionEmbedder(pairs, revision=revision)


@given(st.text())
def test_tokens_are_counted_and_cut_alike(text: str) -> None:
    embedder = FunctionEmbedder(pairs, dimension=2)

    ends = list(embedder.token_ends(text))
    assert embedder.count_tokens([text]) == [len(ends) + 2]
    assert ends == sorted(set(ends))


def test_names_and_objects_become_models() -> None:
    mine = HashEmbedder()

    assert isinstance(as_embedder(None), LocalEmbedder)
    assert isinstance(as_embedder("local"), LocalEmbedder)
    assert isinstance(as_embedder("minilm"), LocalEmbedder)
    assert as_embedder(mine) is mine
    assert as_embedder(pairs).model == "pairs"


@pytest.mark.parametrize("model", [5, HashEmbedder, [pairs]])
def test_what_is_no_model_is_refused_with_what_is_possible(model: object) -> None:
    with pytest.raises(
        ConfigError, match=r"is not a model\n.*local,.*folder.*function.*token_ends"
    ):
        as_embedder(model)


@pytest.mark.parametrize("model", ["gpt", ""])
def test_what_is_no_models_name_is_refused_with_those_there_are(model: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a model\n.*local,.*static.*folder"):
        as_embedder(model)


async def test_texts_that_share_words_are_near_in_the_hash_model() -> None:
    """So that searches in tests have an answer; another process gives the same vectors."""
    embedder = HashEmbedder(dimension=256)
    query, near, far = await embedder.embed(
        ["leases expire", "when leases expire they end", "bread needs flour"], kind="document"
    )

    assert float(query @ near) > 0.4 > float(query @ far)
    assert np.array_equal(query, embedder.vector("leases expire"))
    assert "not-semantic" in embedder.model
    assert embedder.asked.total() == 3
    assert embedder.requests == 1


async def test_the_hash_model_misbehaves_as_told(tmp_path: Path) -> None:
    trouble = Trouble(failing=1, fail_on="bad", poison="poison", wide_on="wide", nan_on="nan")
    embedder = HashEmbedder(trouble=trouble, ledger=tmp_path / "asked")

    async def refused(kind: type[EvervecError], text: str, told: str) -> None:
        with pytest.raises(kind, match=told):
            await embedder.embed(["good", text], kind="document")

    await refused(Transient, "good", "told to fail")
    await refused(Permanent, "so bad", "text 2 of 2")
    await refused(Permanent, "poison", "as a whole")
    await refused(Permanent, "wide", "2 x 64 where 2 x 32")
    await refused(Permanent, "nan", "NaN")
    trouble.failing, trouble.error = 1, Unavailable("down")
    await refused(Unavailable, "good", "down")

    assert len(await embedder.embed(["good"], kind="query")) == 1
    assert asked_in(tmp_path / "asked") == embedder.asked
    assert embedder.asked["good"] == 9
    assert embedder.requests == 7


def test_the_ledger_outlives_a_model_that_kills_its_process(tmp_path: Path) -> None:
    ledger = tmp_path / "asked"
    program = f"""
import asyncio
from evervec.testing.embedder import HashEmbedder, Trouble
model = HashEmbedder(ledger={str(ledger)!r}, trouble=Trouble(kill_on="kill"))
asyncio.run(model.embed(["one", "kill"], kind="document"))
"""
    ran = subprocess.run([sys.executable, "-c", program], check=False, timeout=30)

    assert ran.returncode == -signal.SIGKILL
    assert asked_in(ledger) == {"one": 1, "kill": 1}
    assert json.loads(ledger.read_text())["kind"] == "document"
    assert asked_in(tmp_path / "none") == {}

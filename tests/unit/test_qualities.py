"""How true to the original a vector is, as its user chose it, and what that needs."""

import asyncio
import base64
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from tests.models import safetensors, weights

from evervec.embedders.folder import FolderEmbedder
from evervec.embedders.local import LocalEmbedder, engine, fetch, files
from evervec.embedders.local.embedder import quality_of
from evervec.embedders.local.room import PATIENCE, Room
from evervec.embedders.naming import named
from evervec.errors import ConfigError, Transient
from evervec.ports import Vectors

DATA = Path(__file__).parent / "data" / "minilm_fp32.json"
needs_int8 = pytest.mark.skipif(not engine.has_int8(), reason="the processor has no VNNI")


def reference() -> tuple[list[str], Vectors]:
    """Texts and what the original weights make of them, computed in float32 throughout."""
    cases = json.loads(DATA.read_text("utf-8"))
    rows = [np.frombuffer(base64.b64decode(case["vector"]), "<f2") for case in cases]
    return [case["text"] for case in cases], np.array(rows, np.float32)


async def cosines(embedder: LocalEmbedder) -> list[float]:
    texts, expected = reference()
    vectors = await embedder.embed(texts, kind="document")
    await embedder.close()
    # The vector of a single letter is mostly rounding, in every quality.
    whole = [len(text) > 1 for text in texts]
    return sorted((vectors * expected).sum(axis=1)[whole].tolist())


@pytest.fixture
def exact(tmp_path, monkeypatch):
    """A parcel in place of the original weights: those that are installed, in float32."""
    content = safetensors(weights())
    digest = hashlib.sha256(content).hexdigest()
    parcel = fetch.Parcel("weights==1", "0" * 64, "weights/model.safetensors", digest)
    monkeypatch.setenv("EVERVEC_CACHE", str(tmp_path))
    monkeypatch.setattr(fetch, "EXACT", parcel)
    parcel.path.parent.mkdir(parents=True)
    parcel.path.write_bytes(content)
    return parcel


@needs_int8
async def test_fast_is_within_what_it_promises():
    found = await cosines(LocalEmbedder(threads=2, quality="fast"))
    assert found[0] >= 0.995
    assert found[len(found) // 20] >= 0.997


async def test_exact_computes_what_its_weights_say(exact):
    """With the weights of the default, in a graph of our own: the same vectors."""
    texts, _ = reference()
    mine = LocalEmbedder(threads=2, quality="exact", precision="f32")
    shipped = LocalEmbedder(threads=2, precision="f32")
    one, other = [await each.embed(texts, kind="document") for each in (mine, shipped)]
    for each in (mine, shipped):
        await each.close()
    assert float((one * other).sum(axis=1).min()) > 0.997
    assert float((one * other).sum(axis=1).mean()) > 0.9993


@pytest.mark.skipif(not fetch.EXACT.path.is_file(), reason=f"not there: run `{fetch.FETCH}`")
async def test_exact_is_the_original():
    assert (await cosines(LocalEmbedder(threads=2, quality="exact")))[0] >= 0.9999


async def test_a_vector_is_that_of_its_text_whatever_else_is_in_the_request(exact):
    """Padding of the own graph leaves no trace."""
    embedder = LocalEmbedder(threads=1, quality="exact", precision="f32")
    short, long = "one", "many words " * 60
    together = await embedder.embed([short, long], kind="document")
    (alone,) = await embedder.embed([short], kind="document")
    await embedder.close()
    assert float(together[0] @ alone) > 0.99999


def test_no_two_qualities_share_a_space(exact):
    names = ["local", "local:exact", *(["local:fast"] if engine.has_int8() else [])]
    revisions = {named(name).revision for name in names}
    # A state shows twelve letters of a revision.
    assert len({revision[:12] for revision in revisions}) == len(names)
    assert LocalEmbedder(quality="exact", precision="f32").revision.startswith("exact-f32-")


def test_the_revision_of_the_default_stays_what_it_was():
    """States that exist are not embedded again because there are more qualities."""
    parts = (files.WEIGHTS_SHA256, files.TOKENIZER_SHA256, "256", "mean", "l2")
    expected = hashlib.sha256(" ".join(parts).encode()).hexdigest()
    assert LocalEmbedder(precision="f32").revision == f"f32-{expected}"


async def test_exact_without_its_weights_names_the_command_that_fetches_them(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERVEC_CACHE", str(tmp_path))
    with pytest.raises(ConfigError) as refused:
        await LocalEmbedder(quality="exact").embed(["text"], kind="query")
    assert "evervec model fetch exact" in str(refused.value)
    assert fetch.EXACT.sha256 in str(refused.value)


async def test_exact_with_damaged_weights_is_refused(exact):
    exact.path.write_bytes(exact.path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="is not the file") as refused:
        await LocalEmbedder(quality="exact").embed(["text"], kind="query")
    assert "evervec model fetch exact" in str(refused.value)


@pytest.mark.parametrize("flags", ["flags\t\t: fpu avx2 avx512f\n", None])
async def test_a_processor_without_int8_dot_products_refuses_fast(tmp_path, monkeypatch, flags):
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(flags)
    monkeypatch.setattr(engine, "CPUINFO", tmp_path / "cpuinfo")
    with pytest.raises(ConfigError, match="shows no int8 dot products") as refused:
        await LocalEmbedder(quality="fast").embed(["text"], kind="query")
    assert "use the default" in str(refused.value)


@pytest.mark.parametrize("kind", [LocalEmbedder, FolderEmbedder])
def test_a_processor_without_bfloat16_refuses_it_and_else_computes_in_float32(kind, monkeypatch):
    monkeypatch.setattr(engine, "has_bf16", lambda: False)
    place = [Path()] if kind is FolderEmbedder else []
    assert kind(*place).precision == "f32"
    with pytest.raises(ConfigError, match="'bf16' is not possible") as refused:
        _ = kind(*place, precision="bf16").precision
    assert "use f32" in str(refused.value)
    with pytest.raises(ConfigError, match="precision 'f16' is unknown"):
        kind(*place, precision="f16")


def test_an_unknown_quality_names_those_that_are_known():
    with pytest.raises(ConfigError, match="quality 'best' is unknown") as refused:
        quality_of("best")
    assert "default, fast, exact" in str(refused.value)


# --- Memory --------------------------------------------------------------------------------------


class Scarce:
    """Lets a request pass that is small enough, and runs out of memory on any other."""

    def __init__(self, monkeypatch, most):
        self.most = most
        self.asked: list[int] = []
        run = engine.Engine.run

        def scarce(engine_, rows):
            self.asked.append(len(rows))
            if len(rows) > self.most:
                raise MemoryError
            return run(engine_, rows)

        monkeypatch.setattr(engine.Engine, "run", scarce)


@pytest.mark.accepts("003-16", "003-31")
async def test_a_request_for_which_memory_does_not_suffice_is_halved_until_it_does(monkeypatch):
    embedder = LocalEmbedder(threads=1)
    texts = [f"number {number} of a long list" for number in range(100)]
    expected = await embedder.embed(texts, kind="document")
    scarce = Scarce(monkeypatch, most=8)
    vectors = await embedder.embed(texts, kind="document")
    assert float((vectors * expected).sum(axis=1).min()) > 0.999
    assert max(scarce.asked) > 8

    scarce.asked.clear()
    await embedder.embed(texts, kind="document")
    tried = max(scarce.asked)
    assert tried < 100, "what ran out is not tried again at once"

    # Memory is there again: requests grow back.
    scarce.most = 1000
    for _ in range(3 * PATIENCE):
        await embedder.embed(texts[:2], kind="document")
    scarce.asked.clear()
    await embedder.embed(texts, kind="document")
    await embedder.close()
    assert max(scarce.asked) > tried


@pytest.mark.accepts("003-31")
async def test_the_network_is_made_once_and_stays_warm(monkeypatch):
    """Also if the first requests come at one time."""
    made = []
    make = engine.Engine.__init__

    def noted(self, *given, **named):
        made.append(self)
        make(self, *given, **named)

    monkeypatch.setattr(engine.Engine, "__init__", noted)
    embedder = LocalEmbedder(threads=2)
    await asyncio.gather(*(embedder.embed([f"text {n}"], kind="query") for n in range(6)))
    await embedder.embed(["a later one"], kind="document")
    await embedder.close()
    assert len(made) == 1


async def test_one_text_for_which_memory_does_not_suffice_is_tried_again_later(monkeypatch):
    embedder = LocalEmbedder(threads=1)
    await embedder.embed(["warm"], kind="document")
    Scarce(monkeypatch, most=0)
    with pytest.raises(Transient, match="memory does not suffice"):
        await embedder.embed(["a text"], kind="document")
    await embedder.close()


@pytest.mark.accepts("003-16")
def test_a_request_shrinks_at_once_and_grows_slowly():
    room = Room(1024, least=256)
    for _ in range(5):
        room.ran_out()
    assert room.tokens == 256
    for _ in range(PATIENCE - 1):
        room.went_well()
    assert room.tokens == 256
    room.went_well()
    assert room.tokens == 512
    for _ in range(10 * PATIENCE):
        room.went_well()
    assert room.tokens == 1024


async def test_a_text_of_one_endless_token_is_embedded_by_its_beginning():
    embedder = LocalEmbedder(threads=1)
    endless = "x" * 1_000_000
    assert sum(embedder.count_tokens([endless])) >= 3
    assert (await embedder.embed([endless], kind="document")).shape == (1, 384)
    await embedder.close()

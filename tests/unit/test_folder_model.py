"""A model by its folder: everything that shapes a vector comes from its files."""

import json
from typing import Any

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
from tests.models import CONFIG, MODULES, POOLING, model_folder, safetensors, weights, write

from evervec.embedders import as_embedder
from evervec.embedders.folder import FolderEmbedder
from evervec.embedders.local import LocalEmbedder, files
from evervec.embedders.local.engine import Engine
from evervec.embedders.local.tokens import Tokens
from evervec.embedders.safetensors import tensors
from evervec.errors import ConfigError

TEXTS = ["A lease is a right until a time.", "Bread needs flour, water and patience.", "short"]
PROMPTS = "config_sentence_transformers.json"


async def embedded(embedder, texts=TEXTS, kind="document"):
    vectors = await embedder.embed(texts, kind=kind)
    await embedder.close()
    return vectors


def agreement(one, other):
    return float((one * other).sum(axis=1).min())


async def minilm(texts=TEXTS):
    return await embedded(LocalEmbedder(threads=2, precision="f32"), texts)


def folder_model(folder, **settings):
    return FolderEmbedder(folder, threads=2, precision="f32", **settings)


@pytest.mark.parametrize("network", ["onnx/model.onnx", "model.onnx", "model.safetensors"])
async def test_minilm_from_a_folder_is_minilm(tmp_path, network):
    model = folder_model(model_folder(tmp_path, network=network))
    assert model.dimension == 384
    assert model.limits.text_tokens_max == 256
    assert agreement(await embedded(model), await minilm()) > 0.999


async def test_a_plain_transformer_is_pooled_by_the_mean(tmp_path):
    """As its own library does with a folder that has no modules."""
    model_folder(tmp_path)
    for name in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        (tmp_path / name).unlink()
    model = folder_model(tmp_path)
    assert model.limits.text_tokens_max == 512
    assert agreement(await embedded(model), await minilm()) > 0.999


@pytest.mark.parametrize("kind", ["cls", "max"])
async def test_pooling_is_what_the_folder_says(tmp_path, kind):
    """Computed once more here, over what the network gives for each token."""
    wanted = {f"pooling_mode_{kind}_token{'s' if kind == 'max' else ''}": True}
    pooling = {**POOLING, "pooling_mode_mean_tokens": False, **wanted}
    model_folder(tmp_path, {"1_Pooling/config.json": pooling}, network="model.safetensors")
    found = await embedded(folder_model(tmp_path))

    means = await minilm()
    assert agreement(found, means) < 0.9
    # Alone, so that nothing is padded.
    ids = Tokens(files.tokenizer()).ids(TEXTS[:1], most=256)
    alone = Engine(files.weights(), threads=1, precision="f32", pooling=kind).run(ids)
    assert float(alone[0] @ found[0]) > 0.999


@pytest.mark.parametrize("kind", ["F16", "BF16"])
async def test_weights_in_half_precision_are_read(tmp_path, kind):
    content = safetensors(weights(), kind=kind)
    model = folder_model(model_folder(tmp_path, network="model.safetensors"))
    write(tmp_path, "model.safetensors", content)
    assert agreement(await embedded(model), await minilm()) > 0.998


@pytest.mark.accepts("R-39")
async def test_prompts_are_put_before_queries_and_documents(tmp_path):
    prompts = {"prompts": {"query": "query: ", "passage": "passage: "}}
    folder = model_folder(tmp_path, {PROMPTS: prompts})
    documents = await embedded(folder_model(folder))
    queries = await embedded(folder_model(folder), kind="query")
    assert agreement(documents, await minilm([f"passage: {text}" for text in TEXTS])) > 0.999
    assert agreement(queries, await minilm([f"query: {text}" for text in TEXTS])) > 0.999


async def test_a_prompt_takes_room_that_chunks_leave_free(tmp_path):
    prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
    plain = folder_model(model_folder(tmp_path / "plain"))
    prompted = folder_model(model_folder(tmp_path / "prompted", {PROMPTS: prompts}))
    assert list(plain.count_tokens([""])) == [2]
    assert list(prompted.count_tokens([""])) == [4]
    assert list(prompted.count_tokens(TEXTS)) == [n + 2 for n in plain.count_tokens(TEXTS)]


async def test_a_default_prompt_goes_before_everything_that_has_none_of_its_own(tmp_path):
    written = {"prompts": {"retrieve": "find: "}, "default_prompt_name": "retrieve"}
    folder = model_folder(tmp_path, {PROMPTS: written})
    for kind in ("document", "query"):
        found = await embedded(folder_model(folder), kind=kind)
        assert agreement(found, await minilm([f"find: {text}" for text in TEXTS])) > 0.999


async def test_lower_case_is_made_if_the_folder_asks_for_it(tmp_path):
    cased = json.loads((model_folder(tmp_path) / "tokenizer.json").read_text("utf-8"))
    cased["normalizer"] = None
    write(tmp_path, "tokenizer.json", cased)
    shouted = [text.upper() for text in TEXTS]
    assert agreement(await embedded(folder_model(tmp_path), shouted), await minilm()) < 0.9
    write(tmp_path, "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": True})
    model = folder_model(tmp_path)
    assert list(model.token_ends("İSTANBUL x"))[-1] == 10
    assert agreement(await embedded(model, shouted), await minilm()) > 0.999


async def test_a_text_is_read_as_far_as_the_folder_says(tmp_path):
    limits = {"sentence_bert_config.json": {"max_seq_length": 16}}
    model = folder_model(model_folder(tmp_path, limits))
    same, longer = await embedded(model, ["word " * 14, "word " * 14 + "and other things"])
    assert float(same @ longer) > 0.9999


def test_the_revision_follows_every_file_that_shapes_a_vector(tmp_path):
    folder = model_folder(tmp_path)
    first = folder_model(folder).revision
    assert folder_model(folder).revision == first
    seen = {first}
    for name, value in {
        "sentence_bert_config.json": {"max_seq_length": 128},
        "1_Pooling/config.json": {"pooling_mode_cls_token": True},
        PROMPTS: {"prompts": {"query": "q: "}},
        "tokenizer.json": (folder / "tokenizer.json").read_bytes() + b"\n",
        "onnx/model.onnx": b"other weights",
    }.items():
        write(folder, name, value)
        seen.add(folder_model(folder).revision)
    assert len(seen) == 6
    write(folder, "README.md", b"about it")
    assert folder_model(folder).revision in seen


async def test_a_reference_vector_is_checked_at_the_start(tmp_path):
    (expected,) = await minilm(TEXTS[:1])
    told = {"text": TEXTS[0], "vector": (3 * expected).tolist()}
    folder = model_folder(tmp_path, {"evervec.json": told})
    assert agreement(await embedded(folder_model(folder)), await minilm()) > 0.999

    write(folder, "evervec.json", {**told, "text": "another text"})
    with pytest.raises(ConfigError, match="does not give the vector that its") as no:
        await embedded(folder_model(folder))
    assert "the cosine is 0." in str(no.value)


def test_a_path_or_a_name_that_looks_like_one_is_a_folder(tmp_path, monkeypatch):
    model_folder(tmp_path / "bge-small")
    monkeypatch.chdir(tmp_path)
    for name in ("./bge-small", "bge-small", tmp_path / "bge-small", str(tmp_path / "bge-small")):
        model = as_embedder(name)
        assert isinstance(model, FolderEmbedder)
        assert model.model == "bge-small"


async def test_an_endless_word_is_read_by_its_beginning(tmp_path):
    assert (await embedded(folder_model(model_folder(tmp_path)), ["x" * 300_000])).shape == (1, 384)


BROKEN: dict[str, list[tuple[Any, str]]] = {
    "config.json": [(None, "needs config.json, which cannot be read"), (b"{", "is not JSON")],
    "tokenizer.json": [(None, "needs tokenizer.json"), (b"{}", "is not a tokenizer")],
    "config.json ": [({**CONFIG, "vocab_size": 30_000}, "has 30,522 tokens")],
    "modules.json": [
        (b"[", "is not JSON"),
        ({"a": 1}, "is no list of modules"),
        ([*MODULES, {"type": "x.Dense"}], "names a module 'Dense'"),
    ],
    "1_Pooling/config.json": [
        (None, "needs config.json"),
        ([1], "is not a JSON object"),
        ({"pooling_mode_lasttoken": True}, "pools tokens by pooling_mode_lasttoken"),
        ({**POOLING, "pooling_mode_cls_token": True}, "pools tokens by cls and mean"),
    ],
    "sentence_bert_config.json": [({"max_seq_length": 3}, "reads 3 tokens of a text")],
    PROMPTS: [({"prompts": {"query": 5}}, "prompts are not texts by name")],
    "onnx/model.onnx": [(None, "has no network that can be read"), (b"torn", "cannot compile")],
    "evervec.json": [({"text": "x", "vector": [1.0]}, "is not a text and its vector of 384")],
}


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [(name.strip(), content, told) for name, cases in BROKEN.items() for content, told in cases],
)
async def test_a_missing_or_broken_file_is_named_with_what_to_do(tmp_path, name, content, told):
    folder = model_folder(tmp_path)
    if content is None:
        (folder / name).unlink()
    else:
        write(folder, name, content)
    with pytest.raises(ConfigError) as refused:
        await embedded(folder_model(folder))
    assert told in str(refused.value)
    assert refused.value.hint
    assert str(tmp_path) in str(refused.value)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({**CONFIG, "model_type": "qwen3"}, "of a BERT (its type is 'qwen3')"),
        ({**CONFIG, "hidden_act": "swish"}, "asks for 'swish'"),
        ({**CONFIG, "position_embedding_type": "relative_key"}, "'relative_key' positions"),
        ({**CONFIG, "num_attention_heads": "many"}, "does not say the network's sizes"),
        ({**CONFIG, "hidden_size": None}, "has no hidden_size"),
        ({**CONFIG, "hidden_size": 128}, "gives 384 numbers"),
        ({**CONFIG, "num_hidden_layers": 7}, "have no 'encoder.layer.6."),
    ],
)
async def test_weights_that_cannot_become_a_network_say_why(tmp_path, config, told):
    folder = model_folder(tmp_path, {"config.json": config}, network="model.safetensors")
    with pytest.raises(ConfigError) as refused:
        await embedded(folder_model(folder))
    assert told in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize("kept", [0, 4, 100, 100_000])
async def test_weights_that_are_cut_short_are_refused(tmp_path, kept):
    folder = model_folder(tmp_path, network="model.safetensors")
    write(folder, "model.safetensors", (folder / "model.safetensors").read_bytes()[:kept])
    with pytest.raises(ConfigError, match="is not a whole safetensors file"):
        await embedded(folder_model(folder))


async def test_prompts_that_are_left_out_of_the_pooling_are_refused(tmp_path):
    pooling = {**POOLING, "include_prompt": False}
    folder = model_folder(
        tmp_path, {"1_Pooling/config.json": pooling, PROMPTS: {"prompts": {"query": "q: "}}}
    )
    with pytest.raises(ConfigError, match="leaves its prompts out of the pooling"):
        await embedded(folder_model(folder))


async def test_a_network_that_is_exchanged_while_it_is_read_is_refused(tmp_path):
    folder = model_folder(tmp_path)
    model = folder_model(folder)
    assert model.revision
    write(folder, "onnx/model.onnx", b"exchanged")
    with pytest.raises(ConfigError, match="was changed while it was read"):
        await embedded(model)


def test_a_folder_that_is_not_there_is_named():
    with pytest.raises(
        ConfigError, match=r"there is no model in '\./bge-smal': it is not a folder"
    ):
        as_embedder("./bge-smal")


@pytest.mark.parametrize(
    ("feed", "shape", "told"),
    [
        ("pixel_values", [-1, -1], "asks for pixel_values"),
        ("input_ids", [-1, -1, -1, -1], "answers neither a vector a token nor a vector a text"),
    ],
)
def test_a_network_that_is_not_for_texts_is_refused(feed, shape, told):
    given = ops.parameter(shape, np.int64, name=feed)
    given.output(0).set_names({feed})
    network = ov.Model([ops.convert(given, "f32")], [given], "odd")
    with pytest.raises(ConfigError, match=told) as refused:
        Engine(network, threads=1, precision="f32", name="odd")
    assert "feature extraction" in str(refused.value)


def test_safetensors_of_a_kind_that_is_not_known_are_refused():
    content = safetensors({"x": np.zeros(2, np.float32)}).replace(b"F32", b"F8x")
    with pytest.raises(ConfigError, match="the file is not a whole safetensors file"):
        tensors(content, name="the file")

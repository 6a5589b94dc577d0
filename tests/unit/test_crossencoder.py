"""A cross-encoder is read from its folder, and what is none is refused in words."""

import numpy as np
import openvino as ov
import pytest
from openvino import opset13 as ops
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from evervec.embedders.crossencoder import CrossEncoder
from evervec.errors import ConfigError
from evervec.model import Hit
from evervec.rerank import Rerank, reranked

WORDS = ("[PAD]", "[UNK]", "[SEP]", "low", "middle", "high")


def write_tokenizer(folder):
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [SEP]", pair="$A [SEP] $B:1 [SEP]:1", special_tokens=[("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))


def write_network(path, *, width=1, names=("input_ids", "attention_mask", "token_type_ids")):
    """A network that scores a pair by the sum of its second text's ids."""
    path.parent.mkdir(exist_ok=True)
    inputs = [ops.parameter([-1, -1], np.int64, name) for name in names]
    for one, name in zip(inputs, names, strict=True):
        one.output(0).get_tensor().set_names({name})
    product = inputs[0]
    for other in inputs[1:]:
        product = ops.multiply(product, other)
    score = ops.convert(ops.reduce_sum(product, np.int64(1), keep_dims=True), "f32")
    ov.save_model(ov.Model([ops.concat([score] * width, 1)], inputs, "judge"), path)


@pytest.fixture
def folder(tmp_path):
    write_tokenizer(tmp_path)
    write_network(tmp_path / "openvino_model.xml")
    return tmp_path


async def test_it_orders_hits_by_query_and_text_together(folder):
    judge = CrossEncoder(folder)
    texts = ["low", "high", "middle middle middle", "", *["low"] * 20]
    assert judge("high", texts) == [5, 7, 14, 2, *[5] * 20]
    hits = [Hit("c", number, 1, text, 0, 1) for number, text in enumerate(texts)]
    best = await reranked(hits, "high", Rerank(judge, seconds=30), 2)
    assert [(hit.id, hit.reranked) for hit in best] == [(2, 14), (1, 7)]


def test_what_does_not_fit_is_cut_from_the_text(folder):
    judge = CrossEncoder(folder, tokens_max=6)
    assert judge("low low", ["high high high high", "high"]) == [12, 7]


@pytest.mark.parametrize("name", ["openvino/openvino_model.xml", "openvino_model.xml"])
def test_the_network_may_lie_where_exporters_put_it(tmp_path, name):
    write_tokenizer(tmp_path)
    write_network(tmp_path / name)
    assert CrossEncoder(str(tmp_path))("", ["high"]) == [7]


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "holds no cross-encoder"),
        (lambda folder: (folder / "openvino_model.xml").unlink(), "holds no cross-encoder"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "cannot be read"),
        (lambda folder: (folder / "openvino_model.xml").write_text("<"), "cannot be read"),
        (
            lambda folder: write_network(folder / "openvino_model.xml", names=("pixels",)),
            "takes pixels",
        ),
        (
            lambda folder: write_network(folder / "openvino_model.xml", width=3),
            "gives 3 numbers a pair",
        ),
    ],
    ids=["no tokenizer", "no network", "broken tokenizer", "broken network", "images", "classes"],
)
def test_a_folder_that_holds_something_else_is_refused(folder, harm, told):
    harm(folder)
    with pytest.raises(ConfigError, match=told):
        CrossEncoder(folder)

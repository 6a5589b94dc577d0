"""BERT as a graph of OpenVINO's own operations, from weights as they are stored.

Two uses. The same weights run faster in a graph without what an exporter leaves in it: a fifth
over the ONNX file that the default reads. And weights that come without a graph, as safetensors,
need no torch to become one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from openvino import opset13 as ops

from evervec.errors import ConfigError

Values = NDArray[Any]
TABLES = ("word", "position", "token_type")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the weights do not say by themselves."""

    heads: int = 12
    layers: int = 6
    epsilon: float = 1e-12
    activation: str = "erf"
    """erf or tanh: how GELU is computed."""


class Weights(Protocol):
    """The parameters by BERT's names, without `.weight` and `.bias` in `matrix`."""

    def vector(self, name: str) -> Values:
        """Return a parameter as float32."""

    def matrix(self, name: str) -> Any:
        """Return a linear layer's weights, a row for each output, as a node of the graph."""

    def rows(self, name: str, ids: Any) -> Any:
        """Return a table's rows for *ids*, as a node of the graph."""


class FullWeights:
    """Arrays by name, as a safetensors file holds them."""

    def __init__(self, arrays: Mapping[str, Values]) -> None:
        self._arrays = {name.removeprefix("bert."): array for name, array in arrays.items()}

    def vector(self, name: str) -> Values:
        if name not in self._arrays:
            raise ConfigError(
                f"the weights have no {name!r}, which a BERT model needs",
                hint="use a model of type bert, or give the folder an onnx/model.onnx",
            )
        return np.ascontiguousarray(self._arrays[name], np.float32)

    def matrix(self, name: str) -> Any:
        return ops.constant(self.vector(f"{name}.weight"))

    def rows(self, name: str, ids: Any) -> Any:
        return ops.gather(self.matrix(name), ids, _whole(0))


class Int8Weights:
    """The int8 constants and scales of the ONNX file that comes with the install, as they are.

    A linear layer there is `input x (int8 x scale) + bias`; only the bias carries its name.
    """

    def __init__(self, stored: bytes) -> None:
        self._model = ov.Core().read_model(stored)  # its constants live as long as it does
        self._constants: dict[str, Any] = {}
        self._matrices: dict[str, tuple[Values, Values]] = {}
        for node in self._model.get_ops():
            if node.get_type_name() == "Constant":
                self._constants[node.get_friendly_name().removeprefix("inner.")] = node
            elif node.get_type_name() == "Add":
                self._learn(*map(_source, node.inputs()))

    def _learn(self, product: Any, bias: Any) -> None:
        name = bias.get_friendly_name()
        if product.get_type_name() == "MatMul" and name.endswith(".bias"):
            convert, scale = map(_source, _source(product.input(1)).inputs())
            values = _source(convert.input(0)).data
            self._matrices[name.removeprefix("inner.").removesuffix(".bias")] = (values, scale.data)

    def vector(self, name: str) -> Values:
        if name in self._constants:
            return np.array(self._constants[name].data, np.float32)
        stored, scale = (self._constants[f"{name}_{part}"].data for part in ("q", "scale"))
        return np.asarray(stored.astype(np.float32) * scale, np.float32)

    def matrix(self, name: str) -> Any:
        values, scale = (np.ascontiguousarray(each.T) for each in self._matrices[name])
        return ops.multiply(ops.convert(ops.constant(values), "f32"), ops.constant(scale))

    def rows(self, name: str, ids: Any) -> Any:
        table, scale = (
            ops.gather(
                ops.constant(np.array(self._constants[f"{name}.weight_{part}"].data)),
                ids,
                _whole(0),
            )
            for part in ("q", "scale")
        )
        return ops.multiply(ops.convert(table, "f32"), scale)


def bert(weights: Weights, shape: Shape) -> ov.Model:
    """Return the network: `input_ids` and `attention_mask` in, `last_hidden_state` out."""
    ids = ops.parameter([-1, -1], np.int64, name="input_ids")
    mask = ops.parameter([-1, -1], np.int64, name="attention_mask")
    layers = _Layers(weights, shape)
    hidden = layers.embedded(ids)
    kept = ops.subtract(ops.convert(mask, "f32"), _real(1.0))
    # What is only padding gets so little attention that nothing is left of it.
    bias = ops.multiply(ops.unsqueeze(ops.unsqueeze(kept, _whole(1)), _whole(1)), _real(1e4))
    for number in range(shape.layers):
        hidden = layers.layer(hidden, bias, f"encoder.layer.{number}.")
    hidden.output(0).set_names({"last_hidden_state"})
    return ov.Model([hidden], [ids, mask], "bert")


class _Layers:
    def __init__(self, weights: Weights, shape: Shape) -> None:
        self._weights = weights
        self._shape = shape

    def embedded(self, ids: Any) -> Any:
        word, position, kind = (f"embeddings.{table}_embeddings" for table in TABLES)
        # Every token is of the first kind: a text is never paired with another here.
        places = (
            self._weights.vector(f"{position}.weight") + self._weights.vector(f"{kind}.weight")[0]
        )
        length = ops.gather(ops.shape_of(ids), _list(1), _whole(0))
        taken = ops.slice(ops.constant(places), _list(0), length, _list(1), _list(0))
        words = self._weights.rows(word, ids)
        return self._normed(ops.add(words, ops.unsqueeze(taken, _whole(0))), "embeddings.LayerNorm")

    def layer(self, hidden: Any, bias: Any, prefix: str) -> Any:
        attended = self._linear(
            self._attention(hidden, bias, f"{prefix}attention.self."),
            f"{prefix}attention.output.dense",
        )
        hidden = self._normed(ops.add(attended, hidden), f"{prefix}attention.output.LayerNorm")
        wide = ops.gelu(self._linear(hidden, f"{prefix}intermediate.dense"), self._shape.activation)
        narrow = self._linear(wide, f"{prefix}output.dense")
        return self._normed(ops.add(narrow, hidden), f"{prefix}output.LayerNorm")

    def _attention(self, hidden: Any, bias: Any, prefix: str) -> Any:
        width = self._weights.vector(f"{prefix}query.bias").shape[0]
        size = width // self._shape.heads
        query, key, value = (
            ops.transpose(
                ops.reshape(
                    self._linear(hidden, prefix + part),
                    _list(0, 0, self._shape.heads, size),
                    special_zero=True,
                ),
                _list(0, 2, 1, 3),
            )
            for part in ("query", "key", "value")
        )
        scores = ops.matmul(ops.multiply(query, _real(size**-0.5)), key, False, True)
        shares = ops.softmax(ops.add(scores, bias), -1)
        joined = ops.transpose(ops.matmul(shares, value, False, False), _list(0, 2, 1, 3))
        return ops.reshape(joined, _list(0, 0, width), special_zero=True)

    def _linear(self, hidden: Any, name: str) -> Any:
        product = ops.matmul(hidden, self._weights.matrix(name), False, True)
        return ops.add(product, self._row(f"{name}.bias"))

    def _normed(self, hidden: Any, name: str) -> Any:
        normed = ops.mvn(hidden, _list(-1), True, self._shape.epsilon, "inside_sqrt")
        return ops.add(ops.multiply(normed, self._row(f"{name}.weight")), self._row(f"{name}.bias"))

    def _row(self, name: str) -> Any:
        return ops.constant(self._weights.vector(name)[None, None])


def _source(feed: Any) -> Any:
    return feed.get_source_output().get_node()


def _real(value: float) -> Any:
    return ops.constant(np.float32(value))


def _whole(value: int) -> Any:
    return ops.constant(np.int64(value))


def _list(*values: int) -> Any:
    return ops.constant(np.array(values, np.int64))

"""Folders of models, built from the MiniLM that is installed: small work, real files."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from evervec.embedders.local import files

CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 384,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {
        "idx": 2,
        "name": "2",
        "path": "2_Normalize",
        "type": "sentence_transformers.models.Normalize",
    },
]
POOLING = {
    "word_embedding_dimension": 384,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": True,
    "pooling_mode_max_tokens": False,
}


def write(folder: Path, name: str, value: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def model_folder(
    folder: Path, more: Mapping[str, object] | None = None, *, network: str = "onnx/model.onnx"
) -> Path:
    """Write MiniLM as a folder; *more* are further files, or other contents, by name."""
    content = files.weights() if network.endswith(".onnx") else safetensors(weights())
    contents: dict[str, object] = {
        network: content,
        "tokenizer.json": files.tokenizer(),
        "config.json": CONFIG,
        "modules.json": MODULES,
        "1_Pooling/config.json": POOLING,
        "sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False},
        **(more or {}),
    }
    for name, value in contents.items():
        write(folder, name, value)
    return folder


@cache
def weights() -> dict[str, NDArray[np.float32]]:
    """Return MiniLM's parameters in float32, by the names that BERT gives them."""
    model = ov.Core().read_model(files.weights())
    found: dict[str, NDArray[np.float32]] = {}
    for node in model.get_ops():
        name = node.get_friendly_name().removeprefix("inner.")
        if node.get_type_name() == "Constant" and name.endswith((".weight", ".bias")):
            found[name] = np.array(node.data, np.float32)
        if node.get_type_name() == "Multiply" and name.endswith("_embeddings.weight_mul"):
            found[name.removesuffix("_mul")] = scaled(node)
        if node.get_type_name() == "Add":
            product, bias = (each.get_source_output().get_node() for each in node.inputs())
            if product.get_type_name() == "MatMul" and bias.get_friendly_name().endswith(".bias"):
                linear = bias.get_friendly_name().removeprefix("inner.").removesuffix(".bias")
                matrix = product.input(1).get_source_output().get_node()
                found[f"{linear}.weight"] = np.ascontiguousarray(scaled(matrix).T)
    return found


def scaled(multiply: Any) -> NDArray[np.float32]:
    convert, scale = (each.get_source_output().get_node() for each in multiply.inputs())
    values = convert.input(0).get_source_output().get_node().data
    return np.asarray(values.astype(np.float32) * scale.data, np.float32)


def safetensors(arrays: dict[str, NDArray[Any]], *, kind: str = "F32") -> bytes:
    """Return a safetensors file of *arrays*, each stored as *kind*."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    at = 0
    for name, array in arrays.items():
        part = stored(array, kind)
        header[name] = {
            "dtype": kind,
            "shape": list(array.shape),
            "data_offsets": [at, at + len(part)],
        }
        parts.append(part)
        at += len(part)
    told = json.dumps(header).encode()
    return len(told).to_bytes(8, "little") + told + b"".join(parts)


def stored(array: NDArray[Any], kind: str) -> bytes:
    if kind == "BF16":
        return (array.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return array.astype({"F32": "<f4", "F16": "<f2"}[kind]).tobytes()

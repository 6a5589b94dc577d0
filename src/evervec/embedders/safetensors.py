"""Weights out of a safetensors file: a header of JSON, then the numbers. Nothing in it can run."""

import json
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evervec.errors import ConfigError

KINDS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def tensors(content: bytes, *, name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays in *content* by name, bfloat16 as float32. *name* is for errors only."""
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        return {
            key: _array(content, 8 + length, entry)
            for key, entry in header.items()
            if key != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{name} is not a whole safetensors file: {error}",
            hint="copy it again; it may be cut short",
        ) from error


def _array(content: bytes, start: int, entry: dict[str, Any]) -> NDArray[Any]:
    begin, end = entry["data_offsets"]
    values = np.frombuffer(content[start + begin : start + end], KINDS[entry["dtype"]])
    if values.size != prod(entry["shape"]):
        raise ValueError("it ends before its last number")
    if entry["dtype"] == "BF16":
        # The upper half of a float32.
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.reshape(entry["shape"])

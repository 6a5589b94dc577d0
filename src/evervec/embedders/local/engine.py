"""The network on OpenVINO: rows of token ids in, unit vectors out. Blocking, thread-safe."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import openvino as ov
from numpy.typing import NDArray

from evervec.embedders.rows import unit_rows
from evervec.errors import ConfigError, EvervecError, Transient
from evervec.ports import Vectors

MODEL = "all-MiniLM-L6-v2"
FEEDS = {"input_ids", "attention_mask", "token_type_ids"}
CPUINFO = Path("/proc/cpuinfo")

Pooling: TypeAlias = Literal["mean", "cls", "max"]
Network: TypeAlias = "bytes | Path | ov.Model"
"""An ONNX file's content, its path, or a graph."""


def has_bf16() -> bool:
    """Tell whether this processor computes in bfloat16, at twice the speed of float32."""
    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def has_int8() -> bool:
    """Tell whether this processor multiplies int8 at speed.

    OpenVINO says it of every processor, so the processor's own flags are asked; where a system
    does not show them, the answer is no.
    """
    try:
        shown = CPUINFO.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    flags = {
        flag for line in shown.splitlines() if line.startswith("flags") for flag in line.split()
    }
    return not flags.isdisjoint({"avx512_vnni", "avx_vnni", "amx_int8"})


class Engine:
    """A compiled model with as many streams as threads: that many calls run at once.

    One model with several streams is up to a quarter faster than one stream on all cores, and
    twice as fast as several compiled models, which end up on the same core.

    With *group*, activations are rounded to int8 in groups of so many, where weights are int8.
    """

    def __init__(
        self,
        network: Network,
        *,
        threads: int,
        precision: str,
        group: int | None = None,
        pooling: Pooling = "mean",
        name: str = MODEL,
    ) -> None:
        settings: dict[str, Any] = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            "INFERENCE_PRECISION_HINT": precision,
        }
        if group is not None:
            settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = group
        self.name = name
        self._pooling = pooling
        try:
            core = ov.Core()
            read = network if isinstance(network, ov.Model) else core.read_model(network)
            self._model = core.compile_model(read, "CPU", settings)
        except RuntimeError as error:
            raise ConfigError(
                f"OpenVINO cannot compile the model {name} as {precision}: {_first_line(error)}",
                hint="pip install --force-reinstall 'openvino>=2026.4'"
                if name == MODEL
                else "export its ONNX file again; it may be cut short",
            ) from error
        self._feeds = _feeds(self._model, name)
        self._output, self.dimension = _output(self._model, name)
        self._own = threading.local()
        # OpenVINO's bindings initialise themselves inside the first call, under a lock of C++'s
        # own: two threads in it at once wait for each other for ever, one of them with the GIL.
        # So the first call is made here, while nobody else can.
        self.dimension = self.run([[0]]).shape[1]

    def run(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return a unit vector for each row of token ids. Raises MemoryError if there is too little."""
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            hidden = self._request().infer({name: feed[name] for name in self._feeds})[self._output]
            pooled = hidden if hidden.ndim == 2 else _pooled(hidden, mask, self._pooling)
        except EvervecError:
            raise
        except RuntimeError as error:
            if "bad_alloc" in str(error) or "memory" in str(error):
                raise MemoryError(_first_line(error)) from error
            raise Transient(
                f"the model {self.name} broke off on a request of {len(rows)} texts: "
                f"{_first_line(error)}"
            ) from error
        dimension = self.dimension or pooled.shape[1]
        return unit_rows(pooled, count=len(rows), dimension=dimension, model=self.name)

    def _request(self) -> ov.InferRequest:
        # A request holds the buffers of one inference, so each thread has its own.
        if not hasattr(self._own, "request"):
            self._own.request = self._model.create_infer_request()
        request: ov.InferRequest = self._own.request
        return request


def _pooled(
    hidden: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling
) -> NDArray[np.float32]:
    if pooling == "cls":
        return np.array(hidden[:, 0])
    if pooling == "max":
        return np.asarray(np.where(mask[..., None] > 0, hidden, -np.inf).max(axis=1), np.float32)
    # `einsum` here stays on this thread; a matrix product would wake the BLAS's own.
    sums: NDArray[np.float32] = np.einsum("bs,bsd->bd", mask.astype(np.float32), hidden)
    return sums


def _feeds(model: Any, name: str) -> list[str]:
    wanted = [each.any_name for each in model.inputs]
    unknown = sorted(set(wanted) - FEEDS)
    if unknown or "input_ids" not in wanted:
        raise ConfigError(
            f"the model {name} asks for {', '.join(sorted(wanted))}, which are not a text's tokens",
            hint="export it for feature extraction: input_ids, attention_mask, token_type_ids",
        )
    return wanted


def _output(model: Any, name: str) -> tuple[int, int]:
    """Return which output to take, and its last dimension, or 0 if that shows only when it runs."""
    for rank in (3, 2):
        for place, output in enumerate(model.outputs):
            shape = output.partial_shape
            if shape.rank.is_static and len(shape) == rank:
                return place, shape[rank - 1].get_length() if shape[rank - 1].is_static else 0
    raise ConfigError(
        f"the model {name} answers neither a vector a token nor a vector a text",
        hint="export it for feature extraction",
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]

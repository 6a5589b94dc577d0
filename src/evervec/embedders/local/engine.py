"""The network on OpenVINO: rows of token ids in, unit vectors out. Blocking, thread-safe."""

import threading
from collections.abc import Sequence

import numpy as np
import openvino as ov

from evervec.embedders.rows import unit_rows
from evervec.errors import ConfigError, EvervecError, Transient
from evervec.ports import Vectors

MODEL = "all-MiniLM-L6-v2"
DIMENSION = 384


def has_bf16() -> bool:
    """Tell whether this processor computes in bfloat16, at twice the speed of float32."""
    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


class Engine:
    """A compiled model with as many streams as threads: that many calls run at once.

    One model with several streams is up to a quarter faster than one stream on all cores, and
    twice as fast as several compiled models, which end up on the same core.
    """

    def __init__(self, weights: bytes, *, threads: int, precision: str) -> None:
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            "INFERENCE_PRECISION_HINT": precision,
        }
        try:
            core = ov.Core()
            self._model = core.compile_model(core.read_model(weights), "CPU", settings)
        except RuntimeError as error:
            raise ConfigError(
                f"OpenVINO cannot compile the local model as {precision}: {_first_line(error)}",
                hint="pip install --force-reinstall 'openvino>=2026.4'",
            ) from error
        self._own = threading.local()
        # OpenVINO's bindings initialise themselves inside the first call, under a lock of C++'s
        # own: two threads in it at once wait for each other for ever, one of them with the GIL.
        # So the first call is made here, while nobody else can.
        self.run([[0]])

    def run(self, rows: Sequence[Sequence[int]]) -> Vectors:
        """Return a vector for each row of token ids: the mean over its tokens, normalised."""
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        try:
            hidden = self._request().infer(
                {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            )[0]
            # `einsum` here stays on this thread; a matrix product would wake the BLAS's own.
            sums = np.einsum("bs,bsd->bd", mask.astype(np.float32), hidden)
        except EvervecError:
            raise
        except (RuntimeError, MemoryError) as error:
            raise Transient(
                f"the local model broke off on a request of {len(rows)} texts: {_first_line(error)}"
            ) from error
        return unit_rows(sums, count=len(rows), dimension=DIMENSION, model=MODEL)

    def _request(self) -> ov.InferRequest:
        # A request holds the buffers of one inference, so each thread has its own.
        if not hasattr(self._own, "request"):
            self._own.request = self._model.create_infer_request()
        request: ov.InferRequest = self._own.request
        return request


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]

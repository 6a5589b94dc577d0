"""A cross-encoder from a folder: it reads query and text together and says how well they fit.

The folder has `tokenizer.json` and the network, as `openvino_model.xml` or `model.onnx`, there or in a
folder `openvino` or `onnx`. Nothing is downloaded. Use it as `rerank=CrossEncoder("./folder")`.
"""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evervec.errors import ConfigError

NETWORKS = (
    "openvino_model.xml",
    "openvino/openvino_model.xml",
    "model.onnx",
    "onnx/model.onnx",
)
INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
PAIRS_AT_ONCE = 8


class CrossEncoder:
    """A judge for `evervec.Rerank`. Loads the model at once; safe for use from several threads.

    A pair takes *tokens_max* tokens at most; of a longer one, the text's end is left out.
    """

    def __init__(self, folder: str | Path, *, tokens_max: int = 512) -> None:
        import openvino as ov
        from tokenizers import Tokenizer

        place = Path(folder)
        network = next((place / name for name in NETWORKS if (place / name).is_file()), None)
        if network is None or not (place / "tokenizer.json").is_file():
            raise ConfigError(
                f"{str(folder)!r} holds no cross-encoder",
                hint=f"it needs tokenizer.json, and one of {', '.join(NETWORKS)}",
            )
        try:
            self._tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
            core = ov.Core()
            self._model = core.compile_model(core.read_model(network), "CPU")
        except Exception as error:
            raise ConfigError(
                f"the cross-encoder in {str(folder)!r} cannot be read: {_last_line(error)}",
                hint="copy it again; both files must come from one model",
            ) from error
        self._inputs = {each.get_any_name() for each in self._model.inputs}
        if not {"input_ids", "attention_mask"} <= self._inputs <= INPUTS:
            raise ConfigError(
                f"the network in {str(folder)!r} takes {', '.join(sorted(self._inputs))}",
                hint=f"a cross-encoder takes {', '.join(sorted(INPUTS))}",
            )
        self._tokenizer.enable_truncation(tokens_max, strategy="only_second")
        self._tokenizer.enable_padding()
        self._one_at_a_time = threading.Lock()
        # The first call is made while nobody else can make it: see the local model's engine.
        self._run([("", "")])

    def __call__(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score a text: the greater, the better it answers *query*."""
        scores = np.zeros(len(texts))
        # Pairs of like length together, so that little is filled up.
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for first in range(0, len(order), PAIRS_AT_ONCE):
            places = order[first : first + PAIRS_AT_ONCE]
            scores[places] = self._run([(query, texts[place]) for place in places])
        return [float(score) for score in scores]

    def _run(self, pairs: list[tuple[str, str]]) -> Any:
        with self._one_at_a_time:
            encoded = self._tokenizer.encode_batch(pairs)
            given = {
                "input_ids": np.array([each.ids for each in encoded], np.int64),
                "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
                "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
            }
            told = self._model({name: given[name] for name in self._inputs})[0]
        logits = np.asarray(told).reshape(len(pairs), -1)
        if logits.shape[1] != 1:
            raise ConfigError(
                f"the network gives {logits.shape[1]} numbers a pair",
                hint="a cross-encoder that ranks gives one",
            )
        return logits[:, 0]


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]

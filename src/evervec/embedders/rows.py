"""The check that every answer of every model passes before it counts as vectors."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evervec.errors import Permanent
from evervec.ports import Vectors


def unit_rows(answer: ArrayLike, *, count: int, dimension: int, model: str) -> Vectors:
    """Return *answer* as *count* rows of unit length.

    Raises Permanent if it has another shape, or a row without a direction: such a vector would
    be stored and then answer every search wrongly.
    """
    rows = _numbers(answer, model)
    if count == 0 and rows.size == 0:
        return np.zeros((0, dimension), np.float32)
    if rows.shape != (count, dimension):
        raise Permanent(
            f"model {model!r} answered {_shape(rows)} where {count} x {dimension} was due",
            hint="a model gives one vector of its dimension for each text, in order",
        )
    broken: NDArray[np.bool_] = np.logical_or.reduce(~np.isfinite(rows), axis=1)
    _refuse(broken, f"model {model!r} answered NaN or infinity", count)
    # Scaled by the largest value first, so that no square overflows or vanishes.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    _refuse(largest[:, 0] == 0.0, f"model {model!r} answered zeros, which have no direction", count)
    rows = rows / largest
    lengths = np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
    unit: Vectors = (rows / lengths).astype(np.float32)
    return unit


def _numbers(answer: ArrayLike, model: str) -> NDArray[np.float64]:
    try:
        return np.asarray(answer, np.float64)
    except (TypeError, ValueError) as error:
        raise Permanent(
            f"model {model!r} answered something that is not rows of numbers: {error}",
            hint="return a list of lists of floats, or an array with one row a text",
        ) from error


def _shape(rows: NDArray[np.float64]) -> str:
    return " x ".join(map(str, rows.shape)) or "a single number"


def _refuse(wrong: NDArray[np.bool_], what: str, count: int) -> None:
    if wrong.any():
        first = int(np.argmax(wrong)) + 1
        raise Permanent(f"{what} for text {first} of {count} ({int(wrong.sum())} in all)")

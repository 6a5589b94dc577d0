"""A user's own function as a model, and the one place that tells what can be a model."""

import asyncio
import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from evervec.embedders.naming import NAMES, named
from evervec.embedders.rows import unit_rows
from evervec.errors import ConfigError, EvervecError, Permanent, Transient, Unavailable
from evervec.ports import Embedder, Kind, Limits, Vectors

if TYPE_CHECKING:
    from typing import Protocol

    class Callback(Protocol):
        """What a user may hand over: texts in, one row of numbers a text out."""

        def __call__(self, texts: list[str], /) -> ArrayLike | Awaitable[ArrayLike]: ...


PROBE = "The quick brown fox jumps over the lazy dog."
"""What a function is asked to learn its dimension."""

# A run of letters and digits is a token for each four characters begun, and any other visible
# character is one. On English text this is within about a third of real tokenizers, mostly above.
_TOKEN = re.compile(r"\w{1,4}|[^\w\s]")
_SHAPE = ("model", "revision", "dimension", "limits", "count_tokens", "token_ends", "embed")


class FunctionEmbedder:
    """Wraps `function(texts) -> rows`, sync or async, checks every answer and normalises it.

    A sync function runs on one thread of its own, one call at a time. Without *dimension* the
    function is asked once, with a fixed text, when the dimension is first needed; an async one
    is asked in an event loop of that moment, so give a dimension if it keeps connections.

    Without *revision*, the revision is a digest of the function's own compiled code, constants
    included. It changes when that function is edited, but not when a function or a model behind
    it changes, and perhaps with Python itself; name a revision if you can.
    """

    def __init__(
        self,
        function: "Callback",
        *,
        dimension: int | None = None,
        revision: str | None = None,
        name: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigError(f"{function!r} is not a function from texts to vectors")
        if dimension is not None and dimension < 1:
            raise ConfigError(f"dimension {dimension!r} is not a number of coordinates")
        if revision is not None and (not revision.strip() or revision == "latest"):
            raise ConfigError(
                f"revision {revision!r} pins nothing", hint="name a version or a hash"
            )
        self._function = function
        self._async = _is_async(function)
        self._name = name or _name_of(function)
        self._revision = revision or _digest_of(function)
        self._dimension = dimension
        self._limits = limits or Limits()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="evervec-function")
        self._closed = False

    @property
    def model(self) -> str:
        return self._name

    @property
    def revision(self) -> str:
        return self._revision

    @property
    def dimension(self) -> int:
        """Known, or found out by one call, which then blocks. Raises what `embed` raises."""
        if self._dimension is None:
            with ThreadPoolExecutor(1, thread_name_prefix="evervec-probe") as pool:
                # On a thread of its own: the caller may be inside a running event loop.
                answer = pool.submit(asyncio.run, self._ask([PROBE])).result()
            self._dimension = self._width(answer)
        return self._dimension

    @property
    def limits(self) -> Limits:
        return self._limits

    def count_tokens(self, texts: Sequence[str]) -> Sequence[int]:
        """Return an approximation: a token for each four characters of a word, and two more."""
        return [2 + sum(1 for _ in _TOKEN.finditer(text)) for text in texts]

    def token_ends(self, text: str) -> Sequence[int]:
        return [match.end() for match in _TOKEN.finditer(text)]

    async def embed(self, texts: Sequence[str], *, kind: Kind) -> Vectors:  # noqa: ARG002  # a plain function has no kinds
        """Return one unit-length row a text, in order.

        Transient for the function's TimeoutError, ConnectionError and other OSErrors, Permanent
        for its other errors and for a wrong answer; it may raise Evervec's own errors itself.
        """
        if not texts:
            return np.zeros((0, self._dimension or 0), np.float32)
        answer = await self._ask(list(texts))
        if self._dimension is None:
            self._dimension = self._width(answer)
        return unit_rows(answer, count=len(texts), dimension=self._dimension, model=self._name)

    async def close(self) -> None:
        """Wait for the call under way."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, cancel_futures=True)

    async def _ask(self, texts: list[str]) -> ArrayLike:
        if self._closed:
            raise Unavailable(f"model {self._name!r} was closed", after=0.0)
        try:
            answer = self._function(texts) if self._async else await self._on_thread(texts)
            # A sync function may hand back something to await, as a lambda around one does.
            rows: ArrayLike = await answer if inspect.isawaitable(answer) else answer
        except EvervecError:
            raise
        except OSError as error:
            raise Transient(f"model {self._name!r} broke off: {_told(error)}") from error
        except Exception as error:
            raise Permanent(f"model {self._name!r} raised {_told(error)}") from error
        return rows

    async def _on_thread(self, texts: list[str]) -> Any:
        loop = asyncio.get_running_loop()
        answer, error = await loop.run_in_executor(self._pool, self._caught, texts)
        if error is not None:
            raise error
        return answer

    def _caught(self, texts: list[str]) -> tuple[Any, Exception | None]:
        # Errors travel as values: a future swallows a StopIteration and copies a TimeoutError.
        try:
            return self._function(texts), None
        except Exception as error:  # noqa: BLE001  # raised again by the caller
            return None, error

    def _width(self, answer: ArrayLike) -> int:
        shape = np.shape(answer) if _regular(answer) else ()
        if len(shape) != 2 or shape[1] == 0:
            raise Permanent(
                f"model {self._name!r} gave no row of numbers for each text",
                hint="return a list of lists of floats, or an array with one row a text",
            )
        return int(shape[1])


def as_embedder(model: object) -> Embedder:
    """Return the embedder that *model* means. Raises ConfigError if it means none.

    None is the local model, a text or a path a model by its name or folder, an embedder is itself,
    and any other callable is wrapped as a function from texts to vectors.
    """
    if model is None or isinstance(model, (str, Path)):
        return named("local" if model is None else model)
    if _is_embedder(model):
        return model
    if callable(model) and not isinstance(model, type):
        return FunctionEmbedder(model)
    raise ConfigError(
        f"{model!r} is not a model",
        hint="use a name ("
        + ", ".join(NAMES)
        + "), a folder, a function from a list of texts to a "
        "list of vectors, or an object with the attributes " + ", ".join(_SHAPE),
    )


def _is_embedder(model: object) -> TypeGuard[Embedder]:
    # Looked up on the class, so that no property runs: a revision may ask the processor.
    return not isinstance(model, type) and all(
        inspect.getattr_static(model, name, None) is not None for name in _SHAPE
    )


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(_target(function))


def _target(function: Callable[..., Any]) -> Any:
    """Return what runs when *function* is called: behind partials, of an object its `__call__`."""
    target = inspect.unwrap(function)
    while isinstance(target, partial):
        target = inspect.unwrap(target.func)
    if inspect.isroutine(target):
        return target
    return type(target).__call__


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _digest_of(function: Callable[..., Any]) -> str:
    code = getattr(_target(function), "__code__", None)
    if not isinstance(code, CodeType):
        raise ConfigError(
            f"{_name_of(function)!r} has no code of its own to pin",
            hint="name its version: FunctionEmbedder(function, revision=...)",
        )
    digest = hashlib.sha256()
    for part in _parts(code):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _parts(code: CodeType) -> Iterator[str]:
    """Yield what makes *code* what it does: neither its file nor its line numbers."""
    yield code.co_code.hex()
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts(constant)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))  # a set's own order differs by process
        else:
            yield repr(constant)


def _regular(answer: ArrayLike) -> bool:
    try:
        np.shape(answer)
    except ValueError:
        return False
    return True


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

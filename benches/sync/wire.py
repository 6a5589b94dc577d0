"""What the bench and a tool's process say to each other, and how a tool asks the model.

A tool runs in a process of its own, with a Python of its own that has nothing of ours: this module
and the stub's use the standard library alone. The bench writes one command a line as JSON,
`{"do": verb, …}`, and reads one answer a line, `{"ok": …}` or `{"error": …}`. The verbs are the
methods of `Tool`; a verb that a tool cannot do answers `{"cannot": why}`.
"""

import array
import base64
import http.client
import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benches.sync.stub import TEXTS, packed

PLACES = 8
"""Requests to the model that any tool may have under way at once."""
REPEATS = 2
"""How often the client that a peer is given repeats a 429 or a 5xx: as OpenAI's own client does."""

Row = tuple[str, str, str]
"""What is searchable: a document's name, a chunk's text, its vector's signs in hexadecimal."""


class CannotError(Exception):
    """The tool has no such thing; the bench writes a dash."""


class RefusedError(Exception):
    """The model refused a request."""

    def __init__(self, status: int, why: str, after: float | None) -> None:
        super().__init__(f"{status}: {why}")
        self.status = status
        self.after = after


class Model:
    """The function that a peer is given: texts in, vectors out.

    It asks for at most 128 texts at once, has at most 8 requests under way, and repeats what may
    pass as OpenAI's client does by default. Nothing is cached.
    """

    def __init__(self, url: str, *, repeats: int = REPEATS) -> None:
        self.url = url
        self._address = urlsplit(url).netloc
        self._repeats = repeats
        self._own = threading.local()
        self._pool = ThreadPoolExecutor(PLACES, thread_name_prefix="model")

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        parts = [texts[at : at + TEXTS] for at in range(0, len(texts), TEXTS)]
        if len(parts) == 1:
            return self.patient(parts[0])
        return [vector for part in self._pool.map(self.patient, parts) for vector in part]

    def patient(self, texts: Sequence[str]) -> list[list[float]]:
        for repeat in range(self._repeats + 1):
            try:
                return self.ask(texts)
            except RefusedError as refused:
                if refused.after is None or repeat == self._repeats:
                    raise
                time.sleep(max(refused.after, 0.5 * 2**repeat))
        raise AssertionError

    def ask(self, texts: Sequence[str]) -> list[list[float]]:
        return [floats(each) for each in self.raw(texts)]

    def raw(self, texts: Sequence[str]) -> list[bytes]:
        """Send one request, return float32 bytes. Raises RefusedError, which knows if it may pass."""
        body = json.dumps({"model": "stub", "input": list(texts), "encoding_format": "base64"})
        status, headers, answer = self._post("/v1/embeddings", body)
        told = json.loads(answer)
        if status != 200:
            after = headers.get("Retry-After")
            raise RefusedError(status, told["error"]["message"], float(after) if after else None)
        return [base64.b64decode(each["embedding"]) for each in told["data"]]

    def _post(self, path: str, body: str) -> tuple[int, Mapping[str, str], bytes]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self._address, timeout=60)
            self._own.connection = connection
        connection.request("POST", path, body.encode(), {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            return response.status, dict(response.headers), response.read()


def floats(packed_vector: bytes) -> list[float]:
    values = array.array("f")
    values.frombytes(packed_vector)
    return values.tolist()


def vector(text: str) -> list[float]:
    """Return a question's vector, without asking: searching is not what is measured here."""
    return floats(packed(text))


class Tool:
    """What the bench asks of every tool. Without an override, documents are files of a folder."""

    name = ""
    version = ""
    settings = ""
    """What was chosen, for the page."""
    follows = False
    """Whether it follows changes by itself, so that an edit needs no run."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.notes = root / "documents"
        self.state = root / "state"
        for folder in (self.notes, self.state):
            folder.mkdir(parents=True, exist_ok=True)
        self.model = Model(url)

    # --- the documents

    def write(self, documents: Mapping[str, str]) -> None:
        for name, text in documents.items():
            # As editors do: whoever follows the folder never sees half a file.
            beside = self.root / "writing"
            beside.write_text(text, encoding="utf-8")
            beside.rename(self.notes / name)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            (self.notes / name).unlink()

    def rename(self, old: str, new: str) -> None:
        (self.notes / old).rename(self.notes / new)

    def copy(self, old: str, new: str) -> None:
        shutil.copyfile(self.notes / old, self.notes / new)

    def touch(self) -> None:
        """Change something of every document that is not its text."""
        for path in self.notes.iterdir():
            os.utime(path)

    def documents(self) -> Iterator[tuple[str, str]]:
        for path in sorted(self.notes.iterdir()):
            yield path.name, path.read_text(encoding="utf-8")

    # --- the tool

    def open(self) -> None:
        """Set up what a run needs; `sync` follows."""

    def sync(self) -> str:
        """Run until nothing is left that the tool would do by itself. Return what it complains of."""
        raise NotImplementedError

    def store(self) -> list[Row]:
        """Return every chunk that a search could find."""
        raise NotImplementedError

    def search(self, text: str) -> str:
        """Return the text of the best hit for the vector of *text*; empty if there is none."""
        raise NotImplementedError

    def lose(self, count: int) -> None:
        """Delete so many vectors from the store, behind the tool's back."""
        raise NotImplementedError

    def mend(self) -> str:
        """Do what the tool's manual has for a store that lost something."""
        raise CannotError("nothing but another run")

    def follow(self, *, on: bool) -> None:
        if on:
            raise CannotError("it does not follow changes")

    def until(self, text: str, timeout: float) -> bool:
        """Search until *text* is found, and return whether it was."""
        end = time.monotonic() + timeout
        while self.search(text) != text:
            if time.monotonic() > end:
                return False
            time.sleep(0.002)
        return True

    def size(self) -> int:
        """Return the bytes on disk of state and store, without the documents."""
        return sum(path.stat().st_size for path in self.state.rglob("*") if path.is_file())

    def servers(self) -> list[int]:
        """Return the process ids of servers that belong to the tool."""
        return []

    def close(self) -> None:
        """Let go of everything."""


VERBS = frozenset(
    [
        "write",
        "delete",
        "rename",
        "copy",
        "touch",
        "open",
        "sync",
        "store",
        "search",
        "lose",
        "mend",
        "follow",
        "until",
        "size",
        "servers",
        "close",
        "about",
    ]
)


def serve(make: type[Tool]) -> None:
    """Be the tool's process: `python -m benches.sync.adapters.NAME ROOT URL`."""
    # Libraries print; the bench reads only what is written here.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    root, url = sys.argv[1:3]
    tool = make(Path(root), url)
    for line in sys.stdin:
        command: dict[str, Any] = json.loads(line)
        verb = command.pop("do")
        answers.write(json.dumps(_done(tool, verb, command)) + "\n")
        answers.flush()
        if verb == "close":
            break
    else:
        # Nobody asks any more: the bench is gone.
        tool.close()
    # What a tool left running in threads keeps nobody waiting.
    os._exit(0)


def _done(tool: Tool, verb: str, command: dict[str, Any]) -> dict[str, Any]:
    if verb not in VERBS:
        return {"error": f"no verb {verb!r}"}
    if verb == "about":
        return {
            "ok": {
                "name": tool.name,
                "version": tool.version,
                "settings": tool.settings,
                "follows": tool.follows,
            }
        }
    try:
        return {"ok": getattr(tool, verb)(**command)}
    except CannotError as cannot:
        return {"cannot": str(cannot)}
    except Exception as error:  # noqa: BLE001  # the bench writes down what a tool says
        traceback.print_exc()
        return {"error": told(error)}


def told(error: BaseException) -> str:
    """Return an error's first line, with its kind: what a table has room for."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def paragraphs(text: str) -> list[str]:
    return text.split("\n\n")


def signs_of(values: Sequence[float]) -> str:
    """Return the signs of a stored vector as the judge compares them."""
    bits = "".join("1" if each > 0 else "0" for each in values)
    return f"{int(bits, 2):0{len(bits) // 4}x}" if bits else ""

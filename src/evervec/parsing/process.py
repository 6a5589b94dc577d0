"""The parent's side: starts the process that parses, asks it, and survives whatever becomes of it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any

from evervec.errors import EvervecError, Permanent, Transient
from evervec.parsing import frames
from evervec.parsing.limits import Limits
from evervec.text.parse import IN_PLACE, PARSERS, Parsed, parse, suffix_of

_START = (
    "import json, sys; options = json.loads(sys.argv[1]); sys.path[:] = options['path'];"
    "from evervec.parsing.child import main; main(options)"
)
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP", "LANG")
"""What of our environment the process gets: secrets may stand in the rest."""
_START_SECONDS = 60.0
_OUTSIDE = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})
"""How others end a process. What a parser does to itself has other names."""


class _Gone(Exception):
    """The process ended. *how* says by which signal or with which code."""

    def __init__(self, how: str, *, expired: bool) -> None:
        super().__init__(how)
        self.how = how
        self.expired = expired


class ParserProcess:
    """Parses files, those with a structure in a process that is started when it is needed.

    One file at a time; any thread may call. *also* names a module whose `PARSERS` go before ours,
    and which is imported in the process only.
    """

    def __init__(self, limits: Limits | None = None, *, also: str = "") -> None:
        self.limits = limits or Limits()
        self._also = also
        self._child: _Child | None = None
        self._closed = False
        self._one_at_a_time = threading.Lock()

    def parse(self, name: str, data: bytes) -> Parsed:
        """Return the text of a file, or raise Permanent or Transient with the reason why not."""
        suffix = suffix_of(name)
        if suffix in IN_PLACE or (not self._also and suffix not in PARSERS):
            return parse(name, data)
        with self._one_at_a_time:
            while True:
                fresh = self._child is None
                child = self._started()
                try:
                    return self._answer(child, name, data)
                except _Gone as gone:
                    self._stop()
                    if self._closed:
                        raise Transient(f"{name!r}: its parser was stopped meanwhile") from None
                    # What an earlier file has broken, or that it was idle, is not this one's fault.
                    if fresh or gone.expired or gone.how == "SIGXCPU":
                        raise self._reason(name, gone) from None

    def protection(self) -> Mapping[str, str]:
        """Say what the process cannot do here; starts it. Raises Transient if it does not start."""
        with self._one_at_a_time:
            return self._started().protection

    def close(self) -> None:
        """End the process, also in the middle of a file."""
        self._closed = True
        child = self._child
        if child is not None:
            child.kill()
        with self._one_at_a_time:
            self._stop()

    def _started(self) -> "_Child":
        if self._closed:
            raise Transient("the parsers were stopped meanwhile")
        child = self._child
        # One whose time ran out just as it answered is dead, and the next file is not to blame.
        if child is not None and (child.expired or child.served >= self.limits.files_max):
            self._stop()
        if self._child is None:
            self._child = _Child(self.limits, self._also)
        return self._child

    def _stop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _answer(self, child: "_Child", name: str, data: bytes) -> Parsed:
        try:
            head, text = child.ask(name, data)
            if "error" not in head:
                return frames.parsed_of(head, text)
        except frames.Nonsense as nonsense:
            self._stop()
            raise Permanent(
                f"{name!r}: its parser answered with {nonsense}", hint=_LEAVE_OUT
            ) from nonsense
        if head.get("spent"):
            self._stop()
        raise self._refusal(name, head)

    def _refusal(self, name: str, head: Mapping[str, Any]) -> EvervecError:
        error, hint = str(head["error"])[:2000], head.get("hint")
        if error == "too much memory":
            error = f"needs more than {self.limits.memory_bytes / 1e9:.1f} GB of memory to be read"
        elif error == "too much text":
            error = f"holds more than {self.limits.text_chars_max:,} characters of text"
        else:
            return Permanent(error, hint=str(hint)[:2000] if hint else _LEAVE_OUT)
        return Permanent(f"{name!r} {error}", hint=_SPLIT)

    def _reason(self, name: str, gone: _Gone) -> EvervecError:
        if gone.expired:
            took = f"took longer than {self.limits.seconds:g} seconds to be read"
            return Permanent(f"{name!r} {took}", hint=_SPLIT)
        if gone.how == "SIGXCPU":
            took = f"took more than {self.limits.processor_seconds} seconds of processor time"
            return Permanent(f"{name!r} {took}", hint=_SPLIT)
        if gone.how in _OUTSIDE:
            return Transient(
                f"{name!r}: its parser was ended from outside ({gone.how})",
                hint="the system may be short of memory; it is tried again",
            )
        return Permanent(f"{name!r} brought its parser down ({gone.how})", hint=_LEAVE_OUT)


_LEAVE_OUT = "leave it out in .evervecignore, or mend it; it is tried again when it changes"
_SPLIT = "split it, convert it to text, or leave it out in .evervecignore"


def _unstarted(why: str) -> Transient:
    return Transient(
        f"the process that parses files does not start: {why}",
        after=10.0,
        hint="run `evervec doctor`; if it stays so, install this program anew",
    )


class _Child:
    """One such process, from its start to its end."""

    def __init__(self, limits: Limits, also: str) -> None:
        self._limits = limits
        self.served = 0
        self._until: float | None = None
        """When what is under way has taken too long."""
        self.expired = False
        self._clocked = threading.Lock()
        self._over = threading.Event()
        options = {**asdict(limits), "also": also, "path": [path for path in sys.path if path]}
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        # Until it has given up writing, it may say why it does not start.
        self._complaint: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
                [sys.executable, "-I", "-B", "-c", _START, json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaint,
                env=inherited,
                # Ctrl-C is for us: we end it ourselves.
                start_new_session=True,
            )
        except OSError as error:
            self._complaint.close()
            raise _unstarted(str(error)) from error
        watch = threading.Thread(target=self._watch, name="evervec-parsers", daemon=True)
        watch.start()
        try:
            self.protection: Mapping[str, str] = self._exchange(None, _START_SECONDS)[0]
        except (_Gone, frames.Nonsense) as error:
            told = self._complained() or str(error)
            self.end()
            raise _unstarted(told) from error

    def ask(self, name: str, data: bytes) -> tuple[Mapping[str, Any], bytes]:
        answer = self._exchange((name.encode("utf-8", "surrogatepass"), data), self._limits.seconds)
        self.served += 1
        return answer

    def _exchange(
        self, request: tuple[bytes, bytes] | None, seconds: float
    ) -> tuple[Mapping[str, Any], bytes]:
        with self._clocked:
            self._until = time.monotonic() + seconds
        try:
            with suppress(BrokenPipeError):
                if request is not None and self._process.stdin is not None:
                    frames.send(self._process.stdin, *request)
            frame = None
            if self._process.stdout is not None:
                frame = frames.receive(
                    self._process.stdout,
                    first_max=frames.HEAD_BYTES_MAX,
                    second_max=4 * self._limits.text_chars_max,
                )
        finally:
            with self._clocked:
                self._until = None
        if frame is None:
            raise _Gone(self._ended(), expired=self.expired)
        return frames.told(frame[0]), frame[1]

    def _watch(self) -> None:
        # One thread for all files: one for each would cost as much as a small file does.
        while not self._over.wait(min(1.0, self._limits.seconds / 8)):
            with self._clocked:
                if self._until is not None and time.monotonic() > self._until:
                    self.expired = True
                    self._process.kill()
                    return

    def _ended(self) -> str:
        try:
            # The end of its answers comes a moment before its own.
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        return signal.Signals(-code).name if code < 0 else f"code {code}"

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """End the process and let go of its pipes."""
        self._over.set()
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._complaint):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        self._process.wait()

    def _complained(self) -> str:
        self._complaint.seek(0)
        lines = self._complaint.read(1 << 16).decode("utf-8", "replace").split("\n")
        return next((line.strip()[:500] for line in reversed(lines) if line.strip()), "")

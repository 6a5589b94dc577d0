"""The process that parses: takes a file, answers with its text, and can do little else.

It has the memory and the processor time that it was given, and can start no program, write no file
and reach no network, as far as the system lets it promise that; its first frame says how far.
"""

import ctypes
import importlib
import json
import math
import os
import select
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from evervec.errors import EvervecError
from evervec.parsing import frames
from evervec.parsing.calls import refuse_calls
from evervec.text.parse import Parser, parse

if sys.platform != "win32":  # where only time and output are bounded
    import resource

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_REFUSED = (
    "socket.",
    "subprocess.",
    "pty.",
    "shutil.",
    "ftplib.",
    "smtplib.",
    "urllib.",
    "webbrowser.",
    "os.chflags",
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.startfile",
    "os.symlink",
    "os.system",
    "os.truncate",
    "os.utime",
)
"""What Python reports before it happens, and what no parser has a reason for."""


def main(options: Mapping[str, Any]) -> None:
    """Answer requests until there are no more, or none for a while."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What a library prints must not get among the frames.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    also: Mapping[str, Parser] = {}
    if options["also"]:
        also = importlib.import_module(options["also"]).PARSERS
    os.dup2(nothing, 2)
    frames.send(answers, json.dumps(_shut(options)).encode(), b"")
    while _waited(requests, options["idle_seconds"]):
        request = frames.receive(requests, first_max=1 << 20, second_max=sys.maxsize)
        if request is None:
            return
        _bound_processor(options["processor_seconds"])
        head, text = _answer(request[0].decode("utf-8", "surrogatepass"), request[1], options, also)
        del request
        frames.send(answers, json.dumps(head).encode(), text)
        if head.get("spent"):
            return


def _waited(requests: BinaryIO, seconds: float) -> bool:
    # Pipes can be waited for on all systems but one; there it stays until it is ended.
    return sys.platform == "win32" or bool(select.select([requests], [], [], seconds)[0])


def _answer(
    name: str, data: bytes, options: Mapping[str, Any], also: Mapping[str, Parser]
) -> tuple[dict[str, Any], bytes]:
    try:
        parsed = parse(name, data, also=also)
        if len(parsed.text) > options["text_chars_max"]:
            return {"error": "too much text"}, b""
        return frames.head_of(parsed), parsed.text.encode("utf-8", "replace")
    except EvervecError as error:
        return {"error": error.args[0], "hint": error.hint}, b""
    except MemoryError:
        # What is left may be in pieces: begin anew.
        return {"error": "too much memory", "spent": True}, b""
    except Exception as error:  # noqa: BLE001 - a parser's own fault is that file's failure
        return {"error": f"it cannot be parsed: {type(error).__name__}: {str(error)[:500]}"}, b""


def _shut(options: Mapping[str, Any]) -> dict[str, str]:
    """Give up what parsing does not need; say what was given up."""
    told = {"network": "refused by the interpreter alone", "memory": "unbounded"}
    # In a network of its own it would not even find out what there is.
    cut = sys.platform == "linux" and _cut_network()
    if refuse_calls():
        told["network"] = "none"
    elif cut:
        told["network"] = "none but local services"
    if sys.platform != "win32":
        memory = options["memory_bytes"]
        if _bound(resource.RLIMIT_AS, memory):
            told["memory"] = f"at most {memory / 1e9:.1f} GB"
        _bound(resource.RLIMIT_FSIZE, 0)
        _bound(resource.RLIMIT_CORE, 0)
        _bound(resource.RLIMIT_NPROC, 0)
    sys.addaudithook(_refuse)
    return told


def _cut_network() -> bool:
    """Move into a network without any interface, where the system permits it."""
    libc = ctypes.CDLL(None, use_errno=True)
    # In a user namespace of its own also root has no power over what lies outside.
    return any(libc.unshare(flags) == 0 for flags in (_NEW_USER | _NEW_NET, _NEW_NET))


def _bound(what: int, most: int) -> bool:
    if sys.platform != "win32":
        with suppress(ValueError, OSError):  # some systems know the name and not the limit
            resource.setrlimit(what, (most, most))
            return True
    return False


def _bound_processor(seconds: int) -> None:
    if sys.platform != "win32":
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = math.ceil(used.ru_utime + used.ru_stime) + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"a parser may not do this: {event}")
    if event == "open" and len(arguments) > 2 and int(arguments[2] or 0) & _WRITING:
        raise PermissionError("a parser may not write files")

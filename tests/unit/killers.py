"""Parsers that do what a file made by an enemy might make a parser do. They run in the process for it."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import cast

from evervec.errors import Permanent
from evervec.text.parse import Parsed

LIBC = ctypes.CDLL(None, use_errno=True)


def spin(name: str, data: bytes) -> Parsed:
    while True:
        pass


def wait(name: str, data: bytes) -> Parsed:
    threading.Event().wait(600)
    return Parsed("", "plain")


def eat(name: str, data: bytes) -> Parsed:
    eaten = []
    while True:
        eaten.append(bytearray(10_000_000))


def crash(name: str, data: bytes) -> Parsed:
    return Parsed(str(ctypes.string_at(0)), "plain")


def leave(name: str, data: bytes) -> Parsed:
    os._exit(int(data))


def end(name: str, data: bytes) -> Parsed:
    LIBC.kill(os.getpid(), signal.SIGKILL)
    return Parsed("", "plain")


def flood(name: str, data: bytes) -> Parsed:
    return Parsed("x" * int(data), "plain")


def raising(name: str, data: bytes) -> Parsed:
    raise ValueError(data.decode())


def refusing(name: str, data: bytes) -> Parsed:
    raise Permanent(f"{name!r} is a test", hint="change it")


def babbling(name: str, data: bytes) -> Parsed:
    """Write *data* where answers go, whichever of the open files that is."""
    for handle in range(3, 12):
        with contextlib.suppress(OSError):
            os.write(handle, data)
    return Parsed("", "plain")


def printing(name: str, data: bytes) -> Parsed:
    print(data * 100)
    print(data, file=sys.stderr)
    sys.stdout.flush()
    return Parsed(sys.stdin.read(), "plain")


def lying(name: str, data: bytes) -> Parsed:
    lies = {
        b"kind": Parsed("x", "evil"),
        b"pages": Parsed("x", "plain", {}, (0, 5)),
        b"backwards": Parsed("xyz", "plain", {}, (2, 1)),
        b"metadata": Parsed("x", "plain", {"a": cast("str", 5)}),
    }
    return lies[data]


def asking(name: str, data: bytes) -> Parsed:
    return Parsed("\n".join([str(os.getpid()), *sorted(os.environ)]), "plain")


def connecting(name: str, data: bytes) -> Parsed:
    with socket.create_connection(("127.0.0.1", int(data)), 5) as link:
        link.sendall(b"hello")
    return Parsed("", "plain")


def connecting_past_python(name: str, data: bytes) -> Parsed:
    """Call the system's own connect, as code that was smuggled into a library would."""
    handle = LIBC.socket(2, 1, 0)
    address = b"\2\0" + int(data).to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    return Parsed(str(LIBC.connect(handle, address, len(address))), "plain")


def calling(name: str, data: bytes) -> Parsed:
    """Ask for a socket of local services, and for another program, past Python."""
    arguments = (ctypes.c_char_p * 2)(b"true", None)
    answers = [LIBC.socket(1, 1, 0), LIBC.execv(b"/bin/true", arguments)]
    return Parsed(str(answers), "plain")


def writing(name: str, data: bytes) -> Parsed:
    Path(data.decode()).write_text("x")
    return Parsed("", "plain")


def writing_past_python(name: str, data: bytes) -> Parsed:
    handle = LIBC.open(data, os.O_WRONLY)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return Parsed(str(LIBC.write(handle, b"x", 1)), "plain")


def starting(name: str, data: bytes) -> Parsed:
    subprocess.run([data.decode()], check=True)
    return Parsed("", "plain")


PARSERS = {
    f".{parser.__name__}": parser
    for parser in (
        *(spin, wait, eat, crash, leave, end, flood, raising, refusing, babbling, printing, lying),
        *(
            asking,
            calling,
            connecting,
            connecting_past_python,
            writing,
            writing_past_python,
            starting,
        ),
    )
}

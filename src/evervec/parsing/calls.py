"""A filter in the kernel: the process that parses asks for no socket and starts no program.

Python's own refusals can be got around by native code, and a network without interfaces still has
the sockets of local services, which are files. A filter of system calls has no such gaps.
"""

import ctypes
import platform
import struct
import sys

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT = 0, 4
_ALLOWED, _REFUSED = 0x7FFF0000, 0x00050001  # "not permitted", so that it fails and goes on
_OTHER_NUMBERS = 0x40000000
"""On x86 the same calls have a second set of numbers from here on."""

# By machine: how the kernel names it, then socket, connect, execve, execveat, ptrace and
# io_uring_setup, and for x86 fork and vfork. Threads come by clone, which stays.
_CALLS = {
    "x86_64": (0xC000003E, (41, 42, 59, 322, 101, 425, 57, 58)),
    "aarch64": (0xC00000B7, (198, 203, 221, 281, 117, 425)),
}


def refuse_calls() -> bool:
    """Let these calls fail from now on, for good; False where that is not known or not permitted."""
    machine, calls = _CALLS.get(platform.machine(), (0, ()))
    if sys.platform != "linux" or not calls:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    program = _program(machine, calls)
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))
    header = struct.pack("@HP", len(program), ctypes.addressof(code))
    return bool(libc.prctl(_SECCOMP, _FILTER, header, 0, 0) == 0)


def _program(machine: int, calls: tuple[int, ...]) -> list[bytes]:
    """Write the filter. Each step says how many steps to skip if its question holds, and if not."""
    checks = [_step(_AT_LEAST, len(calls) + 1, 0, _OTHER_NUMBERS)]
    checks += [_step(_EQUAL, len(calls) - at, 0, call) for at, call in enumerate(calls)]
    return [
        _step(_LOAD, 0, 0, _MACHINE_AT),
        # A machine that calls by other numbers than ours is refused everything.
        _step(_EQUAL, 0, len(checks) + 2, machine),
        _step(_LOAD, 0, 0, _NUMBER_AT),
        *checks,
        _step(_RETURN, 0, 0, _ALLOWED),
        _step(_RETURN, 0, 0, _REFUSED),
    ]


def _step(what: int, holds: int, fails: int, value: int) -> bytes:
    return struct.pack("@HBBI", what, holds, fails, value)

"""Who this process is, and whether another holder of a lease still lives."""

import os
import socket
from pathlib import Path

from evervec.model import Holder


def boot_id() -> str:
    """Return the kernel's boot id, or the host's name where the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def this_process(name: str) -> Holder:
    """Describe this process as a holder of leases."""
    pid = os.getpid()
    return Holder(
        name=name,
        host=socket.gethostname(),
        pid=pid,
        started=_started(pid) or 0,
        boot=f"{boot_id()}/{_pid_namespace()}",
    )


def alive(holder: Holder, here: Holder) -> bool | None:
    """Say whether *holder* still runs; None if that cannot be seen from *here*."""
    if (holder.host, holder.boot) != (here.host, here.boot):
        return None
    if Path("/proc/self/stat").exists():
        return _started(holder.pid) == holder.started
    # A pid that answers may have been given to another process meanwhile.
    return None if _answers(holder.pid) else False


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """Return when *pid* started, in kernel ticks; None if it is gone or the kernel does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The command may hold spaces and parentheses; behind the last one the fields are plain. A
    # zombie has ended, whether or not its parent has noticed.
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

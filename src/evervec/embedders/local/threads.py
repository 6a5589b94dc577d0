"""How many processors this process may use, so that no thread is started in vain."""

import math
import os
from pathlib import Path

from evervec.errors import ConfigError

QUOTA = Path("/sys/fs/cgroup/cpu.max")


def threads_of(wanted: int | None) -> int:
    """Return *wanted*, or `EVERVEC_THREADS`, or the processors this process may use."""
    if wanted is not None:
        return _positive("threads", str(wanted))
    if text := os.environ.get("EVERVEC_THREADS"):
        return _positive("EVERVEC_THREADS", text)
    return processors()


def processors() -> int:
    """Return how many processors this process may use at one time."""
    return max(1, min(len(seats()), _quota()))


def seats() -> list[int]:
    """Return the numbers of the processors this process may use, whoever else uses them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _positive(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ConfigError(f"{name} {text!r} is not a number of threads", hint="use 1 or more")
    return int(text)


def _quota() -> int:
    """Return the container's share of processors, rounded up; very many if it has no limit."""
    try:
        quota, period = QUOTA.read_text().split()
        return math.ceil(int(quota) / int(period))
    except (OSError, ValueError):
        return 1 << 16

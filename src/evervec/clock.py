"""The door through which time comes in, so that a test can be the clock."""

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Return UTC milliseconds: for people and for ages, never for leases."""

    def boot(self) -> int:
        """Return milliseconds since boot, suspend included: a clock nobody can set, for leases."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def boot(self) -> int:
        # Where the kernel has no boot clock, the monotonic one is the next best.
        which = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(which) // 1_000_000


SYSTEM = SystemClock()

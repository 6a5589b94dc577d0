"""What an error means for a job, and how long to wait before its next attempt: pure."""

import traceback
from dataclasses import dataclass
from random import Random

from evervec.errors import EvervecError, Transient, Unavailable
from evervec.outcome import Fail, Outcome, Release, Retry

_EXPONENT_MAX = 64


@dataclass(frozen=True, slots=True)
class Policy:
    """Seconds to wait after the *n*th failed attempt: `base * factor ** (n - 1)`, at most *cap*."""

    base: float = 1.0
    factor: float = 2.0
    cap: float = 600.0
    jitter: float = 1.0
    """How much of the delay is left to chance: 0 none of it, 1 all of it."""
    attempts_max: int | None = 8
    """Total executions that may fail; None for no limit."""

    def delay(self, attempt: int, rng: Random, *, after: float | None = None) -> float:
        """Return how many seconds to wait after failed attempt number *attempt* (the first is 1).

        *after* is what the other side asked for (Retry-After): never less than that, and not
        bounded by the cap.
        """
        exponent = min(max(attempt, 1) - 1, _EXPONENT_MAX)
        whole = min(self.cap, self.base * self.factor**exponent)
        drawn = whole * (1 - self.jitter * rng.random())
        return drawn if after is None else max(drawn, after)

    def exhausted(self, attempts: int) -> bool:
        """Say whether *attempts* failed executions are all there may be."""
        return self.attempts_max is not None and attempts >= self.attempts_max


DEFAULT = Policy()
"""Full jitter from 1 s to 10 min, 8 attempts."""
THREE = Policy(base=1, factor=2, cap=4, jitter=0, attempts_max=3)
"""1, 2, 4 s; the third failure is final."""
FIVE = Policy(base=60, factor=1, cap=60, jitter=0, attempts_max=5)
"""Each minute; the fifth failure is final."""
FOUR = Policy(base=2, factor=2, cap=600, jitter=0.25, attempts_max=4)
"""2 ** n seconds less up to a quarter by chance; three retries."""
MINUTE = Policy(base=60, factor=1, cap=60, jitter=0, attempts_max=4)
"""About a minute each time; three retries."""


def outcome_of(error: Exception, attempts: int, policy: Policy, rng: Random) -> Outcome:
    """Say what an error means for a job that failed *attempts* times before.

    Trouble of the provider costs nothing; the job's own failures count, up to the policy's most.
    """
    reason, stack = str(error), "".join(traceback.format_exception(error))
    match error:
        case Unavailable():
            return Release(error.after or 0.0, reason)
        case Transient():
            if policy.exhausted(attempts + 1):
                return Fail(reason, "transient", stack)
            after = policy.delay(attempts + 1, rng, after=error.after)
            return Retry(after, reason, "transient", stack)
        case EvervecError():
            return Fail(reason, "permanent", stack)
        case _:
            return Fail(f"{type(error).__name__}: {reason}", "defect", stack)

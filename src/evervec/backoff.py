"""How long to wait before the next attempt, and how many there are: pure, with its own dice."""

from dataclasses import dataclass
from random import Random

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

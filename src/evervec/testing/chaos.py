"""What goes wrong in a simulation: crashes, freezes, jumps of the clock, commits without answer."""

from dataclasses import dataclass

from evervec.errors import StateError
from evervec.testing.simulation import Actor, Died, SimulatedLoop


class LoopClock:
    """The loop's time as a `Clock`. *skew* is what somebody set the wall clock wrong by."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.skew = 0

    def now(self) -> int:
        return 1_800_000_000_000 + self.boot() + self.skew

    def boot(self) -> int:
        return int(self._loop.time() * 1000)


@dataclass(slots=True)
class Faults:
    """How likely each fault is, a pick or a commit. Drawn anew for each world."""

    crash: float = 0.0
    freeze: float = 0.0
    jump: float = 0.0
    at_label: float = 0.0
    unknown: float = 0.0


UNKNOWN = "the connection broke while a commit was under way; whether it happened is not known"


class Chaos:
    """Breaks things between picks, and at the product's named places, until it is stopped."""

    def __init__(
        self, loop: SimulatedLoop, faults: Faults, *, clock: LoopClock | None = None
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.faults = faults
        self.victims: list[Actor] = []
        self.on = True
        self.counts: dict[str, int] = {}

    def between_picks(self) -> None:
        if not self.on or not self.victims:
            return
        random, faults = self.loop.random, self.faults
        dice = random.random()
        if dice < faults.crash:
            self._count("crash")
            self.loop.kill(random.choice(self.victims))
        elif dice < faults.crash + faults.freeze:
            self._count("freeze")
            self.loop.freeze(random.choice(self.victims), random.randrange(1, 150))
            if random.random() < 0.5:
                # Long enough for its lease to run out: a zombie in the making.
                self.loop.jump(35.0)
        elif dice < faults.crash + faults.freeze + faults.jump:
            self._count("jump")
            step = random.choice((1.0, 5.0, 35.0, 70.0, -20.0))
            if step > 0:
                self.loop.jump(step)
            elif self.clock is not None:
                self.clock.skew += int(step * 1000)

    def at_label(self, label: str) -> None:
        """Stand in for `evervec.faults.hook`."""
        actor = self.loop.current
        if actor is not None and not actor.alive:
            raise Died
        if not self.on or actor not in self.victims:
            return
        dice = self.loop.random.random()
        if dice < self.faults.at_label:
            self._count(f"crash at {label}")
            self._count("crash")
            self.loop.die()
        if label.endswith(".done") and dice < self.faults.at_label + self.faults.unknown:
            self._count("commit outcome unknown")
            raise StateError(UNKNOWN)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


__all__ = ["Chaos", "Faults", "LoopClock"]

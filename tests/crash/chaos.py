"""A history in which two workers share a state and either may die or freeze at any moment."""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.check import violations
from tests.crash.history import Child, History, Server, until_passed

REAP_SECONDS = 1.0


def chaos(server: Server, folder: Path, seed: int, counts: Counter[str]) -> list[str]:
    """Live one history; return what it broke and add to *counts* what happened."""
    dice = random.Random(seed)
    kind = "folder" if dice.random() < 0.2 else "table"
    # A text that two processes are asked for at one time may go to the model twice, so no two
    # documents share one here; sharing is tested with one process at a time.
    defaults = {"latency": dice.choice((0.002, 0.02, 0.1)), "slots": dice.choice((1, 3))}
    if seed % 4 == 1:
        defaults["large"] = 0
    apart = dice.random() < 0.3
    history = History(
        server, folder, kind=kind, seed=seed, shared=False, queue=apart, defaults=defaults
    )
    with history:
        history.write()
        workers = [history.start(), history.start()]
        for _ in range(dice.randint(1, 4)):
            until_passed(dice.uniform(0.02, 0.35))
            place = dice.randrange(2)
            history.kill(workers[place])
            workers[place] = history.start()
        if dice.random() < 0.15:
            freeze(history, workers, dice)
            counts["zombies"] += 1
        until_passed(dice.uniform(0, 0.15))
        history.stop_writer()
        for worker in workers:
            if dice.random() < 0.3:
                history.kill(worker)
            else:
                history.until_up(worker)
                history.stop(worker)
        counts["kills"] += history.kills
        counts["histories"] += 1
        counts[kind] += 1
        return violations(history)


def freeze(history: History, workers: list[Child], dice: random.Random) -> None:
    """Stop a worker for longer than its lease, then let it go on with what it believes in."""
    zombie = dice.choice(workers)
    with frozen(history, zombie):
        until_passed(zombie.order.lease + REAP_SECONDS)


@contextmanager
def frozen(history: History, zombie: Child) -> Iterator[None]:
    history.until_up(zombie)
    zombie.signal(signal.SIGSTOP)
    history.frozen.add(zombie.pid)
    try:
        yield
    finally:
        zombie.signal(signal.SIGCONT)

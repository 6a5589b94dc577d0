"""A history in which one process dies at one named place."""

import random
import signal
from pathlib import Path
from typing import Any

from tests.crash.check import violations
from tests.crash.history import Child, History, Server

# Tables are made once; a heartbeat is sent while a lease is held, a reaper works after a death, a drain comes once.
RARE = {"schema": 4, "queue.renew": 2, "queue.reap": 1, "worker.drain": 1}


def passes(label: str, dice: random.Random) -> int:
    return dice.randint(1, next((most for name, most in RARE.items() if label.startswith(name)), 6))


def kill_at(server: Server, folder: Path, label: str, seed: int) -> tuple[bool, list[str]]:
    """Kill a process at *label* under live writes; return whether it was reached, what broke."""
    dice = random.Random(f"{label} {seed}")
    kind = "folder" if dice.random() < 0.25 else "table"
    with History(server, folder, kind=kind, seed=seed) as history:
        history.write()
        if label.startswith("queue.reap"):
            history.until_up(first := history.start(latency=0.05))
            history.until_asked(3)
            history.kill(first)
        settings: dict[str, Any] = {"crash_at": f"{label}:{passes(label, dice)}"}
        if label.startswith("queue.renew"):
            settings |= {"latency": 0.7, "lease": 1.0}
        if label.startswith("store.stage"):
            settings["large"] = 0
        doomed = history.start(**settings)
        reached = dies(history, doomed, label)
        if dice.random() < 0.6:
            # Or the next write of the same documents would heal what was lost here.
            history.stop_writer()
        history.killed(doomed)
        after = history.start()
        history.until_up(after)
        history.until_asked(dice.randint(1, 6))
        history.stop_writer()
        if dice.random() < 0.5:
            history.stop(after)
        else:
            history.kill(after)
        return reached, violations(history)


def dies(history: History, doomed: Child, label: str) -> bool:
    if label == "worker.drain":
        history.until_up(doomed)
        history.until_asked(2)
        doomed.signal(signal.SIGTERM)
    return doomed.until_ended() == -signal.SIGKILL

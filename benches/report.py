"""What every benchmark prints: one JSON object with its numbers, its targets, and if they are met."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Line:
    """One number that counts, and what it may be at worst. Without a target it is only told."""

    what: str
    value: float
    unit: str = ""
    target: float | None = None
    bound: Literal["at most", "at least"] = "at most"

    @property
    def met(self) -> bool:
        if self.target is None:
            return True
        return self.value <= self.target if self.bound == "at most" else self.value >= self.target


def report(bench: str, lines: Sequence[Line], **numbers: Any) -> None:
    """Print the result. *numbers* are what somebody wants who doubts or compares a line."""
    result = {
        "bench": bench,
        "met": all(line.met for line in lines),
        "lines": [{**asdict(line), "met": line.met} for line in lines],
        "numbers": numbers,
        "machine": {
            "processors": os.cpu_count(),
            # What else ran: a number taken under load says little.
            "load": [round(load, 2) for load in os.getloadavg()],
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
    }
    print(json.dumps(result, indent=2))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which *share* of all lie."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]

"""How an attempt at one job can end. Attempts return these; only the worker's loop records them."""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Done:
    """The store is in sync with what was read."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The job's own failure: counts toward `max_attempts`."""

    after: float
    """Seconds."""
    reason: str
    kind: str
    stack: str = ""


@dataclass(frozen=True, slots=True)
class Fail:
    """No use trying again; waits for a person or for the document's next change."""

    reason: str
    kind: str
    stack: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """Not the job's fault: hand it back and count nothing."""

    after: float = 0.0
    """Seconds."""
    reason: str = ""


Outcome: TypeAlias = Done | Retry | Fail | Release

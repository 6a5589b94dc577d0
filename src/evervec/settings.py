"""One tree of settings: defaults, then `evervec.toml`, then the environment. Unknown keys are errors.

Each setting has one name (`worker.claim`), one variable (`EVERVEC_WORKER_CLAIM`) and, where another
system's users bring their own, further variables under which it is known.
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from evervec.errors import ConfigError

HOUR = 3_600_000
DAY = 24 * HOUR


def _milliseconds_to_seconds(text: str) -> float:
    return float(text) / 1000


def _minutes_to_seconds(text: str) -> float:
    return float(text) * 60


def _hours(text: str) -> int:
    return int(float(text) * HOUR)


def _retries_to_attempts(text: str) -> int:
    return int(text) + 1


def _yes(text: str) -> bool:
    if text.lower() not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise ValueError("write true or false")
    return text.lower() in {"1", "true", "yes", "on"}


Reads = Callable[[str], Any]


def _known_as(default: Any, about: str, **aliases: Reads) -> Any:
    """A setting that other systems know under other names, in other units."""
    return field(default=default, metadata={"about": about, "aliases": aliases})


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker takes, and how long it may hold it."""

    enabled: bool = _known_as(
        True, "Whether this process works on jobs at all", EmbeddingWorker__Enabled=_yes
    )
    poll: float = _known_as(
        1.0,
        "Seconds after which work is looked for without any wake-up",
        EmbeddingWorker__IntervalSeconds=float,
    )
    claim: int = _known_as(1000, "Jobs a lease at most", EmbeddingWorker__BatchSize=int)
    slots: int = _known_as(2, "Leases at a time; one more serves live edits alone")
    lease: float = _known_as(
        60.0,
        "Seconds a lease lasts without a heartbeat",
        EmbeddingWorker__StaleTimeoutMinutes=_minutes_to_seconds,
        EMBED_JOB_LOCK_DURATION_MS=_milliseconds_to_seconds,
    )
    attempts: int = _known_as(
        8,
        "Executions of a job at most, all told, before it waits for a person",
        EMBED_JOB_MAX_RETRIES=_retries_to_attempts,
    )
    crashes: int = _known_as(3, "Workers a job may kill before it is quarantined")
    backoff: float = _known_as(
        1.0,
        "Seconds before the first retry",
        EMBED_JOB_RETRY_BASE_DELAY_MS=_milliseconds_to_seconds,
    )
    backoff_factor: float = _known_as(
        2.0, "Growth of the pause from retry to retry", EMBED_JOB_RETRY_MULTIPLIER=float
    )
    backoff_cap: float = _known_as(
        600.0,
        "Seconds between retries at most",
        EMBED_JOB_RETRY_MAX_DELAY_MS=_milliseconds_to_seconds,
    )
    backoff_jitter: float = _known_as(
        0.1, "Share by which pauses differ at random", EMBED_JOB_RETRY_JITTER_FACTOR=float
    )


@dataclass(frozen=True, slots=True)
class Retention:
    """How long what is over is kept, in milliseconds."""

    finished: int = _known_as(DAY, "Finished jobs", EmbeddingWorker__RetentionHours=_hours)
    parked: int = _known_as(0, "Failed, quarantined and cancelled jobs; 0 keeps them")
    events: int = _known_as(7 * DAY, "Facts in the event log")
    unused: int = _known_as(DAY, "Vectors that no document uses, kept for its return")


@dataclass(frozen=True, slots=True)
class Settings:
    """All of it."""

    state: str = "evervec.db"
    model: str = "local"
    """A model's name (local, local:fast, local:exact, static), or a folder with its files."""
    queue: str = ""
    """Another file for the queue; empty: it shares the state database."""
    worker: Work = field(default_factory=Work)
    retention: Retention = field(default_factory=Retention)


def load(folder: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings that hold in *folder*. Raises ConfigError naming the key that is wrong."""
    environment = os.environ if environment is None else environment
    path = Path(environment.get("EVERVEC_CONFIG", (folder or Path()) / "evervec.toml"))
    written: dict[str, Any] = {}
    if path.is_file():
        try:
            written = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{str(path)!r} is not TOML: {error}") from error
    elif "EVERVEC_CONFIG" in environment:
        raise ConfigError(f"there is no file {str(path)!r}", hint="mend or unset EVERVEC_CONFIG")
    settings = _from_toml(Settings(), written, str(path), "")
    folded = {name.upper(): (name, text) for name, text in environment.items()}
    return _checked(
        replace(
            _from_environment(settings, folded, "EVERVEC"),
            worker=_from_environment(settings.worker, folded, "EVERVEC_WORKER"),
            retention=_from_environment(settings.retention, folded, "EVERVEC_RETENTION"),
        )
    )


def _from_toml(tree: Any, written: Mapping[str, Any], path: str, prefix: str) -> Any:
    known = {part.name: part for part in fields(tree)}
    changes: dict[str, Any] = {}
    for name, value in written.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"{path!r} sets {prefix + name!r}, which is not a setting",
                hint=f"did you mean {prefix + near[0]!r}?"
                if near
                else f"known: {', '.join(known)}",
            )
        now = getattr(tree, name)
        if isinstance(value, dict) and isinstance(now, (Work, Retention)):
            changes[name] = _from_toml(now, value, path, f"{prefix}{name}.")
            continue
        whole = isinstance(now, float) and type(value) is int
        if type(value) is not type(now) and not whole:
            raise ConfigError(
                f"{path!r}: {prefix + name} = {value!r} is not {_kind(now)}",
                hint=f"write it as [{prefix}{name}]"
                if isinstance(now, (Work, Retention))
                else f"its default is {now!r}",
            )
        changes[name] = float(value) if whole else value
    return replace(tree, **changes)


def _from_environment(tree: Any, folded: Mapping[str, tuple[str, str]], prefix: str) -> Any:
    changes: dict[str, Any] = {}
    for part in fields(tree):
        now = getattr(tree, part.name)
        if isinstance(now, (Work, Retention)):
            continue
        own: Reads = _yes if isinstance(now, bool) else type(now)
        readers = {**part.metadata.get("aliases", {}), f"{prefix}_{part.name}": own}
        for name, reads in readers.items():
            found = folded.get(name.upper())
            if found is None:
                continue
            try:
                changes[part.name] = reads(found[1])
            except ValueError as error:
                raise ConfigError(
                    f"{found[0]}={found[1]!r} is not {_kind(now)}", hint=f"its default is {now!r}"
                ) from error
    return replace(tree, **changes)


def _checked(settings: Settings) -> Settings:
    least = {"claim": 1, "slots": 1, "lease": 1.0, "attempts": 1, "crashes": 1, "poll": 0.01}
    for name, value in least.items():
        # Also what is no number at all (nan) is refused.
        if not getattr(settings.worker, name) >= value:
            raise ConfigError(
                f"worker.{name} = {getattr(settings.worker, name)} is too small",
                hint=f"give at least {value}",
            )
    return settings


def _kind(value: object) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return kinds.get(type(value), "a table of settings")

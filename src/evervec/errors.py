"""Every error raised on purpose. Says what happened, to what, and (in `hint`) what to do."""


class EvervecError(Exception):
    """The root; edges print it without a traceback."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n  {self.hint}" if self.hint else message


class ConfigError(EvervecError):
    """What was asked for cannot be done as written."""


class StateError(EvervecError):
    """The state database is missing, damaged, locked, full or from a newer version."""


class SourceError(EvervecError):
    """The source cannot be read or watched now."""


class RecipeChanged(ConfigError):
    """The collection exists with another recipe or model; nothing is re-embedded silently."""


class LeaseLost(EvervecError):
    """The lease ended before the work did; its jobs belong to others now."""


class Transient(EvervecError):
    """Worth trying again: after *after* seconds if the other side said so."""

    def __init__(
        self, message: str, *, after: float | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.after = after


class Permanent(EvervecError):
    """The document cannot be done, however often it is tried."""


class Unavailable(EvervecError):
    """The provider is down; its jobs wait and are charged nothing.

    It is not asked again for *after* seconds, or for a few if that is not known.
    """

    def __init__(
        self, message: str, *, after: float | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.after = after


class Critical(EvervecError):
    """Going on would do damage: the scope halts until a person resumes it."""

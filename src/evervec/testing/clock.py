"""A clock that a test sets."""

from dataclasses import dataclass


@dataclass
class VirtualClock:
    """Both times of the port `Clock`, moving only when told."""

    utc: int = 1_700_000_000_000
    booted: int = 1_000_000

    def now(self) -> int:
        return self.utc

    def boot(self) -> int:
        return self.booted

    def advance(self, seconds: float) -> None:
        """Let time pass, on both clocks."""
        self.utc += round(seconds * 1000)
        self.booted += round(seconds * 1000)

    def set_back(self, seconds: float) -> None:
        """Do what an operator or NTP can do: set the wall clock. The boot clock does not mind."""
        self.utc -= round(seconds * 1000)

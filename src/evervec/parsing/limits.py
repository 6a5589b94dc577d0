"""What one file may cost at most."""

from dataclasses import dataclass

from evervec.text.parse.parsed import TEXT_CHARS_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    """Beyond any of these a file fails, alone and with its reason."""

    memory_bytes: int = 2_000_000_000
    """Of address space, the interpreter's own included."""
    processor_seconds: int = 60
    seconds: float = 300.0
    """By the clock on the wall."""
    text_chars_max: int = TEXT_CHARS_MAX
    files_max: int = 1000
    """After so many files the process is replaced, whatever it has gathered."""
    idle_seconds: float = 60.0
    """After so long without a file the process ends; the next file starts another."""

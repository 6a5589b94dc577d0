"""What a parser makes of a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field

TEXT_CHARS_MAX = 50_000_000
"""Of text in one file: some 60,000 chunks, which a model needs minutes for."""
KINDS = ("markdown", "plain", "code")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file's text, what kind of text it is, and what the file says about itself."""

    text: str
    kind: str
    """One of `KINDS`."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    pages: tuple[int, ...] = ()
    """Where in *text* each page, slide or sheet begins, the first one first; empty without any."""

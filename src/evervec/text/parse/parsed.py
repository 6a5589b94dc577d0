"""What a parser makes of a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Parsed:
    """A file's text, what kind of text it is, and what the file says about itself."""

    text: str
    kind: str
    """`markdown` or `plain`."""
    metadata: Mapping[str, str] = field(default_factory=dict)

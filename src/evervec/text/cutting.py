"""How a collection's texts are cut, as its user asked for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evervec.errors import ConfigError

ALGORITHM = 2
"""Grows when the same text would be cut elsewhere, so that collections are cut anew knowingly."""
TOKENS_LEAST = 32
TOKENS_MOST = 32_768


@dataclass(frozen=True, slots=True)
class ChunkRecipe:
    """How texts are cut. Equal recipes give equal chunks."""

    tokens_max: int = 200
    """The most tokens of the model's that go to it for one chunk, headings and all."""
    overlap: int = 0
    """How many tokens of the chunk before are repeated.

    0, because cuts follow the text's structure: repeating costs the model's time, makes two hits
    of one place, and lets an edit next to a cut change one chunk more.
    """
    heading_context: bool = False
    """Embed each chunk with the headings above it.

    False, because it was measured not to help: the words of headings find their chunks anyhow, and
    a heading's edit would change all that stands below it.
    """

    def __post_init__(self) -> None:
        _bounded("tokens_max", self.tokens_max, TOKENS_LEAST, TOKENS_MOST)
        _bounded("overlap", self.overlap, 0, self.tokens_max // 2)
        if not isinstance(self.heading_context, bool):
            raise ConfigError(f"heading_context is {self.heading_context!r}, not true or false")

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the algorithm's version included."""
        return {
            "algorithm": ALGORITHM,
            "tokens_max": self.tokens_max,
            "overlap": self.overlap,
            "heading_context": self.heading_context,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ChunkRecipe":
        """Read what `to_json` wrote, of this version or an older one, or what a user wrote."""
        if not isinstance(value, Mapping):
            raise ConfigError(f"chunking is {value!r}, not a set of options", hint=_OPTIONS)
        unknown = value.keys() - {"algorithm", "tokens_max", "overlap", "heading_context"}
        if unknown:
            names = ", ".join(sorted(map(repr, unknown)))
            raise ConfigError(f"chunking has no option {names}", hint=_OPTIONS)
        return cls(
            tokens_max=value.get("tokens_max", cls().tokens_max),
            overlap=value.get("overlap", cls().overlap),
            heading_context=value.get("heading_context", cls().heading_context),
        )


_OPTIONS = "the options are tokens_max, overlap and heading_context"


def _bounded(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"chunking.{name} is {value!r}, which is not a whole number")
    if not least <= value <= most:
        raise ConfigError(
            f"chunking.{name} is {value}, which is not between {least} and {most}",
            hint="overlap may be up to half of tokens_max" if name == "overlap" else None,
        )

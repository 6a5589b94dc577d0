"""Models by name, as they stand in a setting or on the command line."""

import difflib
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from evervec.errors import ConfigError
from evervec.ports import Embedder


def _local(quality: str = "default") -> Embedder:
    from evervec.embedders.local.embedder import LocalEmbedder, quality_of

    return LocalEmbedder(quality=quality_of(quality))


def _static() -> Embedder:
    from evervec.embedders.static import StaticEmbedder

    return StaticEmbedder()


NAMES: Mapping[str, Callable[[], Embedder]] = {
    "local": _local,
    "local:fast": partial(_local, "fast"),
    "local:exact": partial(_local, "exact"),
    "static": _static,
}
ALIASES = {"minilm": "local", "local:default": "local"}


def named(name: str | Path) -> Embedder:
    """Return the model of this name, or the one in this folder. Raises ConfigError if none is."""
    known = ALIASES.get(str(name), str(name))
    if known in NAMES:
        return NAMES[known]()
    if isinstance(name, Path) or _is_path(name):
        from evervec.embedders.folder import FolderEmbedder

        return FolderEmbedder(name)
    near = difflib.get_close_matches(name, NAMES, 1)
    raise ConfigError(
        f"{name!r} is not a model",
        hint=f"did you mean {near[0]!r}?"
        if near
        else f"use {', '.join(NAMES)}, or a folder with a model's files, './bge-small'",
    )


def _is_path(name: str) -> bool:
    seems = name.startswith((".", "~")) or "/" in name or os.sep in name
    # An empty name would be the folder here.
    return seems or (name != "" and Path(name).is_dir())

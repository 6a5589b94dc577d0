"""Change a row, a file or a document; its vectors follow. Durably, within milliseconds, provably."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evervec.app import App
    from evervec.collection import Collection
    from evervec.embedders.crossencoder import CrossEncoder
    from evervec.errors import (
        ConfigError,
        Critical,
        EvervecError,
        Permanent,
        Transient,
        Unavailable,
    )
    from evervec.model import Hit
    from evervec.rerank import Rerank
    from evervec.specs import folder, table
    from evervec.text.chunk import ChunkRecipe
    from evervec.text.template import Template
    from evervec.verify import Report

__version__ = "0.1.0"

# Imported when first used: `evervec --help` must not wait for a model's libraries.
_HOMES = {
    "App": "evervec.app",
    "ChunkRecipe": "evervec.text.chunk",
    "Collection": "evervec.collection",
    "ConfigError": "evervec.errors",
    "Critical": "evervec.errors",
    "CrossEncoder": "evervec.embedders.crossencoder",
    "EvervecError": "evervec.errors",
    "Hit": "evervec.model",
    "Permanent": "evervec.errors",
    "Report": "evervec.verify",
    "Rerank": "evervec.rerank",
    "Template": "evervec.text.template",
    "Transient": "evervec.errors",
    "Unavailable": "evervec.errors",
    "folder": "evervec.specs",
    "table": "evervec.specs",
}

__all__ = [
    "App",
    "ChunkRecipe",
    "Collection",
    "ConfigError",
    "Critical",
    "CrossEncoder",
    "EvervecError",
    "Hit",
    "Permanent",
    "Report",
    "Rerank",
    "Template",
    "Transient",
    "Unavailable",
    "folder",
    "table",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'evervec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])

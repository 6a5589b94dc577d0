"""Jupyter notebooks: their texts and their code.

What cells put out is left out: it changes with every run, and running anew is no edit.
"""

from typing import Any

from evervec.errors import Permanent
from evervec.text.parse import markup
from evervec.text.parse.decode import decode
from evervec.text.parse.parsed import Parsed
from evervec.text.parse.records import loaded


def parse_notebook(name: str, data: bytes) -> Parsed:
    try:
        notebook = loaded(name, decode(name, data))
    except RecursionError:
        notebook = {}
    if notebook is None:
        return Parsed("", "markdown")
    cells = _inside(notebook, "cells", list)
    if cells is None:
        raise Permanent(
            f"{name!r} is no notebook that can be read: it has no list of cells",
            hint="open it in Jupyter and save it again, which brings it to the present format",
        )
    metadata = _inside(notebook, "metadata", dict)
    language = _inside(_inside(metadata, "kernelspec", dict), "language", str)
    parts = [_cell(cell, language or "") for cell in cells]
    return Parsed("\n\n".join(part for part in parts if part), "markdown")


def _cell(cell: Any, language: str) -> str:
    source = _inside(cell, "source", str) or "".join(
        line for line in _inside(cell, "source", list) or [] if isinstance(line, str)
    )
    if _inside(cell, "cell_type", str) == "code":
        return markup.fenced(source, language if language.isalnum() else "")
    return source.strip("\n") if source.strip() else ""


def _inside(value: Any, name: str, kind: type) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None

"""JSON: each record a paragraph of `name: value` lines, so that it is found by what its values are called."""

import json
from collections.abc import Iterator
from typing import Any

from evervec.errors import Permanent
from evervec.text.parse import markup
from evervec.text.parse.decode import decode
from evervec.text.parse.parsed import Parsed


def parse_json(name: str, data: bytes) -> Parsed:
    try:
        return Parsed(_written(loaded(name, decode(name, data))), "markdown")
    except RecursionError:
        raise _too_deep(name) from None


def parse_json_lines(name: str, data: bytes) -> Parsed:
    records = []
    try:
        # Not splitlines: a record may hold other ends of lines than the one that parts records.
        for number, line in enumerate(decode(name, data).split("\n"), start=1):
            if line.strip():
                records.append(_record(loaded(name, line, first=number)))
    except RecursionError:
        raise _too_deep(name) from None
    return Parsed("\n\n".join(record for record in records if record), "markdown")


def loaded(name: str, text: str, *, first: int = 1) -> Any:
    """Read JSON; numbers stay as they are written. *first* is the number of its first line."""
    if not text.strip():
        return None
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as error:
        raise Permanent(
            f"{name!r} is no JSON: {error.msg} in line {first + error.lineno - 1}",
            hint="mend it, or rename it to .txt to read it as plain text",
        ) from error


def _too_deep(name: str) -> Permanent:
    return Permanent(
        f"{name!r} is nested too deeply to be read",
        hint="leave it out in .evervecignore, or rename it to .txt to read it as plain text",
    )


def _written(value: Any) -> str:
    if not isinstance(value, dict):
        return _record(value)
    parts: list[str] = []
    plain = {name: _shown(each) for name, each in value.items() if _is_plain(each)}
    lines = [f"{name}: {shown}" for name, shown in plain.items() if shown]
    parts += ["\n".join(lines)] if lines else []
    for name, each in value.items():
        if not _is_plain(each) and (record := _record(each)):
            parts += [markup.heading(name, 1), record]
    return "\n\n".join(parts)


def _record(value: Any) -> str:
    return "\n".join(_lines("", value)).strip("\n")


def _lines(path: str, value: Any) -> Iterator[str]:
    """Yield a line for each value.

    Records of a list are told apart by blank lines, not by numbers, which would change for all
    behind a new one.
    """
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _lines(f"{path}.{name}" if path else name, each)
    elif isinstance(value, list) and not all(map(_is_plain, value)):
        for each in value:
            yield from _lines(path, each)
            yield ""
    else:
        shown = ", ".join(map(_shown, value)) if isinstance(value, list) else _shown(value)
        if shown:
            yield f"{path}: {shown}" if path else shown


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else markup.literal(str(value))

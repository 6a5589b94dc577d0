"""The one place where a user's own names enter SQL."""

import re
from collections.abc import Iterable, Mapping

from evervec.sqlite.statements import statements

_SLOT = re.compile(r"\{(\w+)\}")

_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)

# The comments are for us; a user's schema is kept clear of them.
TEMPLATES = {
    name: _COMMENT.sub("", text)
    for name, text in statements("evervec.sources.sqlite", "table.sql").items()
}


def quoted(name: str) -> str:
    """Return *name* as an SQL identifier, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


def fill(template: str, slots: Mapping[str, str | int]) -> str:
    """Return the named template of `table.sql` with its `{slots}` filled.

    What comes from a user is either `quoted` or, for `where`, was checked by SQLite's own parser.
    """
    return _SLOT.sub(lambda slot: str(slots[slot[1]]), TEMPLATES[template])


def each(template: str, columns: Iterable[str], joint: str) -> str:
    """Return the named template once for every column, joined by *joint*."""
    return joint.join(fill(template, {"column": quoted(column)}) for column in columns)

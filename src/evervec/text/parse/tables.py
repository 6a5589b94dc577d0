"""Values separated by commas, semicolons or tabs."""

import csv
import io

from evervec.errors import Permanent
from evervec.text.parse import markup
from evervec.text.parse.decode import decode
from evervec.text.parse.parsed import Parsed

_SEPARATORS = ",;\t|"
_CELL_MOST = 2**31 - 1
_LOOK = 20
"""Lines that decide about the separator."""


def parse_csv(name: str, data: bytes) -> Parsed:
    text = decode(name, data)
    csv.field_size_limit(_CELL_MOST)
    rows = csv.reader(io.StringIO(text), delimiter=_separator(text))
    try:
        return Parsed("\n".join(markup.table(rows, level=1)), "markdown")
    except csv.Error as error:
        raise Permanent(
            f"{name!r} is no table of separated values: {error}",
            hint="mend its quotes, or rename it to .txt to read it as plain text",
        ) from error


def _separator(text: str) -> str:
    """Return what most evenly parts the first lines."""
    lines = [line for line in text[:100_000].splitlines()[:_LOOK] if line.strip()]
    counts = {mark: [line.count(mark) for line in lines] for mark in _SEPARATORS}
    # Of those that are in every line the most frequent one; a comma may stand in any cell.
    return max(_SEPARATORS, key=lambda mark: (min(counts[mark], default=0), sum(counts[mark])))

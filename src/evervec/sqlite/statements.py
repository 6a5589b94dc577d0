"""Named statements from a `.sql` file that lies beside the Python that runs them."""

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def statements(package: str, file: str) -> dict[str, str]:
    """Return the statements of *file* by name: each starts at its `-- name: …` line."""
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {
        name: statement.strip() for name, statement in zip(parts[1::2], parts[2::2], strict=True)
    }

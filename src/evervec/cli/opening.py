"""From command line options to an App, and from results to output."""

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from evervec.app import App
from evervec.settings import load
from evervec.status import CollectionStatus


def app_of(asked: argparse.Namespace) -> App:
    settings = load()
    if asked.state:
        settings = replace(settings, state=asked.state)
    if asked.model:
        settings = replace(settings, model=asked.model)
    return App(settings=settings)


@asynccontextmanager
async def looking(asked: argparse.Namespace, *, create: bool = False) -> AsyncIterator[App]:
    """Open the state without serving it."""
    app = app_of(asked)
    try:
        await app.open(create=create)
        yield app
    finally:
        await app.close()


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its exit code."""
    return asyncio.run(work)


_CONTROLS = {
    code: f"\\x{code:02x}"
    for code in (*range(32), *range(127, 160))
    if code not in map(ord, "\n\t")
}


def shown(text: str) -> str:
    """Return *text* so that what comes out of documents and names does not command the terminal."""
    return text.translate(_CONTROLS)


def say(text: str = "") -> None:
    """Print *text*, whatever it holds."""
    print(shown(text), flush=True)


def say_json(value: object) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def log_to_stderr(*, quiet: bool, as_json: bool) -> None:
    """Give the library's log lines one listener: text, or JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter("%(levelname)s %(message)s"))
    root = logging.getLogger("evervec")
    root.addHandler(handler)
    root.setLevel(logging.ERROR if quiet else logging.WARNING)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": int(record.created * 1000),
            "level": record.levelname.lower(),
            "part": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def percent(share: float) -> str:
    """Write a share so that 100 % means all of it."""
    return "100 %" if share >= 1 else f"{min(99.99, share * 100):.2f} %"


def seconds(value: float | None) -> str:
    """Write a duration as people say it."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 90:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def unseen_words(status: CollectionStatus) -> str:
    """Say that nobody has taken a source's changes yet."""
    wait, them = ("changes wait", "them") if status.unseen > 1 else ("change waits", "it")
    return (
        f"{status.name}: {status.unseen:,} {wait} in its source;"
        f" `evervec up` or `evervec sync` takes {them} from there"
    )


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Lay rows out in columns; the first row is their heading."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )

"""Runs of the real program, in a process of its own."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 50


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "evervec", *arguments]


def surroundings(**more: str) -> dict[str, str]:
    """Return the environment without any setting of ours."""
    plain = {name: text for name, text in os.environ.items() if not name.startswith("EVERVEC")}
    return {**plain, "PYTHONUNBUFFERED": "1", **more}


def evervec(place: Path, *arguments: str, **environment: str) -> Ran:
    """Run one command in *place* to its end."""
    done = subprocess.run(
        command(*arguments),
        cwd=place,
        env=surroundings(**environment),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def write(database: Path, sql: str, *values: object) -> None:
    """Write as any other program does: with the standard library's SQLite."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(sql, values)


def names(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("select name from sqlite_master order by name").fetchall()
    return [name for (name,) in rows]


def shop(place: Path) -> Path:
    path = place / "shop.db"
    write(path, "create table articles (id integer primary key, title text, body text)")
    write(
        path,
        "insert into articles values (1, 'Tides', 'The moon pulls the sea.'),"
        " (2, 'Leases', 'A lease expires unless it is renewed.'),"
        " (3, 'Bread', 'Flour, water, salt and time.')",
    )
    return path

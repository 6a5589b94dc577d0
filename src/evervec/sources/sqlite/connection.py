"""Connections to a user's file, and SQLite's errors in plain words.

The standard library's SQLite is used here, not our own: the user's program may live in the same
process, and two copies of SQLite in one process do not see each other's file locks.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from evervec.errors import ConfigError, SourceError

_FIRST_BYTE = 0xFF

VALUE_BYTES_MAX = 200_000_000
"""As for a file: a larger value is refused by SQLite itself, before it takes any memory."""


def connect(path: str, *, busy_seconds: float = 0.0, immutable: bool = False) -> sqlite3.Connection:
    """Open an existing file, read-only if it cannot be written. Never makes one."""
    options = "mode=ro&immutable=1" if immutable else "mode=rw"
    connection = sqlite3.connect(
        f"file:{quote(os.fspath(path))}?{options}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
    return connection


def connect_readable(path: Path, *, busy_seconds: float) -> sqlite3.Connection:
    """Open a file and prove that it can be read."""
    connection = connect(str(path), busy_seconds=busy_seconds)
    try:
        connection.execute("pragma schema_version").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        frozen = code_of(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not frozen or path.with_name(path.name + "-wal").exists():
            raise
        # A file in WAL mode on read-only media: nobody writes it, so no lock is needed.
        return connect(str(path), busy_seconds=busy_seconds, immutable=True)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def refuse_missing(path: Path) -> None:
    """Raise ConfigError if there is no file at *path*."""
    if not path.is_file():
        raise ConfigError(
            f"{str(path)!r} is not a file",
            hint="name an existing SQLite database; none is made here",
        )


def schema_version(connection: sqlite3.Connection) -> int:
    """Return a number that grows with every change of a table or a trigger."""
    return int(connection.execute("pragma schema_version").fetchone()[0])


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary error code, 0 where the library gives none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & _FIRST_BYTE


@contextmanager
def plain_words(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, with what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_plain_words(error, path) from error


def _in_plain_words(error: sqlite3.Error, path: Path) -> ConfigError | SourceError:
    code, name = code_of(error), repr(str(path))
    if code == sqlite3.SQLITE_NOTADB:
        return ConfigError(f"{name} is not an SQLite database", hint="name the database file")
    if code == sqlite3.SQLITE_CANTOPEN:
        return ConfigError(
            f"{name} cannot be opened ({error})",
            hint="check the rights of the file and of its folder",
        )
    what, hint = {
        sqlite3.SQLITE_BUSY: (
            "another program keeps it locked",
            "end that program's transaction; what it commits is captured meanwhile",
        ),
        sqlite3.SQLITE_CORRUPT: (
            "it is damaged",
            "check it with: sqlite3 FILE 'pragma integrity_check'",
        ),
        sqlite3.SQLITE_READONLY: (
            "it cannot be written",
            "check the rights of the file and of its folder",
        ),
        sqlite3.SQLITE_FULL: ("its disk is full", "free some space"),
        sqlite3.SQLITE_IOERR: ("its disk reports an error", "check the disk"),
    }.get(code, (str(error), None))
    detail = "" if hint is None else f" ({error})"
    return SourceError(f"source {name}: {what}{detail}", hint=hint)

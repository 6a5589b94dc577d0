"""What a user says a source is: values that can be written down in the state and opened again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from evervec.errors import ConfigError
from evervec.ports import Notebook, Registered, RowVectors, Source
from evervec.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Table:
    """A table of an SQLite database."""

    path: str
    name: str
    key: tuple[str, ...] = ()
    where: str | None = None
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of documents, or one file."""

    path: str
    patterns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    file_bytes_max: int | None = None


Spec: TypeAlias = Table | Folder


def table(
    path: str | Path,
    name: str,
    *,
    key: str | Sequence[str] = (),
    where: str | None = None,
    into: str | None = None,
) -> Table:
    """Name a table of the SQLite file *path*; *where* leaves rows out.

    *key* is needed only where the table declares none. *into* names a column that is to hold each
    row's vector, as float32 bytes.
    """
    columns = (key,) if isinstance(key, str) else tuple(key)
    return Table(_absolute(path), name, columns, where, into)


def folder(
    path: str | Path,
    *,
    patterns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    file_bytes_max: int | None = None,
) -> Folder:
    """Name a folder; *patterns* choose its files (`*.md`), *ignore* rules are those of git.

    A file of more than *file_bytes_max* bytes (200 million, if nothing is said) is refused unread.
    """
    if file_bytes_max is not None and file_bytes_max < 1:
        raise ConfigError(
            f"file_bytes_max is {file_bytes_max!r}, and every file has more bytes",
            hint="give the size of the largest file that is to be read, or leave it out",
        )
    return Folder(_absolute(path), tuple(patterns), tuple(ignore), file_bytes_max)


def to_json(spec: Spec) -> dict[str, Any]:
    written = {"kind": type(spec).__name__.lower(), **asdict(spec)}
    # Collections that were registered before there was such a choice stay equal.
    return {
        name: value for name, value in written.items() if name not in _LATER or value is not None
    }


_LATER = frozenset({"into", "file_bytes_max"})


def from_json(written: Mapping[str, Any]) -> Spec:
    path = str(written["path"])
    match written["kind"]:
        case "table":
            name, key = str(written["name"]), tuple(written["key"])
            return Table(path, name, key, written["where"], written.get("into"))
        case "folder":
            patterns, ignore = tuple(written["patterns"]), tuple(written["ignore"])
            return Folder(path, patterns, ignore, written.get("file_bytes_max"))
        case kind:
            raise ConfigError(
                f"a source of kind {kind!r} is registered, which this program does not know",
                hint="update this program: pip install -U evervec",
            )


def place(spec: Spec) -> str:
    """Return where the documents live, as people write it."""
    return f"{spec.path} {spec.name}" if isinstance(spec, Table) else spec.path


def lists_itself(spec: Spec) -> bool:
    """Say whether the source's first changes are all it holds, so that no scan is needed."""
    return isinstance(spec, Folder)


def row_vectors(spec: Spec, source: Source) -> RowVectors | None:
    """Return *source* as the keeper of its rows' vectors, if *spec* asks for that."""
    wanted = isinstance(spec, Table) and spec.into is not None
    return source if wanted and isinstance(source, RowVectors) else None


def refuse_unknown_fields(asked: Sequence[Registered], where: Mapping[str, Any]) -> None:
    """Raise ConfigError for a condition on a field that no collection was declared to keep.

    A folder's documents bring fields of their own, so there nothing is unknown.
    """
    kept: set[str] = set()
    for each in asked:
        if isinstance(from_json(each.source), Folder):
            return
        kept |= set(Recipe.from_json(each.recipe).metadata)
    for field in where:
        if field not in kept:
            near = get_close_matches(field, kept, 1)
            known = ", ".join(repr(name) for name in sorted(kept)) or "none yet"
            raise ConfigError(
                f"no collection that is searched keeps a field {field!r} to filter on",
                hint=f"did you mean {near[0]!r}?"
                if near
                else f"kept: {known}; metadata= or --metadata names more when a table is registered",
            )


def open_source(
    spec: Spec, recipe: Recipe, *, token: str, notebook: Notebook, watched: bool = True
) -> Source:
    """Make the adapter for *spec*; drivers are imported only here and only when needed.

    Unless it is *watched*, the source can be scanned and read, and is never written.
    """
    if isinstance(spec, Table):
        from evervec.sources.sqlite import TableSource, TableSpec

        columns = TableSpec(
            Path(spec.path),
            spec.name,
            tuple(recipe.template.fields),
            recipe.metadata,
            spec.key,
            spec.where,
            spec.into,
        )
        return TableSource(columns, token=token, notebook=notebook, watched=watched)
    from evervec.sources.files import FILE_BYTES_MAX, PATTERNS, FolderSource

    return FolderSource(
        spec.path,
        patterns=spec.patterns or PATTERNS,
        ignore=spec.ignore,
        notebook=notebook,
        file_bytes_max=spec.file_bytes_max or FILE_BYTES_MAX,
    )


def _absolute(path: str | Path) -> str:
    return str(Path(path).expanduser().absolute())

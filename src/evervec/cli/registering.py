"""watch, unwatch, plan: what is followed, and what it would take."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from evervec.app import App
from evervec.cli.opening import app_of, looking, percent, run, say, say_json, seconds
from evervec.collection import Collection
from evervec.errors import ConfigError
from evervec.model import Scope
from evervec.planning import estimate
from evervec.specs import Folder, Spec, folder, from_json, place, table
from evervec.text.chunk import ChunkRecipe

SQLITE_MAGIC = b"SQLite format 3\0"


def watch(asked: argparse.Namespace) -> int:
    return run(_watch(asked))


def unwatch(asked: argparse.Namespace) -> int:
    return run(_unwatch(asked))


def plan(asked: argparse.Namespace) -> int:
    return run(_plan(asked))


async def _watch(asked: argparse.Namespace) -> int:
    async with looking(asked, create=True) as app:
        spec = table(asked.database, asked.table, key=asked.key, where=asked.where, into=asked.into)
        collection = await declare(app, asked, spec, asked.name or asked.table)
        registered = await app.find(collection.name, tenant=asked.tenant)
        if asked.json:
            say_json({"collection": collection.name, "source": place(spec)})
        elif not asked.quiet:
            say(f"Watching {place(spec)} as collection {registered.scope.collection!r}.")
            say("Every change is captured from now on, whoever writes.")
            if asked.into:
                say(f"Each row's vector is kept in its column {asked.into!r}, as float32 bytes.")
            say("Next: `evervec sync` embeds what is there, `evervec up` follows it until Ctrl-C.")
    return 0


async def _unwatch(asked: argparse.Namespace) -> int:
    async with looking(asked) as app:
        registered = await app.find(asked.name, tenant=asked.tenant)
        await app.remove(Collection(app, registered.scope))
        if asked.json:
            say_json({"removed": asked.name})
        elif not asked.quiet:
            where = place(from_json(registered.source))
            say(f"Collection {asked.name!r} is forgotten; nothing of it is left in {where}.")
    return 0


async def declare(app: App, asked: argparse.Namespace, spec: Spec, name: str) -> Collection:
    """Register what the options say."""
    limits = {}
    if asked.chunk_tokens is not None:
        limits["tokens_max"] = asked.chunk_tokens
    if asked.overlap is not None:
        limits["overlap"] = asked.overlap
    collection = app.collection(
        name,
        source=spec,
        text=asked.text,
        tenant=asked.tenant,
        chunk=ChunkRecipe(**limits),
        normalise=asked.normalise,
        metadata=asked.metadata,
        change=asked.change,
    )
    await app.collections()
    return collection


def check_target(path: str) -> Path:
    """Return where a target is. Raises ConfigError if there is nothing."""
    where = Path(path).expanduser()
    if not where.exists():
        raise ConfigError(
            f"there is no folder or file {path!r}", hint="check the path; it is relative to here"
        )
    return where


async def target(app: App, asked: argparse.Namespace, path: str) -> None:
    """Register a folder or file; a database's collections must be registered with `watch`."""
    where = check_target(path)
    if where.is_file() and _is_sqlite(where):
        await _watched(app, where)
        return
    spec = folder(where)
    name = asked.name or await _free_name(app, asked.tenant, spec)
    await declare(app, asked, spec, name)


async def _watched(app: App, where: Path) -> None:
    absolute = str(where.absolute())
    for each in await app.collections():
        if from_json(each.source).path == absolute:
            return
    raise ConfigError(
        f"no table of {str(where)!r} is watched",
        hint=f"say which: evervec watch {where} TABLE --text '{{COLUMN}}'",
    )


async def _free_name(app: App, tenant: str, spec: Folder) -> str:
    path = Path(spec.path)
    name = (path.stem if path.is_file() else path.name) or "root"
    for each in await app.collections():
        if each.scope != Scope(tenant, name):
            continue
        if from_json(each.source).path != spec.path:
            raise ConfigError(
                f"collection {name!r} follows {place(from_json(each.source))} already",
                hint="give the new one another name with --name",
            )
    return name


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError:
        return False


@asynccontextmanager
async def _scratch(asked: argparse.Namespace) -> AsyncIterator[App]:
    """Open the state to look at; for targets without one, an empty one that leaves no trace."""
    if asked.targets and not Path(app_of(asked).settings.state).exists():
        with TemporaryDirectory(prefix="evervec-plan-") as place:
            asked.state = str(Path(place) / "empty.db")
            async with looking(asked, create=True) as app:
                yield app
        return
    async with looking(asked) as app:
        yield app


async def _plan(asked: argparse.Namespace) -> int:
    for path in asked.targets:
        if _is_sqlite(check_target(path)):
            raise ConfigError(
                f"{path!r} is a database, and which table is meant is not said",
                hint="register it (`evervec watch FILE TABLE --text '…'`), then `evervec plan`",
            )
    async with _scratch(asked) as app:
        tenant = None if asked.every else asked.tenant
        total = await estimate(app, [folder(path) for path in asked.targets], tenant=tenant)
        if asked.json:
            say_json(total.to_json())
            return 0
        say(
            f"{total.documents:,} documents · {total.chunks:,} chunks · {total.tokens:,} tokens"
            f" · {percent(total.known_share)} of the chunks known"
        )
        say(
            f"to embed: {total.new_chunks:,} chunks, {total.new_tokens:,} tokens,"
            f" about {seconds(total.seconds)} at {total.rate:,.0f} tokens/s on this machine"
        )
        if total.broken:
            say(f"{total.broken:,} documents cannot be read and would fail")
        say("Nothing was written.")
    return 0

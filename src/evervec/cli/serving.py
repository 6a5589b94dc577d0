"""up, worker, sync: the commands that do the work."""

import argparse
import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack

from evervec.app import App
from evervec.cli.live import view_of
from evervec.cli.opening import app_of, log_to_stderr, run, say, say_json
from evervec.cli.registering import check_target, target
from evervec.errors import ConfigError

LOOK_SECONDS = 0.5


def up(asked: argparse.Namespace) -> int:
    return run(_serve(asked, asked.targets, captures=True))


def worker(asked: argparse.Namespace) -> int:
    return run(_serve(asked, [], captures=not asked.no_capture))


def sync(asked: argparse.Namespace) -> int:
    return run(_sync(asked))


async def _serve(asked: argparse.Namespace, targets: list[str], *, captures: bool) -> int:
    log_to_stderr(quiet=asked.quiet, as_json=asked.json)
    async with AsyncExitStack() as stack:
        app = app_of(asked)
        stack.push_async_callback(app.close)
        for path in targets:
            check_target(path)
        # Without anything to follow, no empty state is left behind.
        await app.open(create=bool(targets))
        for path in targets:
            await target(app, asked, path)
        if not await app.collections() and not captures:
            raise ConfigError(
                "nothing is registered in this state",
                hint="start with `evervec up FOLDER` or `evervec watch FILE TABLE --text '…'`",
            )
        if not await app.collections():
            raise ConfigError(
                "there is nothing to follow",
                hint="name a folder, `evervec up notes/`, or a table: "
                "`evervec watch FILE TABLE --text '…'`",
            )
        stopping = _stop_signals()
        await app.engine.start(follows=captures)
        view = stack.enter_context(view_of(asked, app))
        while not stopping.is_set():
            await view.look()
            await _either(stopping, LOOK_SECONDS)
        view.closing()
    view.closed()
    return 0


async def _sync(asked: argparse.Namespace) -> int:
    log_to_stderr(quiet=asked.quiet, as_json=asked.json)
    async with AsyncExitStack() as stack:
        app = app_of(asked)
        stack.push_async_callback(app.close)
        await app.open(create=False)
        if not await app.collections():
            raise ConfigError(
                "nothing is registered in this state",
                hint="start with `evervec up FOLDER` or `evervec watch FILE TABLE --text '…'`",
            )
        stopping = _stop_signals()
        await app.engine.start(follows=False)
        view = stack.enter_context(view_of(asked, app, progress=True))
        working = asyncio.create_task(app.synced(all_served=False))
        stack.callback(working.cancel)
        while not working.done() and not stopping.is_set():
            await view.look()
            await _either(stopping, LOOK_SECONDS / 5, working.done)
        if stopping.is_set():
            view.closing()
            return 130
        await working
        await view.look()
        view.done()
        return await _verdict(asked, app)


async def _verdict(asked: argparse.Namespace, app: App) -> int:
    statuses = await app.status()
    failed = sum(status.failed for status in statuses)
    troubled = [status for status in statuses if status.trouble]
    documents = sum(status.documents for status in statuses)
    if asked.json:
        say_json(
            {"done": True, "documents": documents, "failed": failed, "not_served": len(troubled)}
        )
    elif not asked.quiet:
        say(f"In sync: {documents:,} documents searchable." if not failed + len(troubled) else "")
        for status in troubled:
            say(f"Collection {status.name!r} was not synced: {status.trouble}")
        if failed:
            say(f"{failed:,} documents failed; see why with `evervec failed ls`.")
    return 1 if failed or troubled else 0


def _stop_signals() -> asyncio.Event:
    """Let the first Ctrl-C drain; a second one ends the program at once."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopping.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    return stopping


async def _either(
    stopping: asyncio.Event, seconds: float, done: Callable[[], bool] = lambda: False
) -> None:
    if done():
        return
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return

"""Every command and option, with the words that explain them. Nothing heavy is imported here."""

import argparse
from typing import Any

from evervec import __version__

EPILOG = r"""examples:
  evervec up notes/                        follow a folder until Ctrl-C
  evervec watch shop.db articles --text '{title}\n\n{body}'
  evervec sync                             work until nothing is left
  evervec search 'how do leases expire?'
  evervec verify                           prove that nothing drifted; exit 3 if it did

state: evervec.db in this folder, or --state, or EVERVEC_STATE, or evervec.toml
exit codes: 0 fine · 1 failed · 2 usage · 3 drift or unhealthy · 4 unreachable"""


def parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="evervec",
        description="Change a row, a file or a document; its vectors follow.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"evervec {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    for add in (_serving, _registering, _looking, _operating):
        add(commands)
    return top


def _serving(commands: Any) -> None:
    up = _command(commands, "up", "serving:up", "capture and work until Ctrl-C", json=True)
    up.add_argument("targets", nargs="*", metavar="TARGET", help="a folder, a file or a database")
    _text_options(up)
    worker = _command(commands, "worker", "serving:worker", "work on jobs until Ctrl-C", json=True)
    worker.add_argument(
        "--no-capture", action="store_true", help="leave following the sources to others"
    )
    _command(
        commands,
        "sync",
        "serving:sync",
        "work until nothing is left; exit 1 if any failed",
        json=True,
    )


def _registering(commands: Any) -> None:
    watch = _command(
        commands,
        "watch",
        "registering:watch",
        "register a table, and follow it from now on",
        json=True,
    )
    watch.add_argument("database", metavar="FILE", help="an SQLite database that others write to")
    watch.add_argument("table", metavar="TABLE")
    watch.add_argument("--key", action="append", default=[], help="key column, if none is declared")
    watch.add_argument("--where", help="an SQL condition; other rows are left out")
    watch.add_argument("--into", metavar="COLUMN", help="keep each row's vector in this column too")
    _text_options(watch)
    unwatch = _command(
        commands,
        "unwatch",
        "registering:unwatch",
        "forget a collection and leave no trace",
        json=True,
    )
    unwatch.add_argument("name", metavar="COLLECTION")
    plan = _command(
        commands,
        "plan",
        "registering:plan",
        "say what syncing would take, before any work",
        json=True,
    )
    plan.add_argument(
        "targets", nargs="*", metavar="TARGET", help="a folder or file, or nothing: all"
    )


def _text_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--text", help=r"template over the fields: '{title}\n\n{body}'")
    command.add_argument("--name", help="the collection's name")
    command.add_argument(
        "--metadata", action="append", default=[], help="field to filter on; may be given again"
    )
    command.add_argument("--chunk-tokens", type=int, help="tokens a chunk at most")
    command.add_argument("--overlap", type=int, help="tokens that neighbours share")
    command.add_argument("--normalise", action="store_true", help="fold case, accents, punctuation")
    command.add_argument(
        "--change", action="store_true", help="the recipe or source differs and this is wanted"
    )


def _looking(commands: Any) -> None:
    search = _command(commands, "search", "searching:search", "search what is published", json=True)
    search.add_argument("query", metavar="QUERY", nargs="?")
    search.add_argument(
        "-c", "--collection", action="append", help="only this one; may be given again"
    )
    search.add_argument("-k", type=int, default=5, help="how many hits (5)")
    search.add_argument("--mode", choices=("hybrid", "dense", "lexical"), default="hybrid")
    search.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="on metadata: lang=en, 'price<10', 'kind!=draft'; all must hold",
    )
    search.add_argument("--rerank", metavar="FOLDER", help="order the best by this cross-encoder")
    search.add_argument("--explain", action="store_true", help="say why each hit is one")
    search.add_argument(
        "--check-recall",
        type=int,
        nargs="?",
        const=100,
        metavar="N",
        help="search for N stored vectors (100); exit 3 if too few of the nearest are found",
    )
    _command(commands, "status", "looking:status", "how fresh everything is", json=True)
    verify = _command(
        commands,
        "verify",
        "looking:verify",
        "compare source, state and store; exit 3 on drift",
        json=True,
    )
    verify.add_argument("-c", "--collection", help="only this one")
    doctor = _command(
        commands, "doctor", "doctor:doctor", "check everything and say the fix", json=True
    )
    doctor.add_argument("--no-model", action="store_true", help="do not load the model")
    events = _command(commands, "events", "looking:events", "the facts, newest last", json=True)
    events.add_argument("action", choices=("tail",))
    events.add_argument("-n", type=int, default=20, help="how many past ones (20)")
    events.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")


def _operating(commands: Any) -> None:
    repair = _command(
        commands,
        "repair",
        "operating:repair",
        "put documents that drifted back in the queue",
        json=True,
    )
    repair.add_argument("-c", "--collection", help="only this one")
    repair.add_argument("--limit", type=int, default=10, help="documents at most (10)")
    force = _command(
        commands,
        "force",
        "operating:force",
        "embed one document again though nothing changed",
        json=True,
    )
    force.add_argument("collection", metavar="COLLECTION")
    force.add_argument(
        "id", metavar="ID", help="as the source has it: 7 is a number, '\"7\"' a text"
    )
    cancel = _command(
        commands, "cancel", "operating:cancel", "stop a document until it changes again", json=True
    )
    cancel.add_argument("collection", metavar="COLLECTION")
    cancel.add_argument("id", metavar="ID")
    jobs = _command(commands, "jobs", "operating:jobs", "list what is not in sync", json=True)
    jobs.add_argument("-c", "--collection", help="only this one")
    jobs.add_argument("--limit", type=int, default=50)
    failed = _command(
        commands, "failed", "operating:failed", "jobs that wait for a person", json=True
    )
    failed.add_argument("action", choices=("ls", "show", "retry", "drop"))
    failed.add_argument("jobs", nargs="*", type=int, metavar="JOB")
    failed.add_argument("--all", action="store_true", help="every one of them")
    stage = _command(
        commands, "stage", "operating:stage", "pause, resume or drain the work", json=True
    )
    stage.add_argument("action", choices=("pause", "resume", "drain", "show"))
    model = _command(
        commands, "model", "models:model", "list the models, fetch what one needs", json=True
    )
    model.add_argument("action", choices=("ls", "fetch"))
    model.add_argument("wanted", nargs="?", metavar="NAME", help="what to fetch: exact")


def _command(
    commands: Any, name: str, run: str, about: str, *, json: bool
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + "."
    )
    command.set_defaults(run=run)
    command.add_argument("--state", metavar="FILE", help="the state database")
    command.add_argument(
        "--model",
        metavar="NAME",
        help="local, local:fast, local:exact, static, or a folder with a model's files",
    )
    command.add_argument(
        "--tenant",
        help="whose collections; commands that list or mend cover all if it is not given",
    )
    command.add_argument("-q", "--quiet", action="store_true", help="print only what was asked for")
    if json:
        command.add_argument("--json", action="store_true", help="machine-readable")
    return command

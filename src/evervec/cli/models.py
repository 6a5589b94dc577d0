"""model: which models there are by name, and fetching what one of them needs."""

import argparse

from evervec.cli.opening import columns, say, say_json
from evervec.embedders.local import fetch, files
from evervec.embedders.local.embedder import QUALITIES
from evervec.embedders.naming import named
from evervec.errors import ConfigError
from evervec.settings import load


def model(asked: argparse.Namespace) -> int:
    return _fetch(asked) if asked.action == "fetch" else _list(asked)


def _list(asked: argparse.Namespace) -> int:
    from evervec.embedders import static

    chosen = asked.model or load().model
    rows = [
        ("local", files.located(files.PACKAGE) is not None, QUALITIES["default"], files.INSTALL),
        ("local:fast", files.located(files.PACKAGE) is not None, QUALITIES["fast"], files.INSTALL),
        ("local:exact", fetch.EXACT.path.is_file(), QUALITIES["exact"], fetch.FETCH),
        (
            "static",
            files.located(static.PACKAGE) is not None,
            static.ABOUT,
            static.INSTALL,
        ),
    ]
    if chosen not in {name for name, *_ in rows}:
        named(chosen)
        rows.append((chosen, True, "chosen here", ""))
    if asked.json:
        say_json(
            {
                "models": [
                    {
                        "name": name,
                        "chosen": name == chosen,
                        "ready": ready,
                        "about": about,
                        "fix": "" if ready else fix,
                    }
                    for name, ready, about, fix in rows
                ]
            }
        )
        return 0
    lines = [("", "NAME", "READY", "WHAT IT IS")]
    for name, ready, about, fix in rows:
        mark = "*" if name == chosen else ""
        lines.append((mark, name, "yes" if ready else "no", about if ready else f"{about}: {fix}"))
    say(columns(lines))
    return 0


def _fetch(asked: argparse.Namespace) -> int:
    if asked.wanted not in {"exact", "local:exact"}:
        raise ConfigError(
            "which model to fetch is not said"
            if asked.wanted is None
            else f"there is nothing to fetch for {asked.wanted!r}",
            hint=f"only one is fetched, the others are installed: {fetch.FETCH}",
        )
    new = fetch.fetch(fetch.EXACT)
    if asked.json:
        say_json({"fetched": new, "path": str(fetch.EXACT.path)})
    elif not asked.quiet:
        say(f"{'Fetched' if new else 'Already there'}, checked: {fetch.EXACT.path}")
        say("Use it with --model local:exact.")
    return 0

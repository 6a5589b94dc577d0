"""The command line: parse, call, print. Each command's code is imported when it is asked for.

Exit codes: 0 fine, 1 failed, 2 usage, 3 drift or unhealthy, 4 unreachable.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from evervec.cli.words import parser
from evervec.errors import ConfigError, EvervecError, SourceError, StateError

FINE, FAILED, USAGE, DRIFT, UNREACHABLE = 0, 1, 2, 3, 4
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Errors are told in words, never as a traceback."""
    asked = parser().parse_args(arguments)
    if not hasattr(asked, "run"):
        parser().print_help()
        return USAGE
    # Commands that list or mend cover every tenant unless one is named; others mean one tenant.
    asked.every = asked.tenant is None
    asked.tenant = asked.tenant or ""
    try:
        return _run(asked)
    except EvervecError as error:
        print(f"evervec: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # `evervec … | head`: whoever read has had enough.
        sys.stderr.close()
        return FINE
    except Exception as error:  # noqa: BLE001 - the last door: a user is never shown a traceback
        return _defect(error)


def _defect(error: Exception) -> int:
    print(
        f"evervec: a defect of this program: {type(error).__name__}: {error}\n"
        "  nothing that was stored is lost; please report it with what EVERVEC_DEBUG=1 prints",
        file=sys.stderr,
    )
    if os.environ.get("EVERVEC_DEBUG"):
        traceback.print_exception(error)
    return FAILED


def exit_code(error: EvervecError) -> int:
    if isinstance(error, ConfigError):
        return USAGE
    return UNREACHABLE if isinstance(error, (StateError, SourceError)) else FAILED


def _run(asked: argparse.Namespace) -> int:
    module, _, name = asked.run.partition(":")
    command = getattr(import_module(f"evervec.cli.{module}"), name)
    return int(command(asked))

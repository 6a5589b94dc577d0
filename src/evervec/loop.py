"""The only periodic loop: a duty that survives its own trouble."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from evervec.errors import EvervecError

log = logging.getLogger("evervec.loop")

Duty = Callable[[], Awaitable[None]]


async def every(seconds: float, duty: Duty, *, name: str) -> None:
    """Do *duty* now and then every so many *seconds*, for ever.

    Trouble is logged with the duty's name, and the duty is done again when its time comes.
    """
    while True:
        await guarded(duty, name=name, again=seconds)
        await asyncio.sleep(seconds)


async def guarded(duty: Duty, *, name: str, again: float) -> bool:
    """Do *duty* once; log what goes wrong instead of raising it. Return whether it went well."""
    try:
        await duty()
    except EvervecError as error:
        log.warning("%s: %s; next try in %.0f s", name, error, again)
    except Exception:
        log.exception("%s went wrong; next try in %.0f s", name, again)
    else:
        return True
    return False

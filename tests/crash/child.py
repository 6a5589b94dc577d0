"""Real processes that serve a state until they are killed.

`python -m tests.crash.child` is a fork server: it has imported the product once, opened nothing and
started no thread, and forks a process for each line of JSON it reads. So a process that may be
killed starts in milliseconds and shares nothing with its siblings but code.
"""

import asyncio
import importlib
import json
import logging
import os
import signal
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import evervec
import evervec.app
import evervec.sources.files
import evervec.sources.sqlite
from evervec import faults
from evervec.app import App
from evervec.ports import Limits
from evervec.settings import Settings, Work
from evervec.stores.sqlite import publish
from evervec.testing.embedder import HashEmbedder, Trouble

TEMPLATE = "{title}\n\n{body}"
NAME = "articles"


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to do. Paths as text, so that it travels as JSON."""

    role: str
    """`work` until told to stop, or `settle`: sync, verify, report and end."""
    state: str
    kind: str
    place: str
    ledger: str
    report: str
    queue: str = ""
    crash_at: str = ""
    latency: float = 0.004
    kill_on: str = ""
    lease: float = 2.0
    claim: int = 6
    slots: int = 3
    crashes: int = 100
    """So many that no innocent is quarantined, however often its worker is killed from outside."""
    texts: int = 4
    concurrency: int = 2
    large: int = publish.LARGE
    """Documents with more chunks are published in parts."""
    extra: dict[str, Any] = field(default_factory=dict)


def app_of(order: Order) -> App:
    publish.LARGE = order.large
    work = Work(
        lease=order.lease,
        claim=order.claim,
        slots=order.slots,
        poll=0.05,
        crashes=order.crashes,
        backoff=0.05,
    )
    embedder = HashEmbedder(
        limits=Limits(batch_texts_max=order.texts, concurrency=order.concurrency),
        ledger=order.ledger,
        trouble=Trouble(latency=order.latency, kill_on=order.kill_on),
    )
    return App(
        order.state, model=embedder, queue=order.queue or None, settings=Settings(worker=work)
    )


async def serve(order: Order) -> None:
    app = app_of(order)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    if order.kind == "table":
        source, text = evervec.table(order.place, "article", into="vector"), TEMPLATE
        articles = app.collection(NAME, source=source, text=text)
    else:
        articles = app.collection(NAME, source=evervec.folder(order.place))
    async with app:
        if order.role == "work":
            Path(order.report).write_text("{}", encoding="utf-8")
            await stopping.wait()
            return
        await articles.synced()
        report = (await articles.verify()).to_json()
        Path(order.report).write_text(json.dumps(report), encoding="utf-8")


def run(order: Order) -> None:
    """Be the child. Never returns to the server."""
    log = f"{order.report}.log"
    code = 1
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        if order.crash_at:
            # The product reads its orders when it is imported; it was, before the fork.
            os.environ["EVERVEC_CRASH_AT"] = order.crash_at
            importlib.reload(faults)
        asyncio.run(serve(order))
        code = 0
    except BaseException:  # noqa: BLE001 - the log tells the driver, and nothing is above us
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        if "ended" in asked:
            pid, status = os.waitpid(asked["ended"], os.WNOHANG)
            answer: Any = os.waitstatus_to_exitcode(status) if pid else None
        elif answer := os.fork():
            pass
        else:
            os.close(0)
            run(Order(**asked))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

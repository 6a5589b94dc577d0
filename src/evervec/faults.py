"""Named places where a crash hurts most. The product passes them; tests die at them.

`EVERVEC_CRASH_AT=label:3` kills the process with SIGKILL the third time it passes *label*.
A simulation installs a hook instead. Unset, a place costs one comparison.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable

LABELS = (
    "schema.commit",
    "schema.done",
    "capture.read",
    "capture.put",
    "capture.accepted",
    "queue.put.commit",
    "queue.put.done",
    "queue.claim.commit",
    "queue.claim.done",
    "queue.settle.commit",
    "queue.settle.done",
    "queue.renew.commit",
    "queue.renew.done",
    "queue.reap.commit",
    "queue.reap.done",
    "attempt.read",
    "attempt.planned",
    "attempt.embed",
    "attempt.embedded",
    "store.keep.commit",
    "store.keep.done",
    "store.stage.commit",
    "store.stage.done",
    "store.publish.commit",
    "store.publish.done",
    "attempt.published",
    "attempt.written_back",
    "worker.drain",
)
"""`….commit` is inside the transaction, just before its commit; `….done` is just after."""

hook: Callable[[str], None] | None = None


def reach(label: str) -> None:
    if hook is not None:
        hook(label)


def _die_at(wanted: str, count: int) -> Callable[[str], None]:
    passed: Counter[str] = Counter()

    def die(label: str) -> None:
        passed[label] += 1
        if label == wanted and passed[label] == count:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


if order := os.environ.get("EVERVEC_CRASH_AT"):
    _label, _, _count = order.partition(":")
    hook = _die_at(_label, int(_count or 1))

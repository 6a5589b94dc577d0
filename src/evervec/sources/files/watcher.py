"""Hints from the operating system about what was touched, gathered on a thread of its own.

Hints are lost now and then (queues overflow, network folders send none), so they only make the
next look quick; the full walk from time to time is what is relied on.
"""

import logging
import os
import threading
from collections.abc import Callable

from watchfiles._rust_notify import RustNotify

from evervec.sources.files.ignore import FILES, STATE

log = logging.getLogger("evervec.sources.files")

STEP_MS = 5
"""Quiet for this long after an event, its hints are passed on: an edit is seen in 5 to 10 ms."""
DEBOUNCE_MS = 50
STOP_MS = 200
AGAIN = 0.5
"""Seconds until a watch that ended begins again; then a full walk finds what it missed."""
HINTS_MAX = 2000
"""More than this at once, and a full walk is cheaper."""

_MODIFIED = 2
_DELETED = 3


class Watcher:
    """Gathers the paths that were touched below a root. `take` hands them over."""

    def __init__(
        self,
        root: str,
        *,
        recursive: bool,
        fits: Callable[[str], bool],
        wake: Callable[[], None],
    ) -> None:
        self.root = root
        self._recursive = recursive
        self._fits = fits
        self._wake = wake
        self._lock = threading.Lock()
        self._touched: set[str] = set()
        self._all = False
        self._stop = threading.Event()
        self.failed = False
        """Hints do not come; only walks find what changed."""
        self.ready = threading.Event()
        """Set when hints come, or when it is known that they will not."""
        self._thread = threading.Thread(target=self._run, name="evervec-watch", daemon=True)
        self._thread.start()

    def take(self) -> tuple[set[str], bool]:
        """Return what was touched since the last call, and whether anything may have been."""
        with self._lock:
            touched, self._touched = self._touched, set()
            everything, self._all = self._all, False
        return touched, everything

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            place = self._place()
            # A watch on a root that is not there would stand on nothing and not say so.
            if place is not None:
                try:
                    notify = RustNotify([self.root], False, False, 0, self._recursive, True)
                except (OSError, RuntimeError) as error:
                    self._give_up(error)
                    return
                self._follow(notify, place)
            self.ready.set()
            self._stop.wait(AGAIN)

    def _follow(self, notify: RustNotify, place: tuple[int, int]) -> None:
        """Pass hints on until the watch ends: by `close`, with its root, or on its own error."""
        with notify:
            self.ready.set()
            # What happened before the watch stood is found by one full walk.
            self._add(set(), everything=True)
            try:
                while self._pass_on(notify.watch(DEBOUNCE_MS, STEP_MS, STOP_MS, self._stop)):
                    # Another folder may have come to this path; the watch follows the old one.
                    if self._stop.is_set() or self._place() != place:
                        return
            except (OSError, RuntimeError) as error:
                # Every event of a file whose name is no valid UTF-8 is such an error.
                log.info("the watch on %r ended (%s); it begins again", self.root, error)

    def _place(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self.root)  # noqa: PTH116 - beside relpath
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        self.ready.set()
        log.warning(
            "%r cannot be watched (%s), so it is walked every few seconds instead; if this is "
            "the limit of the system, raise it: sysctl fs.inotify.max_user_watches=1048576 "
            "fs.inotify.max_user_instances=1024",
            self.root,
            error,
        )
        self._add(set(), everything=True)

    def _pass_on(self, events: object) -> bool:
        """Keep what *events* tell; False if the root itself went, and the watch with it."""
        if not isinstance(events, set):
            return True
        touched = {
            path
            for kind, where in events
            if (path := self._below(where)) and self._tells(kind, path)
        }
        gone = (_DELETED, self.root) in events
        if touched or gone:
            self._add(touched, everything=gone)
        return not gone

    def _below(self, where: str) -> str:
        path = os.path.relpath(where, self.root).replace(os.sep, "/")
        return "" if path == "." or path.startswith("../") else path

    def _tells(self, kind: int, path: str) -> bool:
        name = path[path.rfind("/") + 1 :]
        if name.startswith(STATE) or path.startswith(".git/") or "/.git/" in path:
            return False
        # A folder that appears or goes tells of its files; one whose times change does not.
        return kind != _MODIFIED or name in FILES or self._fits(path)

    def _add(self, touched: set[str], *, everything: bool) -> None:
        with self._lock:
            self._touched |= touched
            self._all = self._all or everything or len(self._touched) > HINTS_MAX
            if self._all:
                self._touched.clear()
        self._wake()

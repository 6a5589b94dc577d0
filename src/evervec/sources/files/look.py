"""Brings what is known of a folder up to date: by a walk, or at single paths. Runs on one thread."""

import logging
import os

from evervec.model import Lane
from evervec.sources.files.ignore import FILES, Rules
from evervec.sources.files.known import Known
from evervec.sources.files.tree import Tree, split

log = logging.getLogger("evervec.sources.files")


class Lookout:
    """Compares one tree with what is known of it."""

    def __init__(self, tree: Tree, known: Known) -> None:
        self._tree = tree
        self._known = known
        self._unlisted: set[str] = set()
        """Folders that could not be listed, each told of once."""

    def see_below(self, start: str, lane: Lane) -> None:
        """Walk from the folder *start* on, and miss what is known and not there any more."""
        seen: set[str] = set()
        unlisted: set[str] = set()
        for folder in self._tree.walk(start):
            if folder.files is None:
                unlisted.add(folder.path)
                self._tell_unlisted(folder.path, folder.reason)
                continue
            self._unlisted.discard(folder.path)
            seen.add(folder.path)
            self._known.see_folder(folder.path, folder.files, lane)
        for path in self._known.folders():
            gone = path not in seen and _is_below(path, {start})
            if gone and not (unlisted and _is_below(path, unlisted)):
                self._known.see_folder(path, {}, lane)

    def _tell_unlisted(self, path: str, reason: str) -> None:
        if path not in self._unlisted:
            self._unlisted.add(path)
            log.warning(
                "the folder %r cannot be listed (%s); what is known of it stays as it is",
                self._tree.absolute(path),
                reason,
            )

    def look_at(self, touched: set[str]) -> bool:
        """Look at single paths; False if only a full walk can tell what became of them."""
        rules_in: dict[str, Rules | None] = {}
        gone: set[str] = set()
        for path in touched:
            folder, name = split(path)
            if name in FILES:
                return False
            if folder not in rules_in:
                rules_in[folder] = self._tree.rules_of(folder)
            rules = rules_in[folder]
            if rules is None:
                self._known.see(path, None, Lane.LIVE)
                continue
            if self._tree.only is None and os.path.isdir(self._tree.absolute(path)):  # noqa: PTH112 - hot
                self._known.see(path, None, Lane.LIVE)
                self.see_below(path, Lane.LIVE)
            elif not self._look_at_file(rules, path):
                gone.add(path)
        self._see_gone(gone)
        return True

    def _see_gone(self, gone: set[str]) -> None:
        # What is gone may have been a folder.
        if gone:
            for path in self._known.folders():
                if _is_below(path, gone):
                    self._known.see_folder(path, {}, Lane.LIVE)

    def _look_at_file(self, rules: Rules, path: str) -> bool:
        """Take note of the file at *path*; False if nothing that belongs is there."""
        try:
            signature = self._tree.signature(path) if self._tree.holds(rules, path) else None
        except OSError:
            # It is there and cannot be looked at: what is known of it stays.
            self._known.fresh.discard(path)
            return True
        self._known.see(path, signature, Lane.LIVE)
        return signature is not None


def _is_below(path: str, tops: set[str]) -> bool:
    if "" in tops:
        return True
    while path:
        if path in tops:
            return True
        path = split(path)[0]
    return False

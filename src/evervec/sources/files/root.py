"""What lies at the path that a user named, and whether it is still the same."""

import difflib
import os
from collections.abc import Sequence

from evervec.errors import ConfigError, SourceError
from evervec.sources.files.tree import Tree


def find_tree(
    root: str, *, kind: str | None, patterns: Sequence[str], ignore: Sequence[str]
) -> Tree:
    """Return the tree at *root*; *kind* is what it was when it was last seen, if it was.

    Raises ConfigError for a path that never was, SourceError for one that went.
    """
    real = os.path.realpath(root)
    if os.path.isdir(real):  # noqa: PTH112 - beside realpath
        return Tree(real, only=None, patterns=patterns, ignore=ignore)
    folder, name = os.path.split(root)
    if os.path.isfile(real) or kind == "file":  # noqa: PTH113 - beside realpath
        return Tree(os.path.realpath(folder), only=name, patterns=(), ignore=())
    if kind is not None:
        raise SourceError(
            f"the folder {root!r} is not there any more",
            hint="mount it or put it back, or unwatch it; nothing was deleted",
        )
    raise _no_such(root)


def refuse_unmounted(tree: Tree, *, noted: int | None, device: int) -> None:
    """Raise SourceError if the tree is empty and its device is not the one that was *noted*."""
    if noted is None or device == noted:
        return
    if any(folder.files or folder.files is None for folder in tree.walk()):
        return
    raise SourceError(
        f"the folder {tree.root!r} is empty and lies on another disk than before",
        hint="mount the disk that was there; if the files are really gone, unwatch the folder",
    )


def _no_such(root: str) -> ConfigError:
    if os.path.lexists(root) and not os.path.islink(root):  # noqa: PTH114 - beside lexists
        return ConfigError(
            f"{root!r} is neither a folder nor a file", hint="name a folder or a file"
        )
    folder, name = os.path.split(root)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):  # noqa: PTH112, PTH120 - beside split
        folder, name = os.path.split(folder)
    try:
        near = difflib.get_close_matches(name, os.listdir(folder), n=3, cutoff=0.5)  # noqa: PTH208 - names only
    except OSError:
        near = []
    shown = " or ".join(repr(os.path.join(folder, found)) for found in near)  # noqa: PTH118 - beside split
    return ConfigError(
        f"there is no folder or file {root!r}",
        hint=f"did you mean {shown}?"
        if shown
        else f"{folder!r} exists; nothing in it is called alike",
    )

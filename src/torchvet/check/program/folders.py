"""Folders by their paths relative to the root of a check, in POSIX form: "" is the root, above it lie "..", "../.."."""

from __future__ import annotations

import os
from posixpath import dirname, join, normpath


def above(folder: str) -> str | None:
    """The parent of a folder given relative to the root; above "" lies ".."."""
    if folder == "":
        return ".."
    if folder == ".." or folder.endswith("/.."):
        return folder + "/.."
    up = dirname(folder)
    return normpath(up) if up else ""


def is_top(path: str) -> bool:
    """The root of a file system, a mount point or a home folder: nothing above it belongs to a project."""
    path = os.path.realpath(path)
    return path == os.path.dirname(path) or path == os.path.expanduser("~")


def below(root: str, folder: str, name: str) -> str:
    """A folder in a folder. From above the root its own name leads back into it: a package that is checked by itself
    is imported by its name, and each of its files has one path."""
    if folder[-2:] == "..":
        up = folder.count("/")
        if root.split(os.sep)[-1 - up : -up or None] == [name]:
            return folder[3:]
    return join(folder, name) if folder else name

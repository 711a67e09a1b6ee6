# SPDX-License-Identifier: MIT
"""Refuses folders in which another user could replace, add or redirect files.

Only root and this user are trusted. A program that root runs would else use, or write to, a file of another's choice.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kmod.errors import CcatuneError

OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class SharedFolderError(CcatuneError):
    """Another user could change a folder, or redirect a path. The message ends with what to do."""


def require_own_path(path: Path) -> None:
    """Raise SharedFolderError where another user could redirect this path. Its last part need not exist.

    Every folder and symbolic link of the path must be of root or of this user. Not all users may write to such a
    folder, unless it has the sticky bit. Raises OSError where one cannot be examined.
    """
    link = [path] if path.is_symlink() else []
    for place in (*link, *path.absolute().parents, *path.resolve().parents):
        try:
            found = place.lstat()
        except FileNotFoundError:
            continue  # it is to be created
        is_folder = not stat.S_ISLNK(found.st_mode)
        is_shared = is_folder and found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if is_shared or found.st_uid not in {0, os.geteuid()}:
            raise SharedFolderError(
                f"expected {place} to be of root or user {os.geteuid()}, and not writable by all users, got user "
                f"{found.st_uid} and {stat.filemode(found.st_mode)}; use another folder"
            )


def require_own_folder(folder: Path) -> None:
    """Raise SharedFolderError unless this is a folder of root or this user that its owner alone may write to.

    Raises OSError where it cannot be examined.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise SharedFolderError(f"{folder}: expected it to be a folder, got {kind_of(found.st_mode)}; remove it")
    if found.st_mode & OTHERS_MAY_WRITE:
        raise SharedFolderError(
            f"{folder}: expected to be writable by its owner alone, its mode is {stat.filemode(found.st_mode)}; "
            "chmod go-w it, and examine its files first"
        )
    if found.st_uid not in {0, os.geteuid()}:
        raise SharedFolderError(
            f"{folder}: expected root or user {os.geteuid()} as its owner, got user {found.st_uid}; chown it, and "
            "examine its files first"
        )


def kind_of(mode: int) -> str:
    """Return the kind of a file in words, such as `a symbolic link`."""
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a symbolic link"), (stat.S_ISREG, "a file"))
    return next((name for is_kind, name in kinds if is_kind(mode)), "a device, FIFO or socket")

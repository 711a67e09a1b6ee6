# SPDX-License-Identifier: MIT
"""Keeps the files of an SQLite database from other users.

A user who can open one of these files, if only to read it, can read the audit log, and can stop all writes by a lock.
The database is therefore created with mode 0600. SQLite gives its mode to the files that it creates beside it.
"""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from serving.errors import DatabaseError

__all__ = ["keep_private"]

_log = logging.getLogger(__name__)
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# The database itself, its write-ahead log, the log's index, and the rollback journal.
_ENDINGS = ("", "-wal", "-shm", "-journal")


def keep_private(file: Path) -> None:
    """Create the database if it is missing, and take the rights of other users from its files. Say so in the log.

    Raises:
        DatabaseError: others can write to the folder, or a file is not a regular one, or its mode cannot be changed.
    """
    # No file is opened here: a process that closes a file loses all locks that SQLite has on it.
    file = file.resolve()
    try:
        mode = file.parent.stat().st_mode
        if mode & stat.S_IWOTH:
            raise DatabaseError(
                f"database {file}: expected a folder that other users cannot write to, {file.parent} has the mode "
                f"{stat.S_IMODE(mode):04o}; chmod o-w it, or use another folder"
            )
        with suppress(FileExistsError):
            os.mknod(file, stat.S_IFREG | stat.S_IRUSR | stat.S_IWUSR)
        for ending in _ENDINGS:
            with suppress(FileNotFoundError):
                _take_rights(file.with_name(file.name + ending))
    except OSError as error:
        raise DatabaseError(
            f"database {error.filename}: expected a file that its owner alone can open, got {error.strerror}; run as "
            "its owner, or chmod it to 0600"
        ) from error


def _take_rights(path: Path) -> None:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise DatabaseError(f"database {path}: expected a regular file, got another one; move it away")
    if mode & _FOR_OTHERS:
        path.chmod(stat.S_IMODE(mode) & ~_FOR_OTHERS)
        _log.warning(
            "database %s: had the mode %04o, so other users could read and lock it; its mode is %04o now, but a "
            "process that has it open keeps its access until it ends",
            path,
            stat.S_IMODE(mode),
            stat.S_IMODE(mode) & ~_FOR_OTHERS,
        )

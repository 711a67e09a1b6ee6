# SPDX-License-Identifier: MIT
"""Keeps the files of an SQLite database from other users.

A user who can open one of these files, if only to read it, can read the audit log, and can stop all writes by a lock.
The database is therefore created with mode 0600. SQLite gives its mode to the files that it creates beside it.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from kmod.folders import SharedFolderError, require_own_folder, require_own_path
from serving.errors import DatabaseError

_log = logging.getLogger(__name__)
_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# The database itself, its write-ahead log, the log's index, and the rollback journal.
_ENDINGS = ("", "-wal", "-shm", "-journal")


def keep_private(file: Path) -> None:
    """Create the database if it is missing, and take the rights of other users from its files. Say so in the log.

    Raises:
        DatabaseError: others can write to the folder or redirect the path, or a file is not a regular one of this
            user, or its mode cannot be changed.
    """
    try:
        require_own_path(file)
        file = file.resolve()
        require_own_folder(file.parent)
        with suppress(FileExistsError):
            os.mknod(file, stat.S_IFREG | stat.S_IRUSR | stat.S_IWUSR)
        for ending in _ENDINGS:
            with suppress(FileNotFoundError):
                _take_rights(file.with_name(file.name + ending))
    except SharedFolderError as error:
        raise DatabaseError(f"database {file}: {error}") from error
    except OSError as error:
        raise DatabaseError(
            f"database {error.filename}: expected a file that its owner alone can open, got {error.strerror}; run as "
            "its owner, or chmod it to 0600"
        ) from error


def require_registrys(file: Path) -> None:
    """Raise DatabaseError where the file holds something else than a registry's database. It is only read.

    A file that is missing, empty or cannot be read passes, as `keep_private` and SQLite say what is wrong with it.
    """
    # SQLite itself must read it, because closing the file would drop the locks that this process has on it. With a
    # write-ahead log beside it, its content may be there alone. Without one, `immutable` keeps SQLite from making one.
    mode = "mode=ro" if os.access(f"{file}-wal", os.F_OK) else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.absolute()))}?{mode}", uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            return
        found = "a file that is not a database"
    else:
        if not tables or "registry" in tables:
            return
        found = f"a database with other tables ({', '.join(sorted(tables)[:3])})"
    raise DatabaseError(f"database {file}: expected a registry's database, got {found}; nothing was changed in it")


def _take_rights(path: Path) -> None:
    # A process that closes a file loses all locks that SQLite has on it. A descriptor with O_PATH is no open file.
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise DatabaseError(
                f"database {path}: expected a regular file of user {os.geteuid()}, got another one; run as its owner, "
                "or move it away"
            )
        mode = stat.S_IMODE(found.st_mode)
        if not mode & _FOR_OTHERS:
            return
        # fchmod refuses such a descriptor. This link leads to the file itself, whatever the path names now.
        Path(f"/proc/self/fd/{descriptor}").chmod(mode & ~_FOR_OTHERS)
    finally:
        os.close(descriptor)
    _log.warning(
        "database %s: had the mode %04o, so other users could read and lock it; its mode is %04o now, but a process "
        "that has it open keeps its access until it ends",
        path,
        mode,
        mode & ~_FOR_OTHERS,
    )

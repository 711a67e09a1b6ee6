# SPDX-License-Identifier: MIT
"""Lock files (flock) that no other user can hold.

A user who can open a file, if only to read it, can lock it, and so keep everybody else waiting. A lock file is
therefore open to its owner alone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def open_lock(path: Path) -> int:
    """Return a descriptor of a lock file, which is created if it is missing. The caller locks it.

    Raises OSError, also where the file is not a regular file of this user.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(
                errno.EPERM, f"expected a regular file of user {os.geteuid()}, got another one; remove it", str(path)
            )
        os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of this file. Waits for a process of the same user that holds it. Raises OSError."""
    descriptor = open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Closing the descriptor releases the lock. The kernel does the same when the process is killed.
        os.close(descriptor)

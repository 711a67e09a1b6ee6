# SPDX-License-Identifier: MIT
"""Folders that a process shares with a guest, and that are removed when the process ends.

The owner holds a lock on the folder (flock). The kernel releases it when the owner ends, by whatever signal. A folder
whose lock is free has no owner any more, and the next owner removes it. This needs neither process numbers, which are
reused, nor times.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def owned_folder(prefix: str) -> Iterator[Path]:
    """Make a folder below the temporary folder, and remove it at the end. First remove those that killed owners left.

    prefix: of its name, and of theirs.
    """
    place = Path(tempfile.gettempdir())
    for folder in place.glob(f"{prefix}*"):
        _remove_if_left(folder)
    # The folder gets its name only after its lock, so that nobody takes it for one without an owner.
    made = Path(tempfile.mkdtemp(prefix=f".{prefix}"))
    lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = made.rename(made.with_name(made.name.removeprefix(".")))
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def _remove_if_left(folder: Path) -> None:
    """Remove the folder if it is this user's and has no owner; leave those of other users."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            return
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # its owner is alive
    finally:
        os.close(lock)

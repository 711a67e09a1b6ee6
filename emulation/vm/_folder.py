# SPDX-License-Identifier: MIT
"""Folders that a process shares with a guest, and that go with it.

The kernel holds the owner's lock on the folder (flock) until the owner ends, by whatever signal; a folder whose lock
is free is nobody's any more, and the next owner removes it. Neither process numbers, which are used again, nor times
are looked at.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["owned_folder"]


@contextlib.contextmanager
def owned_folder(prefix: str) -> Iterator[Path]:
    """A new folder in the temporary one, removed in the end; those that its killed predecessors left are removed first.

    prefix: of its name, and of theirs.
    """
    place = Path(tempfile.gettempdir())
    for folder in place.glob(f"{prefix}*"):
        _remove_if_left(folder)
    # Has its name only with its lock, so that nobody takes it for one that was left.
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
    """Remove it if it is ours and has no owner; what is another user's is left alone."""
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

# SPDX-License-Identifier: MIT
"""The state folder keeps the agent's knowledge across restarts.

    DIR/lock                   held (flock) by the one agent that may use the folder
    DIR/agent-id               the id that the agent chose at random, where neither a setting nor the token names one
    DIR/root                   the newest root document, and the SHA-256 of the pinned file that it descends from
    DIR/<cca>/last-known-good  the last table that the kernel accepted and read back as written
    DIR/<cca>/pending          a table that is being applied; removed when it becomes the last known good or is refused
    DIR/<cca>/record           the kernel's state after the last write (class Record in decide.py)
    DIR/<cca>/serials          the highest serial of each registry and channel (class Serials in serials.py)
    DIR/<cca>/state            the report that `ccatune-agent status` shows; its time is that of the last confirmation
    DIR/<cca>/resume           created by `ccatune-agent resume`, deleted by the agent
    DIR/<cca>/forget           created by `ccatune-agent forget`, deleted by the agent

Each file except `lock`, `resume` and `forget` is replaced atomically: temporary file, fsync, rename, fsync of the
folder. It begins with a line `ccatune-agent-file 1 sha256:HEX BYTES`: the checksum and size of the rest. A truncated or
damaged file is therefore detected. The agent never uses such a file; when it starts, it renames a damaged
`last-known-good`, `pending`, `record` or `serials` to NAME.damaged, so that a person can inspect it. Anything else
than a regular file counts as damaged, and so does a file that other users may write to.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from typing import TYPE_CHECKING, Any, Literal

from kmod.ensemble import EnsembleError, write_atomically
from kmod.folders import OTHERS_MAY_WRITE, SharedFolderError, kind_of, require_own_folder, require_own_path
from kmod.locks import open_lock
from serving.agent.errors import DamagedFileError, StateDirError
from serving.agent.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAGIC = b"ccatune-agent-file 1"
_MAX_FILE_BYTES = 8 * 1024 * 1024
_LOCK_ATTEMPTS = 20
_LOCK_PAUSE_S = 0.05

LAST_KNOWN_GOOD = "last-known-good"
PENDING = "pending"
RECORD = "record"
SERIALS = "serials"
STATE = "state"
AGENT_ID = "agent-id"
ROOT = "root"
# The value of `cca` for the files of the state folder itself.
NO_CCA = ""
Request = Literal["resume", "forget"]


def seal(data: object) -> bytes:
    """Return the contents of a state file: the checksum line, then the data as JSON."""
    payload = json.dumps(data, sort_keys=True).encode("ascii")
    digest = hashlib.sha256(payload).hexdigest().encode("ascii")
    return _MAGIC + b" sha256:" + digest + b" " + str(len(payload)).encode("ascii") + b"\n" + payload


def unseal(content: bytes) -> Any:
    """Return the data of a file that `seal` made. Raises DamagedFileError where the checksum or the JSON is wrong."""
    header, newline, payload = content.partition(b"\n")
    digest = hashlib.sha256(payload).hexdigest().encode("ascii")
    expected = _MAGIC + b" sha256:" + digest + b" " + str(len(payload)).encode("ascii")
    if not newline or header != expected:
        raise DamagedFileError(f"expected the checksum of its {len(payload)} bytes, got {header[:120]!r}")
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"expected JSON, got {error}") from error


class Store:
    """The state folder. Only `acquire` creates it. Reading does not need the lock."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextlib.contextmanager
    def acquire(self) -> Iterator[None]:
        """Create the folder and hold its lock.

        Raises StateDirError where another agent holds the lock, or the folder is not writable, or others may write it
        or redirect its path.
        """
        try:
            # The state folder itself may be a symbolic link, as systemd makes it for some units.
            require_own_path(self.root)
            folder = self.root.resolve()
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            # Whoever writes there could make the next start apply any table.
            require_own_folder(folder)
            descriptor = open_lock(folder / "lock")
        except SharedFolderError as error:
            raise StateDirError(f"state folder: {error}") from error
        except OSError as error:
            raise StateDirError(
                f"state folder {self.root}: expected a folder to write to, got {error.strerror}; set --state-dir"
            ) from error
        try:
            self._lock(descriptor)
            yield
        finally:
            # Closing the descriptor releases the lock. The kernel does the same when the process is killed.
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        if not _try_lock(descriptor, attempts=_LOCK_ATTEMPTS):
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StateDirError(
                f"state folder {self.root}: expected no other agent, process {holder} holds it; "
                "stop that one or set another --state-dir"
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)

    def is_held(self) -> bool:
        """Whether an agent runs on this folder. Raises StateDirError where this is hidden from this user."""
        try:
            descriptor = os.open(self.root / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            raise StateDirError(
                f"state folder {self.root}: expected to open its lock, got {error.strerror}; run as the agent's user"
            ) from error
        except OSError:
            return False
        try:
            return not _try_lock(descriptor, attempts=1)
        finally:
            os.close(descriptor)

    def require_private(self, cca: str) -> None:
        """Raise StateDirError unless the CCA's folder is missing, or a folder that no other user may write to."""
        folder = self._folder(cca)
        try:
            require_own_folder(folder)
        except FileNotFoundError:
            return
        except SharedFolderError as error:
            raise StateDirError(f"state folder: {error}") from error
        except OSError as error:
            raise self._cannot("read", cca, "", error) from error

    def remove_leftovers(self, cca: str) -> list[str]:
        """Delete temporary files that a killed agent left, and return their names. The caller must hold the lock."""
        folder = self._folder(cca)
        leftovers = sorted(path.name for path in folder.glob(".*.tmp")) if folder.is_dir() else []
        for name in leftovers:
            self.discard(cca, name)
        return leftovers

    def save(self, cca: str, name: str, data: object) -> None:
        """Replace a file atomically and durably. Raises StateDirError."""
        try:
            self._folder(cca).mkdir(mode=0o755, exist_ok=True)
            write_atomically(self._folder(cca) / name, seal(data))
        except OSError as error:
            raise self._cannot("write", cca, name, error) from error

    def load(self, cca: str, name: str) -> Any:
        """Return a file's data, or None if there is no file. Raises DamagedFileError, StateDirError."""
        path = self._folder(cca) / name
        try:
            content = _read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._cannot("read", cca, name, error) from error
        except DamagedFileError as error:
            raise DamagedFileError(f"{path} is not used: {error}") from error
        try:
            return unseal(content)
        except DamagedFileError as error:
            raise DamagedFileError(f"{path} is damaged and is not used: {error}") from error

    def confirm(self, cca: str, name: str) -> None:
        """Set a file's time to now: its content still holds. This needs no disk space. Raises StateDirError."""
        try:
            os.utime(self._folder(cca) / name)
        except OSError as error:
            raise self._cannot("touch", cca, name, error) from error

    def age_s(self, cca: str, name: str, *, now_s: float) -> float | None:
        """Return the seconds since a file's time, by the clock that gave `now_s` (as time.time).

        Return None if there is no file, or if its time is in the future: the clock was then set back.
        """
        try:
            age_s = now_s - (self._folder(cca) / name).stat().st_mtime
        except OSError:
            return None
        return age_s if age_s >= 0 else None

    def load_table(self, cca: str, name: str) -> Table | None:
        """Return a stored table, or None if there is no file.

        Raises DamagedFileError where the file holds no valid table of this CCA, StateDirError where it is unreadable.
        """
        data = self.load(cca, name)
        if data is None:
            return None
        try:
            table = Table.from_json(data)
        except EnsembleError as error:
            raise DamagedFileError(
                f"{self._folder(cca) / name} holds no valid table and is not used: {error}"
            ) from error
        if table.ensemble.cca != cca:
            raise DamagedFileError(f"{self._folder(cca) / name} holds a table of {table.ensemble.cca} and is not used")
        return table

    def promote(self, cca: str) -> None:
        """Rename `pending` to `last-known-good` atomically. Raises StateDirError."""
        folder = self._folder(cca)
        try:
            (folder / PENDING).replace(folder / LAST_KNOWN_GOOD)
            _sync_folder(folder)
        except OSError as error:
            raise self._cannot("replace", cca, LAST_KNOWN_GOOD, error) from error

    def discard(self, cca: str, name: str) -> None:
        """Delete a file if it exists. Raises StateDirError."""
        try:
            (self._folder(cca) / name).unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._cannot("delete", cca, name, error) from error

    def set_aside(self, cca: str, name: str) -> None:
        """Rename a damaged file to NAME.damaged, and replace an older NAME.damaged. Raises StateDirError.

        A folder of the file's name is renamed, too. It does not replace an older NAME.damaged.
        """
        try:
            (self._folder(cca) / name).replace(self._folder(cca) / f"{name}.damaged")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._cannot("set aside", cca, name, error) from error

    def ask_to(self, request: Request, cca: str) -> None:
        """Leave a request of the operator for the agent, or for its next start. Raises StateDirError.

        resume: the agent takes control of the table again. forget: it forgets the highest serials.
        """
        try:
            (self._folder(cca) / request).touch()
        except OSError as error:
            raise self._cannot("write", cca, request, error) from error

    def is_asked_to(self, request: Request, cca: str) -> bool:
        """Whether an operator left this request and the agent has not handled it yet."""
        return (self._folder(cca) / request).exists()

    def withdraw(self, request: Request, cca: str) -> None:
        """Delete the request. Raises StateDirError."""
        self.discard(cca, request)

    def ccas(self) -> list[str]:
        """Return the names of the CCAs that have a state file here, sorted."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{STATE}"))

    def _folder(self, cca: str) -> Path:
        return self.root / cca

    def _cannot(self, verb: str, cca: str, name: str, error: OSError) -> StateDirError:
        return StateDirError(
            f"state folder: cannot {verb} {self._folder(cca) / name}: {error.strerror or error}; "
            "is the disk full or the folder gone?"
        )


def _try_lock(descriptor: int, *, attempts: int) -> bool:
    """Try to take the lock, and return whether it was taken.

    Several attempts are needed because `is_held`, called by `status`, takes the lock for a moment.
    """
    for attempt in range(attempts):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < attempts:
                time.sleep(_LOCK_PAUSE_S)
        else:
            return True
    return False


def _read(path: Path) -> bytes:
    """Read a regular file. Raises DamagedFileError for any other kind, and for a file that others may write to."""
    try:
        # Without O_NONBLOCK the open of a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:
            raise DamagedFileError("expected a regular file, got a symbolic link or a socket") from error
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise DamagedFileError(f"expected a regular file, got {kind_of(mode)}")
        if mode & OTHERS_MAY_WRITE:
            raise DamagedFileError(
                f"expected a file that its owner alone may write to, its mode is {stat.filemode(mode)}"
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(_MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

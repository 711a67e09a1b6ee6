# SPDX-License-Identifier: MIT
"""The state folder keeps the agent's knowledge across restarts.

    DIR/lock                   held (flock) by the one agent that may use the folder
    DIR/agent-id               the id that the agent chose at random, where neither a setting nor the token names one
    DIR/root                   the newest root document, and the SHA-256 of the pinned file that it descends from
    DIR/<cca>/last-known-good  the last table that the kernel accepted and read back as written
    DIR/<cca>/pending          a table that is being applied; removed when it becomes the last known good or is refused
    DIR/<cca>/record           the kernel's state after the last write (class Record in state.py)
    DIR/<cca>/serials          the highest serial of each registry and channel (class Serials in table.py)
    DIR/<cca>/sums             the sums of flows that are not reported or not acknowledged yet (sums.py)
    DIR/<cca>/state            the report that `ccatune-agent status` shows; its time is that of the last confirmation
    DIR/<cca>/resume           created by `ccatune-agent resume`, deleted by the agent when it was carried out
    DIR/<cca>/forget           created by `ccatune-agent forget`, deleted by the agent when it was carried out

Each file except `lock`, `resume` and `forget` is replaced atomically: temporary file, fsync, rename, fsync of the
folder. It begins with a line `ccatune-agent-file 1 sha256:HEX BYTES`: the checksum and size of the rest. A truncated or
damaged file is therefore detected. The agent never uses such a file; when it starts, it renames a damaged
`last-known-good`, `pending`, `record`, `serials` or `sums` to NAME.damaged, so that a person can inspect it. Anything
else than a regular file counts as damaged, and so does a file that other users may write to.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kmod.ensemble import EnsembleError, write_atomically
from kmod.folders import OTHERS_MAY_WRITE, SharedFolderError, kind_of, require_own_folder, require_own_path
from kmod.locks import open_lock
from serving.agent.errors import DamagedFileError, SettingsError, StateDirError
from serving.agent.settings import require_agent_id
from serving.agent.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from serving.agent.log import EventLog

_MAGIC = b"ccatune-agent-file 1"
_MAX_FILE_BYTES = 8 * 1024 * 1024
_LOCK_ATTEMPTS = 20
_LOCK_PAUSE_S = 0.05
_MAX_HOST_CHARACTERS = 80
_ID_BYTES = 8

LAST_KNOWN_GOOD = "last-known-good"
PENDING = "pending"
RECORD = "record"
SERIALS = "serials"
STATE = "state"
SUMS = "sums"
AGENT_ID = "agent-id"
ROOT = "root"
# The value of `cca` for the files of the state folder itself.
NO_CCA = ""
Request = Literal["resume", "forget"]

_Kind = TypeVar("_Kind")


def seal(data: object) -> bytes:
    """Return the contents of a state file: the checksum line, then the data as JSON."""
    payload = json.dumps(data, sort_keys=True).encode("ascii")
    return _header(payload) + b"\n" + payload


def unseal(content: bytes) -> Any:
    """Return the data of a file that `seal` made. Raises DamagedFileError where the checksum or the JSON is wrong."""
    header, newline, payload = content.partition(b"\n")
    if not newline or header != _header(payload):
        raise DamagedFileError(f"expected the checksum of its {len(payload)} bytes, got {header[:120]!r}")
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"expected JSON, got {error}") from error


def _header(payload: bytes) -> bytes:
    return b"%b sha256:%b %d" % (_MAGIC, hashlib.sha256(payload).hexdigest().encode("ascii"), len(payload))


class Store:
    """The state folder. Only `acquire` creates it. Reading does not need the lock. All methods raise StateDirError."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # -- the lock ------------------------------------------------------------------

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

    # -- files ---------------------------------------------------------------------

    def require_private(self, cca: str) -> None:
        """Raise StateDirError unless the CCA's folder is missing, or a folder that no other user may write to."""
        with self._may_fail("read", cca, ""), contextlib.suppress(FileNotFoundError):
            try:
                require_own_folder(self.root / cca)
            except SharedFolderError as error:
                raise StateDirError(f"state folder: {error}") from error

    def save(self, cca: str, name: str, data: object) -> None:
        """Replace a file atomically and durably."""
        with self._may_fail("write", cca, name):
            (self.root / cca).mkdir(mode=0o755, exist_ok=True)
            write_atomically(self.root / cca / name, seal(data))

    def load(self, cca: str, name: str, parse: Callable[[Any], _Kind]) -> _Kind | None:
        """Return what `parse` makes of a file's data, or None if there is no file.

        Raises DamagedFileError, also where `parse` raises an error about its argument, and StateDirError.
        """
        path = self.root / cca / name
        try:
            with self._may_fail("read", cca, name):
                content = _read(path)
            if content is None:
                return None
            data = unseal(content)
        except DamagedFileError as error:
            raise DamagedFileError(f"{path} is damaged and is not used: {error}") from error
        try:
            return parse(data)
        except (EnsembleError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{path} holds no valid {name} and is not used: {error}") from error

    def load_table(self, cca: str, name: str) -> Table | None:
        """Return a stored table, or None if there is no file.

        Raises DamagedFileError where the file holds no valid table of this CCA, StateDirError where it is unreadable.
        """
        table = self.load(cca, name, Table.from_json)
        if table is not None and table.ensemble.cca != cca:
            raise DamagedFileError(f"{self.root / cca / name} holds a table of {table.ensemble.cca} and is not used")
        return table

    def confirm(self, cca: str, name: str) -> None:
        """Set a file's time to now: its content still holds. This needs no disk space."""
        with self._may_fail("touch", cca, name):
            os.utime(self.root / cca / name)

    def age_s(self, cca: str, name: str, *, now_s: float) -> float | None:
        """Return the seconds since a file's time, by the clock that gave `now_s` (as time.time).

        Return None if there is no file, or if its time is in the future: the clock was then set back.
        """
        try:
            age_s = now_s - (self.root / cca / name).stat().st_mtime
        except OSError:
            return None
        return age_s if age_s >= 0 else None

    def promote(self, cca: str) -> None:
        """Rename `pending` to `last-known-good` atomically and durably."""
        folder = self.root / cca
        with self._may_fail("replace", cca, LAST_KNOWN_GOOD):
            (folder / PENDING).replace(folder / LAST_KNOWN_GOOD)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def discard(self, cca: str, name: str) -> None:
        """Delete a file if it exists."""
        with self._may_fail("delete", cca, name), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (self.root / cca / name).unlink()

    def set_aside(self, cca: str, name: str) -> None:
        """Rename a damaged file, or what is in its place, to NAME.damaged, which replaces an older file, no folder."""
        with self._may_fail("set aside", cca, name), contextlib.suppress(FileNotFoundError):
            (self.root / cca / name).replace(self.root / cca / f"{name}.damaged")

    def remove_leftovers(self, cca: str) -> list[str]:
        """Delete temporary files that a killed agent left, and return their names. The caller must hold the lock."""
        leftovers = sorted(path.name for path in (self.root / cca).glob(".*.tmp"))
        for name in leftovers:
            self.discard(cca, name)
        return leftovers

    def leave_request(self, request: Request, cca: str) -> None:
        """Leave a request of the operator for the agent, or for its next start.

        resume: the agent takes control of the table again. forget: it forgets the highest serials.
        """
        with self._may_fail("write", cca, request):
            (self.root / cca / request).touch()

    def is_requested(self, request: Request, cca: str) -> bool:
        """Whether an operator left this request and the agent has not handled it yet."""
        return (self.root / cca / request).exists()

    def ccas(self) -> list[str]:
        """Return the names of the CCAs that have a state file here, sorted."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{STATE}"))

    @contextlib.contextmanager
    def _may_fail(self, verb: str, cca: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StateDirError(
                f"state folder: cannot {verb} {self.root / cca / name}: {error.strerror or error}; "
                "is the disk full or the folder gone?"
            ) from error


class CcaFiles:
    """Saves the files of one CCA, or with NO_CCA those of the state folder itself. No method raises StateDirError.

    A failure never stops the agent: it is logged once, the report names it, and the agent tries again at every check.
    """

    def __init__(self, cca: str, *, store: Store, log: EventLog) -> None:
        self._cca = cca
        self._store = store
        self._log = log
        # Why a file could not be saved, or a request could not be deleted, by its name.
        self._unsaved: dict[str, str] = {}

    @property
    def why_unsaved(self) -> str | None:
        """The first failure, or None. That the report itself is not saved shows in the age of its file."""
        return next((text for name, text in self._unsaved.items() if name != STATE), None)

    def is_unsaved(self, name: str = "") -> bool:
        """Whether the last attempt to save this file failed, or, without a name, any attempt."""
        return name in self._unsaved if name else bool(self._unsaved)

    def ignore(self, name: str) -> None:
        """Forget that a file is not saved, because nothing needs it any more."""
        self._unsaved.pop(name, None)

    def save(self, name: str, data: object) -> bool:
        """Store a file, and return whether this succeeded."""
        return self._try(name, lambda: self._store.save(self._cca, name, data))

    def promote(self) -> bool:
        """Make `pending` the last known good table, and return whether this succeeded."""
        return self._try(LAST_KNOWN_GOOD, lambda: self._store.promote(self._cca))

    def confirm(self, name: str) -> None:
        """Renew the time of a file."""
        self._try(name, lambda: self._store.confirm(self._cca, name))

    def is_requested(self, request: Request) -> bool:
        """Whether an operator left this request. One that was carried out and could not be deleted does not count."""
        if self.is_unsaved(request):
            self.complete(request)
            return False
        return self._store.is_requested(request, self._cca)

    def complete(self, request: Request) -> None:
        """Delete a request, because it was carried out."""
        if self._store.is_requested(request, self._cca):
            self._try(request, lambda: self._store.discard(self._cca, request))
        else:
            self.ignore(request)

    def discard_pending(self) -> None:
        """Delete `pending`.

        A failure is only logged: the next start deletes the file, because the kernel does not hold its text.
        """
        self.ignore(PENDING)
        try:
            self._store.discard(self._cca, PENDING)
        except StateDirError as error:
            self._log.event("not_discarded", cca=self._cca or None, error=str(error))

    def tidy(self, damaged: Iterable[str]) -> None:
        """Delete temporary files of a killed agent, and rename damaged files. A failure is only logged."""
        try:
            for name in self._store.remove_leftovers(self._cca):
                self._log.event("leftover_removed", cca=self._cca or None, file=name)
            for name in damaged:
                self._store.set_aside(self._cca, name)
        except StateDirError as error:
            self._log.event("not_tidied", cca=self._cca or None, error=str(error))

    def _try(self, name: str, act: Callable[[], None]) -> bool:
        try:
            act()
        except StateDirError as error:
            if self._unsaved.get(name) != str(error):
                self._log.event("not_kept", cca=self._cca or None, error=str(error))
            self._unsaved[name] = str(error)
            return False
        self.ignore(name)
        return True


def kept_agent_id(store: Store) -> str | None:
    """Return the id in the state folder, or None. Raises SettingsError, StateDirError."""
    kept = store.load(NO_CCA, AGENT_ID, str)
    if kept is not None:
        require_agent_id(kept)
    return kept


def find_agent_id(store: Store, *, log: EventLog) -> str:
    """Return the id of the state folder under which the agent reports. It is chosen now if there is none.

    It is the host's name, for those who read it, and 16 random hexadecimal digits, because two servers may have the
    same name. It stays the same when the host is renamed. An id that cannot be saved is used until the agent ends.
    The caller must hold the store's lock.
    """
    try:
        kept = kept_agent_id(store)
        if kept is not None:
            return kept
    except (SettingsError, StateDirError) as error:
        log.event("damaged", file=AGENT_ID, error=str(error))
    host = re.sub(r"[^A-Za-z0-9._:-]", "-", os.uname().nodename)[:_MAX_HOST_CHARACTERS] or "unnamed"
    chosen = f"{host}-{os.urandom(_ID_BYTES).hex()}"
    CcaFiles(NO_CCA, store=store, log=log).save(AGENT_ID, chosen)
    log.event("agent_id", chosen=chosen)
    return chosen


def _try_lock(descriptor: int, *, attempts: int) -> bool:
    """Try to take the lock, and return whether it was taken.

    Several attempts are needed because `is_held`, called by `status`, takes the lock for a moment.
    """
    for attempt in range(attempts):
        time.sleep(_LOCK_PAUSE_S if attempt else 0)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def _read(path: Path) -> bytes | None:
    """Read a regular file, or return None if there is none.

    Raises DamagedFileError for any other kind, and for a file that others may write to.
    """
    try:
        # Without O_NONBLOCK the open of a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
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

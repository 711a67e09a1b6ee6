# SPDX-License-Identifier: MIT
"""Attacks by another user of the machine on the files that root's programs open: reading them, and locking them."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from emulation.mahimahi import in_bpf
from emulation.standin import StandInTree
from kmod.locks import locked
from serving.agent.errors import StateDirError
from serving.agent.store import Store
from serving.database import Database, migrate
from serving.database.private import keep_private
from serving.errors import DatabaseError
from tests.serving.process import Process

pytestmark = [pytest.mark.service, pytest.mark.skipif(os.geteuid() != 0, reason="root alone can act as another user")]

NOBODY = 65534
REPORT = {"cca": "gr", "channel": "champion", "state": "InSync"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can enter and read."""
    with tempfile.TemporaryDirectory(prefix="ccatune-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def locked_by_nobody(*paths: Path) -> Iterator[list[str]]:
    """While the body runs, the user nobody locks what it can open of these files. Yields the names of these."""
    (said, tell), (wait, end) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(end)
            os.write(tell, json.dumps(_open_and_lock(paths)).encode())
            os.read(wait, 1)
        finally:
            os._exit(0)
    os.close(wait)
    try:
        yield json.loads(os.read(said, 4096))
    finally:
        os.close(end)
        os.waitpid(child, 0)
        for descriptor in (said, tell):
            os.close(descriptor)


def _open_and_lock(paths: tuple[Path, ...]) -> list[str]:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    opened = []
    for path in paths:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            opened.append(path.name)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A record lock to read, which is all that SQLite's writers cannot bear.
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return opened


def test_registry_writes_while_another_user_tries_to_read_and_lock_its_database(folder: Path) -> None:
    files = [folder / f"registry.db{ending}" for ending in ("", "-wal", "-shm")]
    process = Process(folder)
    reports = f"{process.url}/v1/agents/web-1/reports"
    assert httpx.post(reports, json=REPORT).status_code == 204
    with locked_by_nobody(*files) as opened:
        answer = httpx.post(reports, json=REPORT, timeout=60)
    assert [path.exists() for path in files] == [True] * 3
    assert (opened, answer.status_code) == ([], 204)
    assert process.end()[0] == 0


def test_rights_of_other_users_on_an_existing_database_are_taken_away_with_a_word(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = folder / "registry.db"
    first = Database(f"sqlite:///{file}")
    migrate(first)
    files = [file.with_name(file.name + ending) for ending in ("", "-wal", "-shm")]
    for path in files:
        path.chmod(0o664)
    second = Database(f"sqlite:///{file}")
    with first.write() as session:
        session.execute(text("DELETE FROM agents"))
        keep_private(file)
        # The lock of a writer has survived that its file was examined: no other process can write.
        code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
        other = subprocess.run([sys.executable, "-c", code, file], check=False, capture_output=True, text=True)
        assert "database is locked" in other.stderr
    second.ping()
    assert [stat.S_IMODE(path.stat().st_mode) for path in files] == [0o600] * 3
    assert [f"{path}: had the mode 0664" in caplog.text for path in files] == [True] * 3
    for database in (first, second):
        database.close()


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda folder: folder.chmod(0o1777), "expected to be writable by its owner alone"),
        (lambda folder: folder.chmod(0o775), "expected to be writable by its owner alone"),
        (lambda folder: os.chown(folder, NOBODY, NOBODY), "to be of root or user 0, and not writable by all users"),
        (lambda folder: (folder / "registry.db-wal").symlink_to("/etc/hostname"), "expected a regular file"),
    ],
    ids=["sticky", "group", "owner", "link"],
)
def test_database_that_others_could_replace_is_refused(
    folder: Path, prepare: Callable[[Path], object], said: str
) -> None:
    prepare(folder)
    database = Database(f"sqlite:///{folder}/registry.db")
    with pytest.raises(DatabaseError, match=said):
        database.ping()
    assert not (folder / "registry.db").exists() or said == "expected a regular file"


def _run_agent(folder: Path) -> None:
    with Store(folder / "state").acquire():
        pass


def _load_in_bpf(_: Path) -> None:
    with in_bpf._locked(["gr"], wait_s=0.0):
        pass


@pytest.mark.parametrize(
    ("run", "path"),
    [
        (_run_agent, "state/lock"),
        (lambda folder: StandInTree(folder / "tree"), "tree/.gr.lock"),
        (_load_in_bpf, in_bpf.LOCK.name),
    ],
    ids=["agent", "stand-in", "emulation"],
)
def test_no_other_user_can_hold_the_lock_of_a_program(
    folder: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Path], object], path: str
) -> None:
    assert not in_bpf.LOCK.parent.stat().st_mode & 0o022
    # Emulations of other tests hold the real one.
    monkeypatch.setattr(in_bpf, "LOCK", folder / in_bpf.LOCK.name)
    run(folder)
    with locked_by_nobody(folder / path) as opened:
        assert opened == []
        run(folder)


def test_a_lock_that_others_could_open_is_theirs_no_longer(folder: Path) -> None:
    file = folder / "lock"
    file.touch(0o666)
    with locked(file):
        pass
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="expected a regular file of user 0"), locked(file):
        pass


@pytest.mark.parametrize(
    "give",
    [
        lambda shared: os.lchown(shared / "state", NOBODY, NOBODY),
        lambda shared: os.chown(shared, NOBODY, NOBODY),
        lambda shared: shared.chmod(0o777),
    ],
    ids=["link of another user", "folder of another user", "folder that all users write to"],
)
def test_state_folder_that_another_user_can_redirect_is_refused(folder: Path, give: Callable[[Path], object]) -> None:
    (folder / "victim").mkdir()
    (folder / "victim" / "lock").write_text("precious")
    shared = folder / "shared"
    shared.mkdir()
    (shared / "state").symlink_to(folder / "victim")
    give(shared)
    with pytest.raises(StateDirError, match="to be of root or user 0, and not writable by all users"):
        _run_agent(shared)
    assert (folder / "victim" / "lock").read_text() == "precious"

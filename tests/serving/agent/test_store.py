# SPDX-License-Identifier: MIT
"""The state folder: whole files or none, one agent at a time, nobody else's hand."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.agent.errors import DamagedFileError, SettingsError, StateDirError
from serving.agent.settings import require_agent_id
from serving.agent.store import AGENT_ID, LAST_KNOWN_GOOD, PENDING, RECORD, Store, find_agent_id, seal, unseal
from tests.serving.agent.fakes import log_to, table

SEALED = seal(table(3).to_json())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "state")
    with made.acquire():
        pass
    return made


@given(position=st.integers(0, len(SEALED) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(position: int, bit: int) -> None:
    damaged = bytearray(SEALED)
    damaged[position] ^= 1 << bit
    with pytest.raises(DamagedFileError):
        unseal(bytes(damaged))


@given(size=st.integers(0, len(SEALED) - 1))
def test_any_half_written_file_is_noticed(size: int) -> None:
    with pytest.raises(DamagedFileError):
        unseal(SEALED[:size])


@given(tail=st.binary(min_size=1, max_size=20))
def test_bytes_after_the_end_are_noticed(tail: bytes) -> None:
    with pytest.raises(DamagedFileError):
        unseal(SEALED + tail)


def test_damaged_table_is_refused_and_set_aside(store: Store) -> None:
    store.save("gr", LAST_KNOWN_GOOD, table(3).to_json())
    path = store.root / "gr" / LAST_KNOWN_GOOD
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFileError, match="is damaged and is not used"):
        store.load_table("gr", LAST_KNOWN_GOOD)
    store.set_aside("gr", LAST_KNOWN_GOOD)
    assert [entry.name for entry in (store.root / "gr").iterdir()] == [LAST_KNOWN_GOOD + ".damaged"]


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        {"ensemble": 1, "deployment": {}},
        {"deployment": {"registry": "r"}},
        {**table(3).to_json(), "deployment": {**table(3).to_json()["deployment"], "urgent": 1}},
    ],
    ids=["empty", "list", "numbers", "no serial", "a mark that is no boolean"],
)
def test_sealed_file_without_a_table_is_refused(store: Store, data: object) -> None:
    store.save("gr", LAST_KNOWN_GOOD, data)
    with pytest.raises(DamagedFileError, match="holds no valid last-known-good"):
        store.load_table("gr", LAST_KNOWN_GOOD)


def test_table_of_another_cca_is_refused(store: Store) -> None:
    store.save("reno", LAST_KNOWN_GOOD, table(3).to_json())
    with pytest.raises(DamagedFileError, match="holds a table of gr"):
        store.load_table("reno", LAST_KNOWN_GOOD)


def test_promotion_replaces_the_last_known_good_durably(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save("gr", LAST_KNOWN_GOOD, table(3).to_json())
    store.save("gr", PENDING, table(4, urgent=True).to_json())
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    store.promote("gr")
    # Otherwise the loss of the power supply could undo the rename.
    assert synced == [str(store.root / "gr")]
    assert store.load_table("gr", LAST_KNOWN_GOOD) == table(4, urgent=True)
    assert store.load_table("gr", PENDING) is None


def test_failed_write_leaves_the_old_file_and_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save("gr", RECORD, {"a": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateDirError, match="No space left on device; is the disk full"):
        store.save("gr", RECORD, {"a": 2})
    monkeypatch.undo()
    assert store.load("gr", RECORD, dict) == {"a": 1}
    assert [entry.name for entry in (store.root / "gr").iterdir()] == [RECORD]


def test_second_agent_on_one_folder_is_refused_by_the_firsts_pid(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.agent.store._LOCK_ATTEMPTS", 2)
    with store.acquire():
        assert store.is_held()
        with pytest.raises(StateDirError, match=f"process {os.getpid()} holds it"), store.acquire():
            pytest.fail("two agents hold one folder")
    assert not store.is_held()


def test_lock_goes_with_a_killed_process(store: Store) -> None:
    code = (
        "import os, pathlib, signal, sys\nfrom serving.agent.store import Store\n"
        "with Store(pathlib.Path(sys.argv[1])).acquire():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, store.root], check=False, timeout=60)
    assert done.returncode == -9
    with store.acquire():
        assert store.is_held()


def test_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateDirError, match="expected a folder to write to"), Store(tmp_path / "file").acquire():
        pytest.fail("a file was taken for a folder")


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.symlink_to("/etc/hostname"),
        lambda path: (path.write_bytes(SEALED), path.chmod(0o666)),
    ],
    ids=["folder", "FIFO", "symbolic link", "writable by others"],
)
def test_last_known_good_that_is_no_file_of_the_agents_is_damaged(store: Store, make: Callable[[Path], object]) -> None:
    store.save("gr", RECORD, {})
    make(store.root / "gr" / LAST_KNOWN_GOOD)
    with pytest.raises(DamagedFileError, match="is not used: expected a "):
        store.load_table("gr", LAST_KNOWN_GOOD)
    store.set_aside("gr", LAST_KNOWN_GOOD)
    assert store.load_table("gr", LAST_KNOWN_GOOD) is None


# -- the id of the agent ------------------------------------------------------------


def test_two_agents_of_one_host_have_two_ids_and_each_keeps_its_own(tmp_path: Path) -> None:
    stores = [Store(tmp_path / name) for name in ("one", "two")]
    found = []
    for store in stores:
        with store.acquire():
            found.append(find_agent_id(store, log=log_to()))
            assert find_agent_id(store, log=log_to()) == found[-1]
    assert len(set(found)) == 2
    for one in found:
        require_agent_id(one)


@pytest.mark.parametrize("content", [b"half", b"ccatune-agent-file 1"])
def test_damaged_id_is_replaced(tmp_path: Path, content: bytes) -> None:
    store, log = Store(tmp_path / "state"), io.StringIO()
    with store.acquire():
        (store.root / AGENT_ID).write_bytes(content)
        chosen = find_agent_id(store, log=log_to(log))
        assert find_agent_id(store, log=log_to()) == chosen
    assert "event=damaged" in log.getvalue()


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "a\n", "ä", "a" * 129])
def test_id_that_the_registry_would_not_accept_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="agent_id: expected 1 to 128"):
        require_agent_id(name)

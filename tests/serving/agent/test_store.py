# SPDX-License-Identifier: MIT
"""The state folder: whole files or none, one agent at a time, nobody else's hand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.agent import DamagedFileError, StateDirError, Store
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, RECORD, seal, unseal
from tests.serving.agent.fakes import table

SEALED = seal(table(3).to_json())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "state")
    with made.acquire():
        pass
    return made


def test_sealed_data_opens_as_it_was() -> None:
    assert unseal(SEALED) == table(3).to_json()


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


def test_table_loads_as_it_was_saved(store: Store) -> None:
    store.save("gr", LAST_KNOWN_GOOD, table(3).to_json())
    assert store.load_table("gr", LAST_KNOWN_GOOD) == table(3)


def test_table_that_was_stored_before_the_mark_existed_loads_with_the_text_that_it_had(store: Store) -> None:
    data = table(3).to_json()
    del data["deployment"]["urgent"]
    store.save("gr", LAST_KNOWN_GOOD, data)
    loaded = store.load_table("gr", LAST_KNOWN_GOOD)
    assert loaded is not None
    assert loaded == table(3)
    assert "\nserial 3\n" in loaded.text


def test_urgent_table_loads_with_its_mark(store: Store) -> None:
    store.save("gr", LAST_KNOWN_GOOD, table(3, urgent=True).to_json())
    loaded = store.load_table("gr", LAST_KNOWN_GOOD)
    assert loaded is not None
    assert "\nserial 3 urgent\n" in loaded.text


def test_file_that_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert Store(tmp_path / "none").load_table("gr", LAST_KNOWN_GOOD) is None
    assert Store(tmp_path / "none").ccas() == []


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
    with pytest.raises(DamagedFileError, match="holds no valid table"):
        store.load_table("gr", LAST_KNOWN_GOOD)


def test_table_of_another_cca_is_refused(store: Store) -> None:
    store.save("reno", LAST_KNOWN_GOOD, table(3).to_json())
    with pytest.raises(DamagedFileError, match="holds a table of gr"):
        store.load_table("reno", LAST_KNOWN_GOOD)


def test_promotion_replaces_the_last_known_good(store: Store) -> None:
    store.save("gr", LAST_KNOWN_GOOD, table(3).to_json())
    store.save("gr", PENDING, table(4).to_json())
    store.promote("gr")
    assert store.load_table("gr", LAST_KNOWN_GOOD) == table(4)
    assert store.load_table("gr", PENDING) is None


def test_leftovers_of_a_kill_are_removed_and_nothing_else(store: Store) -> None:
    store.save("gr", LAST_KNOWN_GOOD, table(3).to_json())
    (store.root / "gr" / ".last-known-good.abc.tmp").write_bytes(SEALED[:50])
    assert store.remove_leftovers("gr") == [".last-known-good.abc.tmp"]
    assert [entry.name for entry in (store.root / "gr").iterdir()] == [LAST_KNOWN_GOOD]
    assert store.remove_leftovers("reno") == []


def test_failed_write_leaves_the_old_file_and_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.save("gr", RECORD, {"a": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateDirError, match="No space left on device; is the disk full"):
        store.save("gr", RECORD, {"a": 2})
    monkeypatch.undo()
    assert store.load("gr", RECORD) == {"a": 1}
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
        "import os, pathlib, signal, sys\nfrom serving.agent import Store\n"
        "with Store(pathlib.Path(sys.argv[1])).acquire():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, store.root], check=False, timeout=60)
    assert done.returncode == -9
    with store.acquire():
        assert store.is_held()


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_folder_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(StateDirError, match="writable by its owner alone"), Store(folder).acquire():
        pytest.fail("a folder that anyone may write was taken")


def test_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateDirError, match="expected a folder to write to"), Store(tmp_path / "file").acquire():
        pytest.fail("a file was taken for a folder")


def test_mark_to_resume_is_left_and_taken_away(store: Store) -> None:
    store.save("gr", RECORD, {})
    assert not store.is_asked_to("resume", "gr")
    store.ask_to("resume", "gr")
    assert store.is_asked_to("resume", "gr")
    store.withdraw("resume", "gr")
    store.withdraw("resume", "gr")
    assert not store.is_asked_to("resume", "gr")


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


def test_age_is_unknown_where_the_clock_was_set_back(store: Store) -> None:
    store.save("gr", RECORD, {})
    os.utime(store.root / "gr" / RECORD, (1000, 1000))
    assert store.age_s("gr", RECORD, now_s=1007.5) == 7.5
    assert store.age_s("gr", RECORD, now_s=999.0) is None
    assert store.age_s("gr", LAST_KNOWN_GOOD, now_s=1007.5) is None

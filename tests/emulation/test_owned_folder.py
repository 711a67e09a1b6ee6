# SPDX-License-Identifier: MIT
"""A folder goes with its owner; what a killed owner left goes with the next one's start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from emulation.vm._folder import owned_folder

PREFIX = "ccatune-test-"
OWNER = f"""\
import time
from emulation.vm._folder import owned_folder
with owned_folder({PREFIX!r}) as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("left")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def owner(repository: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process with a folder of its own."""
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=repository)
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def test_a_folder_is_there_while_it_is_used(place: Path) -> None:
    with owned_folder(PREFIX) as folder:
        assert folder.parent == place
        assert folder.name.startswith(PREFIX)
        (folder / "file").write_text("")
    assert list(place.iterdir()) == []


def test_what_a_killed_owner_left_is_removed_by_the_next(place: Path, repository: Path) -> None:
    with owner(repository) as (process, left):
        process.kill()
        process.wait()
        assert (left / "deep" / "file").exists()
    with owned_folder(PREFIX) as folder:
        assert list(place.iterdir()) == [folder]
    assert list(place.iterdir()) == []


def test_a_folder_whose_owner_lives_is_left_alone(repository: Path) -> None:
    with owner(repository) as (_, kept), owned_folder(PREFIX):
        assert (kept / "deep" / "file").exists()


def test_only_folders_of_that_name_are_removed(place: Path) -> None:
    (place / "other").mkdir()
    (place / f"{PREFIX}file").write_text("")
    (place / f"{PREFIX}link").symlink_to(place / "other")
    with owned_folder(PREFIX):
        pass
    assert {path.name for path in place.iterdir()} == {"other", f"{PREFIX}file", f"{PREFIX}link"}

# SPDX-License-Identifier: MIT
"""What is remembered of files that could not be saved."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from serving.agent import Store
from serving.agent.files import CcaFiles
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, SERIALS, STATE
from tests.serving.agent.fakes import log_to, table


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def files(tmp_path: Path, log: io.StringIO) -> CcaFiles:
    return CcaFiles("gr", store=Store(tmp_path), log=log_to(log))


def obstruct(folder: Path, name: str) -> Path:
    """Put a folder in the place of a file, so that the file cannot be written."""
    path = folder / "gr" / name
    path.mkdir(parents=True)
    return path


def test_a_failure_is_logged_once_and_remembered_until_the_file_is_saved(
    files: CcaFiles, tmp_path: Path, log: io.StringIO
) -> None:
    obstacle = obstruct(tmp_path, SERIALS)
    for _ in range(2):
        assert not files.save(SERIALS, {})
    assert log.getvalue().count("event=not_kept") == 1
    assert files.is_unsaved(SERIALS)
    assert "gr/serials" in str(files.why_unsaved)
    obstacle.rmdir()
    assert files.save(SERIALS, {})
    assert (files.has_unsaved, files.why_unsaved) == (False, None)


def test_a_report_that_is_not_saved_is_tried_again_and_not_named(files: CcaFiles, tmp_path: Path) -> None:
    obstruct(tmp_path, STATE)
    assert not files.save(STATE, {})
    assert (files.has_unsaved, files.why_unsaved) == (True, None)


def test_a_table_that_cannot_be_promoted_stays_pending(files: CcaFiles, tmp_path: Path) -> None:
    assert files.save(PENDING, table(1).to_json())
    obstacle = obstruct(tmp_path, f"{LAST_KNOWN_GOOD}/within").parent
    assert not files.promote()
    assert files.is_unsaved(LAST_KNOWN_GOOD)
    (obstacle / "within").rmdir()
    obstacle.rmdir()
    assert files.promote()
    assert not files.has_unsaved
    assert Store(tmp_path).load_table("gr", LAST_KNOWN_GOOD) == table(1)


def test_a_request_is_taken_once(files: CcaFiles, tmp_path: Path) -> None:
    assert files.save(SERIALS, {})
    Store(tmp_path).ask_to("resume", "gr")
    assert [files.take("resume"), files.take("resume"), files.take("forget")] == [True, False, False]

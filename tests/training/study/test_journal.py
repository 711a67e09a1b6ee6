# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from training.commands import begin_journal
from training.errors import TrainingError
from training.study import Journal


def test_a_part_comes_back_as_it_was_put(tmp_path: Path) -> None:
    part = {"found": [0.1, 1e-17, 3], "runs": 7}
    Journal(tmp_path, key="ab" * 32).put("level-03", part)
    assert Journal(tmp_path, key="ab" * 32).parts() == {"level-03": part}
    assert Journal(tmp_path, key="ab" * 31 + "cd").parts() == {}


def test_parts_of_another_study_are_neither_seen_nor_touched(tmp_path: Path) -> None:
    mine, other = Journal(tmp_path, key="ab" * 32), Journal(tmp_path, key="cd" * 32)
    mine.put("level-03", 1)
    other.put("level-03", 2)
    mine.discard()
    assert mine.parts() == {}
    assert other.parts() == {"level-03": 2}


def test_an_unfinished_write_is_no_part_and_discarding_leaves_nothing_behind(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "gr.json.parts", key="ab" * 32)
    journal.put("single", 1)
    (journal.folder / ".level-01.json.x.tmp").write_bytes(b'{"key"')
    assert set(journal.parts()) == {"single"}
    journal.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_is_named_and_not_used(tmp_path: Path) -> None:
    journal = Journal(tmp_path, key="ab" * 32)
    journal.put("single", 1)
    (journal.folder / "single.json").write_bytes(b"{")
    with pytest.raises(TrainingError, match=r"single.json: expected a part"):
        journal.parts()


def test_a_name_that_would_leave_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="expected a name"):
        Journal(tmp_path, key="ab" * 32).put("../level", 1)


def test_parts_of_another_version_are_named_left_and_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, other = Journal(tmp_path, key="ab" * 32), Journal(tmp_path, key="cd" * 32)
    assert begin_journal(mine, resume=True) == 0
    assert capsys.readouterr().err == ""
    other.put("level-03", 2)
    assert begin_journal(mine, resume=True) == 0
    said = capsys.readouterr().err
    assert "holds no parts of this study with these traces and this version of core and simulator" in said
    assert f"left as they are ({'cd' * 8})" in said
    assert other.parts() == {"level-03": 2}
    mine.put("level-03", 1)
    assert begin_journal(mine, resume=True) == 1
    assert capsys.readouterr().err == ""

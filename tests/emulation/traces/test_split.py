# SPDX-License-Identifier: MIT
"""What trains and what judges, by the name of the dataset."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emulation.traces import Part, Recording, TraceError, default_traces, read_split, require_part
from emulation.traces.split import TRACES_VARIABLE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for dataset in ("x-train", "x-validation", "mobile"):
        (tmp_path / dataset).mkdir()
        (tmp_path / dataset / "a.down").write_text("".join(f"{time}\n" for time in range(1, 1001)))
    return tmp_path


def recordings_of(*paths: Path, part: Part = "train", only: Callable[[str], bool] | None = None) -> list[Recording]:
    """The recordings of a part, of which there are some; no path: of the default traces."""
    return require_part(read_split(paths or None, part=part, only=only), part=part)


def test_named_sets_go_whole_and_others_are_cut_at_60_percent(folder: Path) -> None:
    train = {recording.dataset: recording for recording in recordings_of(folder)}
    judge = {recording.dataset: recording for recording in recordings_of(folder, part="validation")}
    assert set(train) == {"x-train", "mobile"}
    assert set(judge) == {"x-validation", "mobile"}
    assert train["x-train"].duration_s == judge["x-validation"].duration_s == 1.0
    assert (train["mobile"].duration_s, judge["mobile"].duration_s) == (0.6, 0.4)


def test_the_two_parts_of_a_recording_share_no_opportunity(folder: Path) -> None:
    train, judge = (recordings_of(folder / "mobile", part=part)[0].trace for part in ("train", "validation"))
    assert train.opportunities_ms.tolist() == list(range(1, 600))
    assert (judge.opportunities_ms + 600).tolist() == list(range(600, 1001))


def test_only_chooses_datasets(folder: Path) -> None:
    assert [recording.dataset for recording in recordings_of(folder, only=lambda name: name == "mobile")] == ["mobile"]


def test_a_path_without_the_part_is_an_error(folder: Path) -> None:
    with pytest.raises(TraceError, match="expected traces to train on, got none"):
        recordings_of(folder / "x-validation", part="train")


def test_the_variable_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, str(folder))
    assert default_traces() == folder
    assert len(recordings_of()) == 2


def test_recorded_training_hours_are_the_stated_ones(recorded_traces: Path) -> None:
    recordings = recordings_of(recorded_traces, only=lambda name: name != "pqsa-4g-train")
    assert {recording.dataset for recording in recordings} == {"pqsa-3g-train", "mahimahi-mobile"}
    assert sum(len(recording.files) for recording in recordings if recording.dataset == "pqsa-3g-train") == 474


def test_a_part_that_is_not_there_is_read_as_nothing_but_bad_files_of_it_are_not(folder: Path) -> None:
    assert read_split(folder / "x-train", part="validation").recordings == ()
    (folder / "x-validation" / "bad.down").write_text("2\n1\n")
    with pytest.raises(TraceError, match=r"bad\.down, line 2"):
        read_split(folder, part="validation")
    reading = read_split(folder, part="validation", skip_bad=True)
    assert [recording.dataset for recording in reading.recordings] == ["mobile", "x-validation"]
    assert reading.left_out[-1] == "1 bad file left out"


def test_the_parts_are_told_by_what_they_are_for(folder: Path) -> None:
    with pytest.raises(TraceError, match=r"^traces: expected traces to judge on, got none .*; those in \*-train train"):
        recordings_of(folder / "x-train", part="validation")

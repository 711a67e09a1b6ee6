# SPDX-License-Identifier: MIT
"""What trains and what judges, by the name of the dataset."""

from pathlib import Path

import pytest

from emulation.traces import TraceError, default_traces, load_split
from emulation.traces.split import TRACES_VARIABLE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for dataset in ("x-train", "x-validation", "mobile"):
        (tmp_path / dataset).mkdir()
        (tmp_path / dataset / "a.down").write_text("".join(f"{time}\n" for time in range(1, 1001)))
    return tmp_path


def test_named_sets_go_whole_and_others_are_cut_at_60_percent(folder: Path) -> None:
    train = {recording.dataset: recording for recording in load_split(folder)}
    judge = {recording.dataset: recording for recording in load_split(folder, part="validation")}
    assert set(train) == {"x-train", "mobile"}
    assert set(judge) == {"x-validation", "mobile"}
    assert train["x-train"].duration_s == judge["x-validation"].duration_s == 1.0
    assert (train["mobile"].duration_s, judge["mobile"].duration_s) == (0.6, 0.4)


def test_the_two_parts_of_a_recording_share_no_opportunity(folder: Path) -> None:
    train, judge = (load_split(folder / "mobile", part=part)[0].trace for part in ("train", "validation"))
    assert train.opportunities_ms.tolist() == list(range(1, 600))
    assert (judge.opportunities_ms + 600).tolist() == list(range(600, 1001))


def test_only_chooses_datasets(folder: Path) -> None:
    assert [recording.dataset for recording in load_split(folder, only=lambda name: name == "mobile")] == ["mobile"]


def test_a_path_without_the_part_is_an_error(folder: Path) -> None:
    with pytest.raises(TraceError, match="expected traces to train on, got none"):
        load_split(folder / "x-validation", part="train")


def test_the_variable_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, str(folder))
    assert default_traces() == folder
    assert len(load_split()) == 2


def test_recorded_training_hours_are_the_stated_ones(recorded_traces: Path) -> None:
    recordings = load_split(recorded_traces, only=lambda name: name != "pqsa-4g-train")
    assert {recording.dataset for recording in recordings} == {"pqsa-3g-train", "mahimahi-mobile"}
    assert sum(len(recording.files) for recording in recordings if recording.dataset == "pqsa-3g-train") == 474

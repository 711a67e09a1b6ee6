# SPDX-License-Identifier: MIT
"""pantheon_metadata.json: Pantheon can read what is written, and its own files of any age are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulation.errors import EmulationError
from emulation.pantheon.metadata import FILE_NAME, Metadata, RunNote, read_metadata, write_metadata
from tests.emulation.pantheon.folders import metadata

# As test.py of Pantheon writes it for a local run.
LOCAL: dict[str, Any] = {
    "cc_schemes": ["bbr", "cubic"],
    "downlink_trace": "12mbps.trace",
    "extra_mm_link_args": "--uplink-queue=droptail --uplink-queue-args=packets=20",
    "flows": 3,
    "git_summary": "branch: master @ 011100e\n",
    "interval": 2,
    "mode": "local",
    "prepend_mm_cmds": "mm-delay 20",
    "random_order": False,
    "run_times": 2,
    "runtime": 30,
    "start_run_id": 1,
    "uplink_trace": "12mbps.trace",
}


def put(document: object, folder: Path) -> Path:
    (folder / FILE_NAME).write_text(json.dumps(document, indent=4, sort_keys=True))
    return folder


def test_what_is_written_is_read_back_equal(tmp_path: Path) -> None:
    written = metadata(("cubic", "bbr", "gr"), seconds=30, flows=2, interval_s=5, runs=3, link="12 Mbit/s")
    write_metadata(written, tmp_path)
    read = read_metadata(tmp_path)
    assert read == written.model_copy(update={"uplink_trace": "12mbps.trace", "downlink_trace": "12mbps.trace"})
    assert read.note("bbr", 3) == RunNote(
        verdict="crashed", reason="the receiver exited with status 1", output="bbr_run3.out"
    )
    assert read.note("bbr", 1) is None


def test_the_file_has_pantheons_keys_and_one_of_ours(tmp_path: Path) -> None:
    write_metadata(metadata(("cubic",), seconds=30, flows=1, interval_s=0, runs=1), tmp_path)
    document = json.loads((tmp_path / FILE_NAME).read_text())
    # Without these Pantheon's analysis and report fail.
    needed = {"mode", "cc_schemes", "run_times", "flows", "runtime", "interval", "uplink_trace", "downlink_trace"}
    assert needed | {"git_summary"} <= set(document)
    assert document["runtime"] == 30
    assert isinstance(document["runtime"], int)
    assert document["uplink_trace"] == "12mbps.trace"
    assert None not in document.values()
    assert set(document) - set(Metadata.model_fields) == set()
    assert "append_mm_cmds" not in document


def test_a_file_of_pantheon_is_read_and_unknown_keys_are_kept(tmp_path: Path) -> None:
    read = read_metadata(put(LOCAL | {"test_config": {"flows": []}, "config_file": None}, tmp_path))
    assert read.cc_schemes == ("bbr", "cubic")
    assert list(read.run_ids) == [1, 2]
    assert read.ccatune is None
    assert read.mahimahi_command == (
        "mm-delay 20 mm-link 12mbps.trace 12mbps.trace --uplink-queue=droptail --uplink-queue-args=packets=20"
    )
    write_metadata(read, tmp_path)
    assert json.loads((tmp_path / FILE_NAME).read_text()) == LOCAL | {"test_config": {"flows": []}}


def test_a_file_of_an_early_version_is_read_with_its_old_names(tmp_path: Path) -> None:
    old = {
        "cc_schemes": "default_tcp vegas",
        "run_times": 3,
        "flows": "1",
        "runtime": "30",
        "sender_side": "remote",
        "local_information": "AWS California",
        "remote_information": "Stanford",
        "remote_interface": "ppp0",
    }
    read = read_metadata(put(old, tmp_path))
    assert (read.mode, read.cc_schemes, read.flows, read.runtime) == ("remote", ("default_tcp", "vegas"), 1, 30)
    assert (read.local_desc, read.remote_desc, read.remote_if) == ("AWS California", "Stanford", "ppp0")


def test_later_calls_with_the_same_folder_keep_the_earlier_runs(tmp_path: Path) -> None:
    assert list(read_metadata(put(LOCAL | {"start_run_id": 3}, tmp_path)).run_ids) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("flows", -1, r"line 8: flows: expected greater than or equal to 0, got -1"),
        ("run_times", "many", r"line 14: run_times: expected a valid integer.*got 'many'"),
        ("runtime", 0, r"line 15: runtime: expected greater than 0, got 0"),
        ("mode", "both", r"line 11: mode: expected 'local' or 'remote', got 'both'"),
        ("cc_schemes", ["cubic", "../bbr"], r"line 2: cc_schemes.1: .*got '\.\./bbr'"),
        ("cc_schemes", [], r"line 2: cc_schemes: "),
    ],
)
def test_a_damaged_entry_is_refused_with_file_line_and_reason(
    tmp_path: Path, name: str, value: object, message: str
) -> None:
    with pytest.raises(EmulationError, match=rf"{FILE_NAME}, {message}"):
        read_metadata(put(LOCAL | {name: value}, tmp_path))


def test_a_file_without_an_entry_or_that_is_no_json_is_refused(tmp_path: Path) -> None:
    lacking = {name: value for name, value in LOCAL.items() if name != "runtime"}
    with pytest.raises(EmulationError, match=rf"{FILE_NAME}: runtime: expected it, got nothing"):
        read_metadata(put(lacking, tmp_path))
    (tmp_path / FILE_NAME).write_text('{\n    "flows": 1,\n    "mode": local\n}')
    with pytest.raises(EmulationError, match=rf"{FILE_NAME}, line 3: expected JSON, got other text"):
        read_metadata(tmp_path)
    with pytest.raises(EmulationError, match=rf"{FILE_NAME}, line 1: expected a mapping, got list"):
        read_metadata(put([], tmp_path))
    (tmp_path / FILE_NAME).write_bytes(b"\xff\xfe")
    with pytest.raises(EmulationError, match=rf"{FILE_NAME}: expected JSON in UTF-8, got the byte 0xff"):
        read_metadata(tmp_path)
    with pytest.raises(EmulationError, match=r"cannot be read .*expected a Pantheon data folder"):
        read_metadata(tmp_path / "none")


def test_a_local_run_without_a_trace_is_not_written(tmp_path: Path) -> None:
    lacking = Metadata(cc_schemes=("cubic",), run_times=1, flows=1, runtime=30, uplink_trace="a.trace")
    with pytest.raises(EmulationError, match="expected both traces of a local run, got no downlink_trace"):
        write_metadata(lacking, tmp_path)

# SPDX-License-Identifier: MIT
"""The link of a test: from a file, from Pantheon's options, from a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulation.errors import EmulationError
from emulation.pantheon.links import link_of_file, link_of_folder, link_of_options, shells_of
from emulation.pantheon.metadata import Metadata, write_metadata

EMULATORS = Path(__file__).resolve().parents[3] / "configs" / "emulators"
FILE = """\
name: path
source: Made for this test.
uplink: {rate_mbps: 12}
downlink: {poisson_mbps: 3, seed: 7}
delay_ms: 27
queue_pkts: 90
loss: 0.01
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "path.yaml"
    path.write_text(text)
    return path


def test_a_file_becomes_the_options_of_a_calibrated_emulator(tmp_path: Path) -> None:
    link = link_of_file(write(tmp_path, FILE))
    assert (link.prepend, link.append) == ("mm-delay 27", "mm-loss uplink 0.010000000")
    assert link.extra == "--uplink-queue=droptail --uplink-queue-args=packets=90"
    assert isinstance(link.uplink, np.ndarray)
    assert link.uplink[:3].tolist() == [1, 2, 3]
    assert [words[0] for words in shells_of(link)] == ["mm-delay", "mm-link", "mm-loss"]
    assert shells_of(link)[1][:3] == ["mm-link", "{run}/uplink", "{run}/downlink"]


def test_a_run_begins_where_it_is_told_to_in_traces_that_repeat(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("300\n900\n1000\n")
    link = link_of_options(uplink=tmp_path / "a", downlink=tmp_path / "a", name="it", prepend="", append="", extra="")
    found = replace(link, start_s=2.5).opportunities_ms(1000)
    assert found["uplink"] == found["downlink"] == [400, 500, 800]


def test_a_poisson_link_has_its_rate_and_the_variance_of_a_poisson_process(tmp_path: Path) -> None:
    link = link_of_file(write(tmp_path, FILE))
    assert isinstance(link.downlink, np.ndarray)
    counts = np.bincount(link.downlink // 100)
    # 3 Mbit/s are 25 opportunities of 1500 bytes in 100 ms; mean and variance of their number are equal.
    assert counts.mean() == pytest.approx(25, rel=0.02)
    assert counts.var() == pytest.approx(25, rel=0.1)
    assert np.array_equal(link.downlink, link_of_file(write(tmp_path, FILE)).downlink)


def test_a_folder_of_pantheon_gives_its_link(tmp_path: Path) -> None:
    for name in ("12mbps.trace", "up.trace"):
        (tmp_path / name).write_text("1\n2\n")
    told = Metadata(cc_schemes=("cubic",), run_times=1, flows=1, runtime=30, uplink_trace="up.trace",
                    downlink_trace="12mbps.trace", prepend_mm_cmds="mm-delay 28 mm-loss uplink 0.01",
                    extra_mm_link_args="--uplink-queue=droptail --uplink-queue-args=packets=14")  # fmt: skip
    write_metadata(told, tmp_path)
    link = link_of_folder(tmp_path)
    assert [words[:2] for words in shells_of(link)] == [
        ["mm-delay", "28"], ["mm-loss", "uplink"], ["mm-link", "{run}/uplink"]
    ]  # fmt: skip
    (tmp_path / "up.trace").unlink()
    with pytest.raises(EmulationError, match=r"expected the trace up.trace in it, found none; copy it there"):
        link_of_folder(tmp_path)


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        (
            "rate_mbps: 12",
            "rate_mbps: 12, poisson_mbps: 3",
            "uplink: expected one of trace, made, rate_mbps, poisson_mbps, got rate_mbps and poisson_mbps",
        ),
        ("rate_mbps: 12", "", "got none"),
        ("delay_ms: 27", "delay_ms: -1", "delay_ms"),
        ("loss: 0.01", "loss: 1", "loss"),
        ("name: path", "name: a/b", "name"),
        ("queue_pkts: 90", "queue: 90", "queue"),
    ],
)
def test_an_invalid_field_is_refused_by_its_name(tmp_path: Path, was: str, now: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        link_of_file(write(tmp_path, FILE.replace(was, now)))


@pytest.mark.parametrize("path", sorted(EMULATORS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_emulators_of_this_project_say_where_they_come_from(path: Path) -> None:
    link = link_of_file(path)
    assert link.name == path.stem
    assert link.source.startswith("Made")
    assert len(link.opportunities_ms(30_000)["uplink"]) > 500


def test_an_option_that_starts_another_program_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "a"
    trace.write_text("1\n")
    for options, message in (
        ({"prepend": "sh -c true"}, "--prepend-mm-cmds: expected mm-delay or mm-loss and their arguments, got sh"),
        ({"extra": "--uplink-log=/etc/passwd"}, "--extra-mm-link-args: expected options of mm-link's queues"),
    ):
        fields = {"prepend": "", "append": "", "extra": "", **options}
        with pytest.raises(EmulationError, match=message):
            shells_of(link_of_options(uplink=trace, downlink=trace, name="it", **fields))

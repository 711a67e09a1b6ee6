# SPDX-License-Identifier: MIT
"""Logs of a data folder: what is written is read back equal, and damaged lines are refused by file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulation.errors import EmulationError
from emulation.mahimahi.logs import Departures, Drops, Events, FlowEvents, TunnelLog, read_link_log, read_log, write_log
from tests.emulation.pantheon.folders import MODELS, tunnel_log

# As Pantheon's merge_tunnel_logs.py writes it.
PANTHEON = """# init timestamp: 1488391034172.412
0.000 # 1500
1.250 + 1500 1
1.250 + 68 2
13.000 # 1500
44.013 - 1500 42.763 1
50.100 - 68 48.850 2
"""
# As Mahimahi's mm-link writes it.
MM_LINK = """# mahimahi mm-link (uplink) [12mbps.trace] > up.log
# command line: mm-link 12mbps.trace 12mbps.trace
# queue: droptail [packets=2]
# init timestamp: 1488391034172
# base timestamp: 0
0 + 1504
1 # 1504
1 - 1504 1
2 # 1504
3 + 60
3 d 2 3008
"""


def columns(*rows: tuple[float, ...]) -> list[np.ndarray]:
    """Columns of floats for times and delays, of whole numbers where all values are whole."""
    return [np.asarray(column) for column in zip(*rows, strict=True)]


def read(text: str, folder: Path) -> TunnelLog:
    path = folder / "cubic_datalink_run1.log"
    path.write_text(text)
    return read_log(path)


def test_a_log_as_pantheon_documents_it_is_read(tmp_path: Path) -> None:
    log = read(PANTHEON, tmp_path)
    assert log.init_ms == 1488391034172.412
    assert log.capacity == Events(np.array([0.0, 13.0]), np.array([1500, 1500]))
    assert log.entered == FlowEvents(*columns((1.25, 1500, 1), (1.25, 68, 2)))
    assert log.left == Departures(*columns((44.013, 1500, 42.763, 1), (50.1, 68, 48.85, 2)))
    assert log.flows == (1, 2)


def test_writing_what_was_read_gives_the_same_bytes(tmp_path: Path) -> None:
    write_log(read(PANTHEON, tmp_path), tmp_path / "again.log")
    assert (tmp_path / "again.log").read_text() == PANTHEON


def test_lines_without_a_flow_belong_to_flow_0_and_are_written_without_one(tmp_path: Path) -> None:
    text = "# init timestamp: 5.000\n1.000 + 1500\n3.000 - 1500 2.000\n"
    log = read(text, tmp_path)
    assert log.flows == (0,)
    write_log(log, tmp_path / "again.log")
    assert (tmp_path / "again.log").read_text() == text


def test_a_run_with_two_flows_is_read_back_equal(tmp_path: Path) -> None:
    log = tunnel_log(MODELS["cubic"], seconds=3, flows=2, interval_s=1)
    write_log(log, tmp_path / "a.log")
    assert read_log(tmp_path / "a.log") == log


def test_a_log_without_any_event_is_read_back_equal(tmp_path: Path) -> None:
    whole = np.zeros(0, dtype=np.int64)
    empty = np.zeros(0)
    log = TunnelLog(7.0, Events(empty, whole), FlowEvents(empty, whole, whole), Departures(empty, whole, empty, whole))
    write_log(log, tmp_path / "a.log")
    assert read_log(tmp_path / "a.log") == log


TIMES_MS = st.floats(0, 1e8, allow_nan=False)
SIZES = st.integers(0, 65535)
FLOWS = st.integers(0, 12)


@given(
    st.floats(0, 2e12),
    st.lists(st.tuples(TIMES_MS, SIZES), max_size=20),
    st.lists(st.tuples(TIMES_MS, SIZES, FLOWS), max_size=20),
    st.lists(st.tuples(TIMES_MS, SIZES, st.floats(-1e4, 1e6), FLOWS), max_size=20),
)
def test_any_log_is_read_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, init_ms: float, opened: list, came: list, left: list
) -> None:
    def typed(rows: list, *kinds: type) -> list[np.ndarray]:
        return [np.array([row[at] for row in rows], dtype=kind) for at, kind in enumerate(kinds)]

    log = TunnelLog(
        init_ms,
        Events(*typed(opened, float, np.int64)),
        FlowEvents(*typed(came, float, np.int64, np.int64)),
        Departures(*typed(left, float, np.int64, float, np.int64)),
    )
    path = tmp_path_factory.mktemp("log") / "a.log"
    write_log(log, path)
    assert read_log(path) == log.as_written()


def test_events_out_of_order_are_sorted_by_their_time(tmp_path: Path) -> None:
    text = "# init timestamp: 5.000\n9.000 - 100 2.000 1\n4.000 + 300 1\n3.000 + 200 1\n"
    assert read(text, tmp_path).entered == FlowEvents(*columns((3.0, 200, 1), (4.0, 300, 1)))


@pytest.mark.parametrize(
    "damage",
    [
        ("# init timestamp: 1488391034172.412", "0.000 # 1500", 1, "# init timestamp: MILLISECONDS", "'0.000 # 1500'"),
        ("# init timestamp: 1488391034172.412", "# init timestamp: soon", 1, "# init timestamp: MILLISECONDS", "soon"),
        ("1.250 + 68 2", "1.250 + 68 2 7", 4, "TIME + BYTES FLOW", "'1.250 + 68 2 7'"),
        ("1.250 + 68 2", "1.250 + 68.5 2", 4, "TIME + BYTES FLOW", "68.5"),
        ("1.250 + 68 2", "1.250 + -68 2", 4, "TIME + BYTES FLOW", "-68"),
        ("1.250 + 68 2", "nan + 68 2", 4, "TIME + BYTES FLOW", "nan"),
        ("1.250 + 68 2", "-1.250 + 68 2", 4, "TIME + BYTES FLOW", "-1.250"),
        ("13.000 # 1500", "13.000 #", 5, "TIME # BYTES", "'13.000 #'"),
        ("13.000 # 1500", "", 5, "TIME # BYTES or TIME + BYTES FLOW or TIME - BYTES DELAY FLOW", "''"),
        ("13.000 # 1500", "13.000 d 1 1500", 5, "TIME # BYTES or TIME + BYTES", "d 1 1500"),
        ("44.013 - 1500 42.763 1", "44.013 - 1500", 6, "TIME - BYTES DELAY FLOW", "'44.013 - 1500'"),
        ("44.013 - 1500 42.763 1", "44.013 - 1500 1e3 1", 6, "TIME - BYTES DELAY FLOW", "1e3"),
        ("50.100 - 68 48.850 2\n", "50.100 - 68 48.8", 7, "an end of line after the last event", "'50.100 - 68 48.8'"),
        ("50.100 - 68 48.850 2\n", "50.1", 7, "TIME # BYTES or", "'50.1'"),
        ("50.100 - 68 48.850 2", "\x00\x00\x00\x00", 7, "TIME # BYTES or", r"\x00"),
        ("50.100 - 68 48.850 2", "9" * 400 + " - 68 48.850 2", 7, "TIME - BYTES", "999'..."),
    ],
)
def test_a_damaged_line_is_refused_with_file_line_and_reason(
    tmp_path: Path, damage: tuple[str, str, int, str, str]
) -> None:
    old, new, line, expected, got = damage
    assert PANTHEON.count(old) == 1
    with pytest.raises(EmulationError) as caught:
        read(PANTHEON.replace(old, new), tmp_path)
    message = str(caught.value)
    assert f"cubic_datalink_run1.log, line {line}: expected {expected}" in message
    assert got in message
    assert len(message) < 400


def test_an_empty_and_an_absent_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmulationError, match=r"run1.log, line 1: expected # init timestamp"):
        read("", tmp_path)
    with pytest.raises(EmulationError, match=r"none.log: cannot be read \(No such file"):
        read_log(tmp_path / "none.log")


def test_a_time_before_the_start_and_unequal_columns_are_refused(tmp_path: Path) -> None:
    log = tunnel_log(MODELS["gr"], seconds=1)
    early = TunnelLog(0.0, Events(np.array([-0.5]), np.array([1500])), log.entered, log.left)
    with pytest.raises(EmulationError, match=r"expected finite times of at least 0 ms, got -0.5"):
        write_log(early, tmp_path / "a.log")
    assert not list(tmp_path.iterdir())
    with pytest.raises(EmulationError, match=r"Events: expected columns of equal length, got .*: 2, .*: 1"):
        Events(np.zeros(2), np.zeros(1, dtype=np.int64))


def test_a_log_of_mm_link_is_read_with_its_drops(tmp_path: Path) -> None:
    path = tmp_path / "cubic_mm_datalink_run1.log"
    path.write_text(MM_LINK)
    log = read_link_log(path)
    assert (log.init_ms, log.base_ms) == (1488391034172, 0)
    assert log.capacity == Events(*columns((1.0, 1504), (2.0, 1504)))
    assert log.entered == Events(*columns((0.0, 1504), (3.0, 60)))
    assert log.left == Departures(*columns((1.0, 1504, 1.0, 0)))
    assert log.dropped == Drops(*columns((3.0, 2, 3008)))
    assert log.as_tunnel().flows == (0,)


def test_a_damaged_log_of_mm_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cubic_mm_datalink_run1.log"
    path.write_text(MM_LINK.replace("3 d 2 3008", "3 d 2"))
    with pytest.raises(EmulationError, match=r"run1.log, line 11: expected TIME d PACKETS BYTES, got '3 d 2'"):
        read_link_log(path)
    path.write_text("0 + 1504\n")
    with pytest.raises(EmulationError, match=r"run1.log, line 1: expected a comment of mm-link, got '0 \+ 1504'"):
        read_link_log(path)

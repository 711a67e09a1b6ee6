# SPDX-License-Identifier: MIT
"""Packets of two captures, matched: equal packets after a loss, and packets that only one capture has."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from emulation.pantheon.capture import CaptureError, tunnel_logs

BEGINS_MS = 1_000_000.0


def packet(content: bytes, *, number: int = 0, flow: int = 1) -> bytes:
    """An IP packet of UDP from the sender to the receiver. number: its IP identification."""
    total = 28 + len(content)
    head = struct.pack(">BBHHHBBH4B4B", 69, 0, total, number, 0, 64, 17, 0, 10, 9, flow, 2, 10, 10, flow, 2)
    return head + struct.pack(">HHHH", 5000, 6000, total - 20, 0) + content


def write_capture(path: Path, rows: list[tuple[float, bytes]]) -> None:
    data = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 144, 101)
    for at_ms, one in rows:
        ns = round((BEGINS_MS + at_ms) * 1e6)
        data += struct.pack("=IIII", ns // 10**9, ns % 10**9, len(one), len(one)) + one
    path.write_bytes(data)


def delays(folder: Path, entered: list[tuple[float, bytes]], left: list[tuple[float, bytes]]) -> list[float]:
    """The delays of the packets that left, in ms, of a run of 10 s."""
    write_capture(folder / "inner.pcap", entered)
    write_capture(folder / "outer.pcap", left)
    for name in ("uplink.log", "downlink.log"):
        (folder / name).write_text(f"# init timestamp: {BEGINS_MS:.0f}\n# base timestamp: 0\n")
    log = tunnel_logs(folder, begins_ms=BEGINS_MS, runtime_s=10)["datalink"]
    return [round(delay_ms, 3) for delay_ms in log.left.delay_ms.tolist()]


def test_an_equal_packet_has_its_own_delay_after_its_twin_was_lost(tmp_path: Path) -> None:
    twin, other = packet(b"same"), packet(b"other", number=7)
    entered = [(0, twin), (100, other), (7000, twin)]
    assert delays(tmp_path, entered, [(120, other), (7030, twin)]) == [20, 30]


def test_equal_packets_leave_in_the_order_in_which_they_entered(tmp_path: Path) -> None:
    twin = packet(b"same")
    assert delays(tmp_path, [(0, twin), (1, twin)], [(20, twin), (22, twin)]) == [20, 21]


def test_a_packet_of_one_capture_is_an_error_only_before_the_end_of_the_run(tmp_path: Path) -> None:
    known, stranger = packet(b"known"), packet(b"stranger")
    assert delays(tmp_path, [(0, known)], [(20, known), (10_500, stranger)]) == [20]
    with pytest.raises(CaptureError, match="never entered"):
        delays(tmp_path, [(0, known)], [(20, known), (30, stranger)])

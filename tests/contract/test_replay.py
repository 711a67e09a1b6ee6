# SPDX-License-Identifier: MIT
"""The replayer of kernel recordings, on recordings made in user space: what it takes, and what it finds."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.contract.replaying import RECORDED, RecordingError, compile_maker, make_recording, replay
from tests.once import made_once

HEADER = struct.Struct("=6IQ")
RECORD_BYTES = 128
SUM_AT = RECORD_BYTES - 4
EVENTS = 3000
# Any: dice that show a probe of R-TCP's, too.
SEEDS = {"rtcp_bbr3": 9}
FNV_START, FNV_PRIME = 2166136261, 16777619
START, ACK, EVENT, TOLD, GROW, RECALL, CLIENT, LOSS = 4, 5, 6, 7, 8, 11, 12, 14
SET_OUT_AT = 32 + 4 * 20
CWND_OUT_AT = 32 + 4 * 14
LOST_AT = 32 + 4 * 2
TX_INFLIGHT_AT = 32 + 4 * 9


@pytest.fixture(scope="session")
def workshop(replayer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the replayer and a recording of each algorithm."""

    def make(folder: Path) -> None:
        maker = compile_maker(folder)
        for cca in RECORDED:
            path = folder / f"{cca}.recording"
            make_recording(maker, path, cca=cca, events=EVENTS, seed=SEEDS.get(cca, 7), folder=folder)
        (folder / "replay").symlink_to(replayer)

    return made_once(tmp_path_factory, "recordings", make)


def replay_bytes(workshop: Path, data: bytes, tmp_path: Path) -> dict[str, int]:
    """Replay a recording that a test has changed."""
    path = tmp_path / "changed.recording"
    path.write_bytes(data)
    return replay(workshop / "replay", path, folder=tmp_path)


def places(data: bytes, kind: int) -> list[int]:
    """Where the records of a kind begin."""
    return [at for at in range(HEADER.size, len(data), RECORD_BYTES) if data[at] == kind]


def flip(data: bytes, start: int, at: int, *, bit: int = 1, keep_sum: bool = False) -> bytes:
    """Flip a bit of a byte of the record that begins at `start`; its sum is put right, or kept."""
    record = bytearray(data[start : start + RECORD_BYTES])
    record[at] ^= bit
    return data[:start] + (bytes(record) if keep_sum else with_right_sum(record)) + data[start + RECORD_BYTES :]


def with_right_sum(record: bytearray) -> bytes:
    """The record with the sum of its other words."""
    total = FNV_START
    for (word,) in struct.iter_unpack("=I", record[:SUM_AT]):
        total = (total ^ word) * FNV_PRIME % 2**32
    return bytes(record[:SUM_AT]) + struct.pack("=I", total)


def without_record(data: bytes, start: int) -> bytes:
    """The recording without the record that begins at `start`."""
    header = list(HEADER.unpack_from(data))
    header[5] -= 1
    return HEADER.pack(*header) + data[HEADER.size : start] + data[start + RECORD_BYTES :]


@pytest.mark.parametrize("cca", RECORDED)
def test_a_recording_replays_to_the_same_decisions(cca: str, workshop: Path, tmp_path: Path) -> None:
    report = replay_bytes(workshop, (workshop / f"{cca}.recording").read_bytes(), tmp_path)
    assert report["differing"] == 0
    # R-TCP's flows leave their clients.
    assert report["replayed"] == EVENTS + 3 + report["leave"] + report["recall"]
    assert report["flows"] == 3
    assert report["slow_start"] > 0
    assert all(report[name] > 0 for name in ("recovery_entered", "timeout", "idle_restart", "transfer_started"))


@pytest.mark.parametrize("cca", [cca for cca in RECORDED if cca != "reno"])
def test_a_recording_holds_turns_tables_and_parameters(cca: str, workshop: Path, tmp_path: Path) -> None:
    report = replay_bytes(workshop, (workshop / f"{cca}.recording").read_bytes(), tmp_path)
    assert report["tables"] > 3
    assert report["parameter_sets"] > 3
    assert report["looked_up"] > 3
    assert report["recall"] > 3
    assert report["undo_event"] > 0
    assert cca not in {"roccet", "rtcp_cubic"} or report["lowered"] > 3


def test_losses_that_an_ack_tells_behind_a_timeout_are_counted(workshop: Path, tmp_path: Path) -> None:
    # Its flows are told of losses and of timeouts at random; a kernel's have none right behind one.
    data = (workshop / "reno.recording").read_bytes()
    report = replay_bytes(workshop, data, tmp_path)
    assert report["told_lost"] == sum(struct.unpack_from("=I", data, at + LOST_AT)[0] for at in places(data, TOLD))
    assert 0 < report["told_twice"] < report["told_lost"]


@pytest.mark.parametrize("cca", ["rtcp_cubic", "rtcp_bbr", "rtcp_bbr3"])
def test_a_recording_holds_flows_of_a_client_its_limiter_and_what_parts_them(
    cca: str, workshop: Path, tmp_path: Path
) -> None:
    report = replay_bytes(workshop, (workshop / f"{cca}.recording").read_bytes(), tmp_path)
    assert report["shared"] > 100
    assert report["limited"] > 100
    assert report["probing"] > 3
    # Where two flows begin, and behind each event that no recorded flow had: a client is three records.
    assert report["client"] > 2 * 3
    assert report["moved"] == 2
    assert report["leave"] == 3


@pytest.mark.parametrize(
    ("cca", "kind"),
    [
        *[("gr", ACK), ("gr", EVENT), ("gr", START), ("reno", GROW), ("roccet", TOLD), ("roccet", GROW)],
        *[("rtcp_cubic", TOLD), ("rtcp_cubic", GROW), ("rtcp_cubic", START), ("rtcp_bbr", ACK), ("rtcp_bbr", EVENT)],
        *[("rtcp_bbr3", ACK), ("rtcp_bbr3", EVENT), ("rtcp_bbr3", LOSS), ("sira", ACK), ("sira", EVENT)],
        *[("cubic", TOLD), ("cubic", GROW), ("bbr", ACK), ("bbr", EVENT), ("bbr3", ACK), ("bbr3", LOSS)],
    ],
)
def test_a_flipped_bit_of_a_decision_is_found(cca: str, kind: int, workshop: Path, tmp_path: Path) -> None:
    data = (workshop / f"{cca}.recording").read_bytes()
    assert replay_bytes(workshop, flip(data, places(data, kind)[-1], CWND_OUT_AT), tmp_path)["differing"] == 1


@pytest.mark.parametrize("cca", [cca for cca in RECORDED if cca != "reno"])
def test_a_flipped_bit_of_a_recalls_parameter_set_is_found(cca: str, workshop: Path, tmp_path: Path) -> None:
    data = (workshop / f"{cca}.recording").read_bytes()
    assert replay_bytes(workshop, flip(data, places(data, RECALL)[-1], SET_OUT_AT), tmp_path)["differing"] == 1


@pytest.mark.parametrize("at", [0, 8, 16, 24, 32, 60, 100, 127])
def test_a_flipped_bit_anywhere_is_found_by_the_sum(at: int, workshop: Path, tmp_path: Path) -> None:
    data = (workshop / "gr.recording").read_bytes()
    with pytest.raises(RecordingError, match=r"sum|kind"):
        replay_bytes(workshop, flip(data, places(data, ACK)[-1], at, keep_sum=True), tmp_path)


def test_a_loss_changes_what_follows(workshop: Path, tmp_path: Path) -> None:
    # One among few in flight becomes one of a thousand: BBRv3 no longer takes it for too much loss.
    data = (workshop / "rtcp_bbr3.recording").read_bytes()
    assert replay_bytes(workshop, data, tmp_path)["loss"] > 100
    for start in places(data, LOSS):
        data = flip(data, start, TX_INFLIGHT_AT + 1, bit=4)
    assert replay_bytes(workshop, data, tmp_path)["differing"] > 0


def test_a_changed_input_changes_what_follows(workshop: Path, tmp_path: Path) -> None:
    # The first ACK's packets delivered, with the sum put right: the decisions after it are others.
    data = (workshop / "reno.recording").read_bytes()
    changed = flip(data, places(data, GROW)[0], 32 + 4, bit=4)
    assert replay_bytes(workshop, changed, tmp_path)["differing"] >= 1


@pytest.mark.parametrize("part", [0, 1, 2])
def test_what_a_client_is_told_to_be_counts(part: int, workshop: Path, tmp_path: Path) -> None:
    data = (workshop / "rtcp_cubic.recording").read_bytes()
    changed = flip(data, places(data, CLIENT)[part], 32 + 4 * 3)
    assert replay_bytes(workshop, changed, tmp_path)["differing"] > 0


def test_a_flow_whose_client_is_not_told_of_is_refused(workshop: Path, tmp_path: Path) -> None:
    data = (workshop / "rtcp_cubic.recording").read_bytes()
    with pytest.raises(RecordingError, match="client"):
        replay_bytes(workshop, without_record(data, places(data, CLIENT)[0]), tmp_path)


def test_a_recording_that_lost_events_is_refused(workshop: Path, tmp_path: Path) -> None:
    data = (workshop / "gr.recording").read_bytes()
    header = list(HEADER.unpack_from(data))
    header[6] = 1
    with pytest.raises(RecordingError, match="lost"):
        replay_bytes(workshop, HEADER.pack(*header) + data[HEADER.size :], tmp_path)


def test_a_recording_cut_short_is_refused(workshop: Path, tmp_path: Path) -> None:
    data = (workshop / "gr.recording").read_bytes()
    with pytest.raises(RecordingError, match="as many records"):
        replay_bytes(workshop, data[:-1], tmp_path)
    with pytest.raises(RecordingError, match="header"):
        replay_bytes(workshop, data[:20], tmp_path)


def test_a_record_that_was_never_finished_is_refused(workshop: Path, tmp_path: Path) -> None:
    data = (workshop / "gr.recording").read_bytes()
    with pytest.raises(RecordingError, match="never finished"):
        replay_bytes(workshop, data[:-RECORD_BYTES] + bytes(RECORD_BYTES), tmp_path)


def test_a_flow_without_its_start_is_refused(workshop: Path, tmp_path: Path) -> None:
    data = (workshop / "reno.recording").read_bytes()
    with pytest.raises(RecordingError, match="start"):
        replay_bytes(workshop, without_record(data, HEADER.size), tmp_path)

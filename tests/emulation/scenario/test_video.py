# SPDX-License-Identifier: MIT
"""Videos as scenarios say them, their figures by hand, and how they are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

import ccatune
from emulation import ChunkQoS, EmulationError, FlowSpec, Transfer, VideoQoS, VideoSpec
from emulation.scenario.files import load_scenario

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{abr: bolas}", r"video\.abr: expected 'fixed', 'bola', 'mpc', 'robust-mpc' or 'fast-mpc', got 'bolas'"),
        ("{bitrates_kbps: [300, 300]}", r"video: expected bitrates_kbps ascending, each once, got \[300, 300\]"),
        ("{bitrates_kbps: []}", r"video\.bitrates_kbps: .*at least 1 item"),
        ("{abr: mpc, bitrates_kbps: [1, 2, 3, 4, 5, 6, 7, 8, 9]}", "at most 8 bitrates_kbps with abr mpc, got 9"),
        ("{first_kbps: 500}", "expected first_kbps among 300, 750, 1200, 1850, 2850, 4300, got 500"),
        ("{buffer_s: 3}", "expected buffer_s of at least chunk_s, 4 s, got 3"),
        ("{chunks: 0}", r"video\.chunks: expected greater than or equal to 1, got 0"),
        (
            "{chunks: 2, bitrates_kbps: [1, 2], sizes_bytes: [[1, 2], [3]]}",
            "sizes_bytes of 2 chunks, each with 2 sizes",
        ),
        ("{chunks: 3, bitrates_kbps: [1, 2], sizes_bytes: [[1, 2], [3, 4]]}", "sizes_bytes of 3 chunks"),
        ("{chunks: 2, bitrates_kbps: [1, 2, 3], sizes_bytes: [[1, 2], [3, 4]]}", "each with 3 sizes"),
        ("{chunks: 2000}", "expected a video of less than 2\\^32 bytes"),
        ("{chunk: 4}", r"video\.chunk: expected one of abr, bitrates_kbps, chunk_s, .*, switch_penalty, got 4"),
        ("5", r"video: .*got 5"),
    ],
)
def test_a_video_that_cannot_be_played_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 20}\nflows: [{cca: cubic, video: " + text + "}]\n")
    with pytest.raises(EmulationError, match=r"flows\.0\..*" + message):
        load_scenario(file)


def test_sizes_are_those_of_the_bitrates_or_given() -> None:
    assert VideoSpec(bitrates_kbps=(300, 750), chunks=2, chunk_s=4).sizes == [150_000, 375_000] * 2
    given = VideoSpec(bitrates_kbps=(300, 750), chunks=2, sizes_bytes=((1, 5), (4, 3)), page_bytes=7)
    assert (given.sizes, given.most_bytes) == ([1, 5, 4, 3], 9)
    assert (VideoSpec().first, VideoSpec(first_kbps=1850).first) == (0, 3)


def test_a_flow_sends_one_thing_and_has_a_plan_unless_it_is_a_video() -> None:
    for other in ({"size_bytes": 9}, {"transfers": (Transfer(size_bytes=9),)}):
        with pytest.raises(ValidationError, match="expected one of size_bytes, transfers and video"):
            FlowSpec.model_validate({"video": VideoSpec(), **other})
    flow = FlowSpec(video=VideoSpec())
    assert flow.has_end
    assert (FlowSpec().has_end, FlowSpec(size_bytes=1).has_end) == (False, True)
    with pytest.raises(EmulationError, match="the simulator alone plays a video"):
        flow.plan  # noqa: B018 (it raises)


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        ("[{video_of: 0}]", r"flows\.0\.video_of of a flow before it .* that has a video and no stop_s, got 0"),
        ("[{}, {video_of: 0}]", r"flows\.1\.video_of of a flow before it"),
        ("[{video: {}, stop_s: 9}, {video_of: 0}]", r"flows\.1\.video_of of a flow before it"),
        ("[{video: {}}, {video_of: 0, start_s: 3}]", r"video_of without start_s, stop_s, size_bytes, transfers, video"),
        ("[{video: {}}, {video_of: 0, video: {}}]", r"video_of without start_s"),
        ("[{video: {}}, {video_of: 0, after: 0}]", r"either video_of or after, got both"),
        ("[{video: {}}, {video_of: 0}, {after: 1}]", r"flows\.1 with size_bytes, transfers or a video"),
    ],
)
def test_a_further_connection_of_a_video_has_nothing_of_its_own(tmp_path: Path, flows: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 20}\nflows: " + flows + "\n")
    with pytest.raises(EmulationError, match=message):
        load_scenario(file)
    with pytest.raises(EmulationError, match="the simulator alone plays a video"):
        FlowSpec(video_of=0).plan  # noqa: B018 (it raises)


def chunk(kbps: int, *, at_s: float, rebuffer_s: float = 0.0, came: bool = True) -> ChunkQoS:
    return ChunkQoS(kbps, kbps * 500, at_s, at_s + 1 if came else None, rebuffer_s, 4.0)


def test_qoe_is_pensieves_linear_form() -> None:
    """Bitrates 1, 3, 2 with 0.5 s without a picture: (6 - 4.3 x 0.5 - (2 + 1)) / 3."""
    chunks = (chunk(1000, at_s=2), chunk(3000, at_s=3, rebuffer_s=0.5), chunk(2000, at_s=6),
              chunk(2000, at_s=9, came=False))  # fmt: skip
    found = VideoQoS(chunks, 1.0, 4.3, 1.0)
    assert found.qoe == pytest.approx((6 - 2.15 - 3) / 3)
    assert (found.startup_s, found.rebuffer_s, found.interruptions, found.switches) == (2.0, 0.5, 1, 2)
    assert found.mean_kbps == 2000
    assert VideoQoS(chunks, 1.0, 1.0, 0.0).qoe == pytest.approx((6 - 0.5) / 3)
    none = VideoQoS((), 0.0, 4.3, 1.0)
    assert (none.qoe, none.startup_s, none.mean_kbps, none.rebuffer_s) == (None, None, None, 0)


def test_the_shipped_video_is_told_in_lines_and_as_json(capsys: Capture, repository: Path) -> None:
    file = str(repository / "configs" / "scenarios" / "video.yaml")
    assert ccatune.run(["simulate", file, "--json"]) == 0
    flows = json.loads(capsys.readouterr().out)["flows"]
    assert [len(flow["video"]["chunks"]) for flow in flows] == [12, 12]
    assert [len(flow["transfers"]) for flow in flows] == [13, 13]
    assert {chunk["bitrate_kbps"] for flow in flows for chunk in flow["video"]["chunks"]} <= {
        300, 750, 1200, 1850, 2850, 4300,
    }  # fmt: skip
    assert ccatune.run(["simulate", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    for number, (abr, flow) in enumerate(zip(("bola", "robust-mpc"), flows, strict=True), start=1):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"flow {number}: "))
        assert f"12 of 12 chunks by {abr}, start-up {flow['video']['startup_s']:.3f} s" in lines[at]
        assert lines[at + 1].split()[:2] == ["QoE", f"{flow['video']['qoe']:.3f}:"]


def test_a_further_connection_is_described_by_its_chunks(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("link: {rate_mbps: 20}\nflows: [{cca: cubic, video: {chunks: 5}}, {cca: cubic, video_of: 0}]\n"
                    "duration_s: 60\n")  # fmt: skip
    assert ccatune.run(["simulate", str(file)]) == 0
    assert "flow 2:         2 chunks of the video of flow 1\n" in capsys.readouterr().out


def test_a_video_that_did_not_begin_is_told_in_one_line(capsys: Capture, repository: Path) -> None:
    file = str(repository / "configs" / "scenarios" / "video.yaml")
    assert ccatune.run(["simulate", file, "--duration", "0.01"]) == 0
    assert "0 of 12 chunks by bola\n" in capsys.readouterr().out


def test_real_links_play_no_video(capsys: Capture, repository: Path) -> None:
    assert ccatune.run(["emulate", str(repository / "configs" / "scenarios" / "video.yaml")]) == 2
    assert "flows.0.video: the runner mahimahi cannot do that yet" in capsys.readouterr().err

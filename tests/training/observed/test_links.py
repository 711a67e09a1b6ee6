# SPDX-License-Identifier: MIT
"""Links rebuilt from simulated flows, whose true link is known exactly."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from links import steps_ms

import ccatune
from emulation import FlowSpec, LinkSpec, Scenario
from emulation.errors import TraceError
from emulation.scenario.delays import BaseDelay, DelayStep
from emulation.scenario.model import ReceiverSpec, Transfer
from emulation.scenario.path import AckPath, Jitter, Policer
from emulation.traces import Trace, read_recordings
from training.errors import TrainingError
from training.observed import from_flows
from training.observed.flow import Flow
from training.observed.from_flows import see, write_links
from training.observed.links import base_rtts_us, rebuild
from training.observed.simulated import observed_run

SAMPLED = 0.2


def observe(
    *, sample_s: float | None = None, duration_s: float = 15, flow: dict[str, Any] | None = None, **link: Any
) -> Flow:
    """A CUBIC flow over a link of 12 Mbit/s, with changes."""
    if "trace" not in link:
        link = {"rate_mbps": 12, **link}
    spec = LinkSpec.model_validate({"rtt_ms": 40, "buffer_pkts": 100, **link})
    scenario = Scenario(link=spec, flows=(FlowSpec.model_validate({"cca": "cubic", **(flow or {})}),),
                        duration_s=duration_s)  # fmt: skip
    return observed_run(scenario, sample_s=sample_s)


@dataclass(frozen=True)
class Bucket:
    rate_mbps: float
    burst_bytes: int
    rate_range_mbps: None = None


@pytest.mark.parametrize("sample_s", [None, SAMPLED])
@pytest.mark.parametrize("cca", ["cubic", "bbr"])
@pytest.mark.parametrize("rtt_ms", [20, 250])
def test_constant_link_is_rebuilt_exactly(sample_s: float | None, cca: str, rtt_ms: float) -> None:
    link = rebuild(observe(sample_s=sample_s, flow={"cca": cca}, rtt_ms=rtt_ms, buffer_pkts=300))
    rates, known = link.rates_mbps(np.arange(3.0, 15.0))
    assert rates[known > 0.99] == pytest.approx(12, rel=0.01)
    assert link.base_rtt_ms == pytest.approx(rtt_ms, abs=1)
    # BBR empties the queue in most of its round trips, so that a long one leaves no piece. In slow start with long
    # round trips the queue empties between two samples, which do not show it.
    for piece in link.pieces:
        assert piece.trace.mean_rate_mbps == pytest.approx(12, rel=0.05)
    assert link.pieces or (cca, rtt_ms) == ("bbr", 250)


@pytest.mark.parametrize("path", [{"acks": AckPath(interval_ms=40)}, {"behind": (Jitter(max_ms=30),)}])
def test_held_acks_and_jitter_leave_the_rate_as_it_is(path: dict[str, Any]) -> None:
    (piece,) = rebuild(observe(**path)).pieces
    assert piece.trace.mean_rate_mbps == pytest.approx(12, rel=0.01)
    counts = piece.trace.bin_counts(100)
    assert counts[10:].min() > 80  # of 100 packets: a bunch is spread over the time since the one before


@pytest.mark.parametrize(
    "flow", [{"transfers": (Transfer(size_bytes=50_000, gap_s=0.2, count=100),)},
             {"receiver": ReceiverSpec(window_bytes=40_000)}],
)  # fmt: skip
@pytest.mark.parametrize("sample_s", [None, SAMPLED])
def test_flow_that_its_application_or_receiver_limits_shows_no_capacity(
    flow: dict[str, Any], sample_s: float | None
) -> None:
    link = rebuild(observe(flow=flow, sample_s=sample_s))
    assert link.pieces == ()
    assert link.known_share < 0.1


@pytest.mark.parametrize("sample_s", [None, SAMPLED])
def test_outage_of_the_link_is_an_outage(sample_s: float | None) -> None:
    times_ms = np.arange(1, 15_001, dtype=np.uint32)
    trace = Trace("outage", times_ms[(times_ms < 8000) | (times_ms > 10_000)], 15_000)
    (piece,) = rebuild(observe(trace=trace, sample_s=sample_s)).pieces
    ((gap),) = piece.recording("observed").gaps
    assert gap.duration_ms == pytest.approx(2000, abs=250)
    assert piece.start_s * 1000 + gap.start_ms == pytest.approx(8040, abs=250)


def test_policer_is_no_trace(tmp_path: Path) -> None:
    flow = observe(rate_mbps=20, before=(Policer(rate_mbps=4, bucket_bytes=500_000),))
    limited = rebuild(flow, limit=Bucket(4.0, 500_000))
    assert limited.pieces == rebuild(flow).pieces == ()
    assert limited.limit == Bucket(4.0, 500_000)
    write_links([see(flow, limit=limited.limit)], tmp_path)
    with pytest.raises(TraceError, match=r"got only .*links\.json, whose flows yielded no trace"):
        read_recordings(tmp_path)


def test_time_at_the_rate_of_a_policer_is_not_known() -> None:
    flow = observe()
    assert rebuild(flow).known_share > 0.9
    assert rebuild(flow, limit=Bucket(11.5, 30_000)).known_share < 0.1


def test_base_rtt_follows_the_route() -> None:
    delays = BaseDelay(steps=(DelayStep(at_s=0, rtt_ms=80), DelayStep(at_s=60, rtt_ms=40)))
    flow = observe(delays=delays, rtt_ms=40, duration_s=120, flow={"cca": "bbr"})
    bases_us = base_rtts_us(flow)
    assert bases_us[0] == pytest.approx(80_000, abs=3000)
    assert bases_us[-1] == pytest.approx(40_000, abs=3000)


@pytest.mark.parametrize(("cca", "sample_s"), [("cubic", None), ("bbr", None), ("cubic", SAMPLED), ("bbr", SAMPLED)])
def test_varying_link_is_within_a_tenth_in_four_of_five_seconds(cca: str, sample_s: float | None) -> None:
    trace = Trace("steps", steps_ms(seconds=60, seed=3), 60_000)
    link = rebuild(observe(trace=trace, duration_s=60, sample_s=sample_s, flow={"cca": cca}))
    bounds_s = np.arange(0.0, 60.0)
    rates, known = link.rates_mbps(bounds_s + 0.04)
    true = trace.bin_counts(1000)[:59] * 0.012
    chosen = known > 0.9
    assert chosen.mean() > 0.6
    assert (np.abs(rates[chosen] / true[chosen] - 1) < 0.1).mean() >= 0.8


def test_single_row_shows_nothing() -> None:
    flow = observe()
    link = rebuild(replace(flow, steps=flow.steps[:1]))
    assert (link.pieces, link.known_share) == ((), 0.0)


@pytest.fixture(scope="module")
def flows() -> list[Flow]:
    """Sampled flows with pauses, so that each has several pieces."""
    pausing = {"transfers": (Transfer(size_bytes=20_000_000, gap_s=3.0, count=9),)}
    return [observe(duration_s=90, rtt_ms=rtt, flow=pausing, sample_s=SAMPLED) for rtt in (20, 30, 40, 50, 60)]


def test_files_are_read_as_recordings_of_their_own(flows: list[Flow], tmp_path: Path) -> None:
    document = write_links([see(flow) for flow in flows[:2]], tmp_path / "links")
    assert json.loads((tmp_path / "links" / "links.json").read_text()) == json.loads(json.dumps(document))
    pieces = [piece for row in document["links"] for piece in row["pieces"]]
    recordings = read_recordings(tmp_path / "links")
    assert [recording.name.rpartition("/")[2] for recording in recordings] == [piece["file"] for piece in pieces]
    for recording, piece in zip(recordings, pieces, strict=True):
        assert recording.duration_s == pytest.approx(piece["duration_s"], abs=0.1)
        assert recording.trace.mean_rate_mbps == pytest.approx(12, rel=0.02)
    with pytest.raises(TrainingError, match="expected a folder without traces"):
        write_links([], tmp_path / "links")


def test_filled_time_is_named_and_carries_what_the_flow_sent(flows: list[Flow], tmp_path: Path) -> None:
    document = write_links([see(flow) for flow in flows], tmp_path, fill=True)
    row = document["links"][0]
    (piece,) = row["pieces"]
    assert piece["file"].endswith("-filled.down")
    assert sum(end_s - start_s for start_s, end_s in piece["filled_s"]) == pytest.approx(
        (1 - piece["known_share"]) * piece["duration_s"], abs=1.5
    )
    assert piece["mean_rate_mbps"] == pytest.approx(12, rel=0.05)


def run(monkeypatch: pytest.MonkeyPatch, flows: list[Flow], *arguments: str) -> Any:
    """The command, with flows in place of a file."""
    monkeypatch.setattr(
        from_flows, "_read", lambda _paths, _terminal: ([(flow, None) for flow in flows], ["A remark."])
    )
    return CliRunner().invoke(from_flows.from_flows, ["capture.pcap", *arguments])


def test_command_writes_links_that_check_accepts_and_paths_that_studies_read(
    flows: list[Flow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, paths = tmp_path / "mine", tmp_path / "mine.yaml"
    result = run(monkeypatch, flows, "-o", str(out), "--paths", str(paths))
    assert result.exit_code == 0, result.output
    assert "backlogged for" in result.stdout
    assert "A remark." in result.stdout
    assert ccatune.run(["traces", "check", str(out)]) == 0
    assert "0 bad files" in capsys.readouterr().out
    found = yaml.safe_load(paths.read_text())
    assert found["rtt_ms"] == pytest.approx([20, 60], abs=1)
    assert found["buffer_pkts"] == pytest.approx([100, 100], rel=0.05)
    assert paths.read_text().startswith("# Fitted to 5 observed flows.")


def test_paths_are_refused_below_a_handful_of_flows(
    flows: list[Flow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, flows[:4], "--paths", str(tmp_path / "mine.yaml"))
    assert isinstance(result.exception, TrainingError)
    assert "at least 5 flows" in str(result.exception)
    assert not (tmp_path / "mine.yaml").exists()


def test_command_needs_something_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected -o FOLDER or --paths FILE.yaml" in run(monkeypatch, []).output


def test_command_stands_in_the_group_of_traces(capsys: pytest.CaptureFixture[str]) -> None:
    assert ccatune.run(["traces", "--help"]) == 0
    assert "from-flows  Rebuild links from observed flows." in capsys.readouterr().out
    assert ccatune.run(["traces", "from-flows", "--help"]) == 0
    assert "Example:" in capsys.readouterr().out

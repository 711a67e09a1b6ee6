# SPDX-License-Identifier: MIT
"""From what flows tell to links: a limit, pieces, flows that were never backlogged, and losses that may be CoDel's."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from emulation.scenario.model import WIRE, FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Jitter, Policer
from emulation.traces import Trace
from tests.training.observed.made import Talk, write
from training.errors import TrainingError
from training.observed.flow import STEP, Flow
from training.observed.flow import Limit as LimitedBy
from training.observed.seen import Limit, SeenLink
from training.observed.simulated import observed_run
from training.observed.sources import files_of, links_of, read_flows, remarks_on, seen_links

TRACE = Trace("piece", np.arange(0, 10_000, 6, dtype=np.uint32), 10_000)


def flow_of(algorithm: str, at_once: int = 1) -> Flow:
    steps = np.zeros(100, STEP)
    steps["time_us"] = np.arange(100) * 100_000
    steps["delivered_bytes"] = np.arange(100) * 25_000  # 2 Mbit/s of payload
    steps["rtt_us"] = 50_000
    steps["lost_pkts"] = np.arange(100) // 20 * at_once
    return Flow("flow", "made", "capture", steps, algorithm=algorithm)


def whole() -> Talk:
    talk = Talk()
    talk.open()
    talk.rounds(10, count=20)
    return talk


def links(
    algorithm: str = "cubic", *, limit: Any = None, pieces: int = 0, at_once: int = 1, **facts: Any
) -> list[SeenLink]:
    told = {"base_rtt_ms": 40.0, "random_loss": 0.0, "policed_loss": 0.0, "full_queue_loss": 0.0,
            "ack_interval_ms": 0.0, "jitter_ms": None,
            "buffer_pkts": None, "largest_queue_pkts": 30, "queueing_delay_ms": None, "throughput_mbps": 2.0,
            "limited": {"network": 0.8}, **facts}  # fmt: skip
    rebuilt = SimpleNamespace(
        limit=limit, pieces=[SimpleNamespace(duration_s=10.0, known_share=0.9, trace=TRACE)] * pieces
    )
    return seen_links(flow_of(algorithm, at_once), rebuilt, SimpleNamespace(**told))


def test_each_piece_is_a_link_that_weighs_by_its_known_time() -> None:
    found = links(pieces=2, buffer_pkts=80, random_loss=0.001)
    assert [(link.seconds, link.buffer_pkts, link.buffer_is_known, link.loss) for link in found] == [
        (9.0, 80, True, 0.001)] * 2  # fmt: skip
    assert len({link.name for link in found}) == 2
    assert {link.flow for link in found} == {"flow"}


def test_a_flow_that_yields_to_losses_and_fills_a_long_buffer_met_few_at_random() -> None:
    [link], [of_bbr] = (
        links(algorithm, pieces=1, buffer_pkts=700, random_loss=0.01, full_queue_loss=0.01) for algorithm in ("", "bbr")
    )
    full_rtt_s = 0.04 + 700 * 12_000 / (2e6 * WIRE)
    window_pkts = 1.054 * (full_rtt_s / link.loss) ** 0.75  # RFC 9438, section 5.1
    assert window_pkts == pytest.approx(full_rtt_s * 2e6 * WIRE / 12_000)
    assert of_bbr.loss == 0.01


def test_a_limit_stands_in_front_of_a_link_that_the_flow_did_not_fill() -> None:
    limit = SimpleNamespace(rate_mbps=2.0, burst_bytes=100_000, rate_range_mbps=(1.9, 2.5))
    [link] = links(limit=limit, random_loss=0.05, queueing_delay_ms={"p50": 5.0, "p95": 50.0})
    assert link.limit is not None
    assert (link.limit, link.loss) == (Limit(2.0, 100_000, (1.9, 2.5)), 0.0)
    assert link.rate_mbps == 4.0
    [fast] = links(limit=limit, queueing_delay_ms={"p50": 1.0, "p95": 2.0})
    assert fast.rate_mbps == 100.0


def test_the_queue_of_a_flow_that_fills_no_buffer_is_a_lower_bound_of_it() -> None:
    [link] = links("bbr", pieces=1, buffer_pkts=30, full_queue_loss=0.001)
    assert not link.buffer_is_known
    [link] = links("bbr", pieces=1, buffer_pkts=30, full_queue_loss=0.02)
    assert link.buffer_is_known


def test_a_flow_that_losses_kept_from_filling_its_link_gives_a_lower_bound_unless_a_policer_is_likelier() -> None:
    [link] = links(random_loss=0.004)
    assert link.is_lower_bound
    assert link.rate_mbps == pytest.approx(2.0 * 1500 / 1448)
    assert link.seconds == pytest.approx(0.8 * 9.9)
    assert links(random_loss=0.05) == []
    assert links(random_loss=0.004, at_once=5) == []
    assert links(random_loss=0.004, limited={"network": 0.1}) == []


def test_losses_at_a_standing_queue_may_be_those_of_codel() -> None:
    short = {"p50": 6.0, "p95": 20.0}
    assert [links(pieces=1, random_loss=loss, queueing_delay_ms=short)[0].codel_share for loss in (0, 0.005)] == [
        0,
        0.5,
    ]
    standing = {"p50": 40.0, "p95": 90.0}
    shares = {name: links(name, pieces=1, random_loss=0.1, queueing_delay_ms=standing)[0].codel_share
              for name in ("bbr", "cubic")}  # fmt: skip
    assert shares == {"bbr": 1.0, "cubic": 0.0}


def test_heavy_losses_without_a_queue_are_remarked() -> None:
    lossy = flow_of("bbr", at_once=20)
    assert "1 flow lost at least 2 % of the packets" in remarks_on([lossy], [])[0]
    assert remarks_on([lossy], links("bbr", pieces=1)) == []
    assert remarks_on([flow_of("bbr")], []) == []


def test_what_kept_flows_from_showing_a_link_is_remarked() -> None:
    flows = [flow_of("cubic") for _ in range(3)]
    for flow, by in zip(flows, (LimitedBy.RECEIVER, LimitedBy.RECEIVER, LimitedBy.APPLICATION), strict=True):
        flow.steps["limit"][:60] = by
    idle, at_receiver = remarks_on(flows, [])
    assert idle == "1 flow without a link: most of the time the application had nothing to send."
    assert at_receiver.startswith("2 flows without a link: most of the time the receiver's window was full")


def test_folders_stand_for_their_files_and_some_are_read_as_one(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="expected captures or logs in this folder, got no file"):
        files_of([tmp_path])
    for name in ("b.pcap", "a/x", "a/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_of([tmp_path]) == [tmp_path / "a/x", tmp_path / "a/y", tmp_path / "b.pcap"]
    assert files_of([tmp_path], is_whole=lambda one: one.name == "a") == [tmp_path / "a", tmp_path / "b.pcap"]


@pytest.mark.parametrize(
    ("path", "limit_mbps"),
    [({"before": (Policer(rate_mbps=3, bucket_bytes=200_000),)}, 3.0), ({"loss": 0.05}, None), ({"loss": 0.1}, None)],
)
def test_a_log_of_bbr_shows_a_policer_and_random_loss_is_none(path: dict[str, Any], limit_mbps: float | None) -> None:
    link = LinkSpec(rate_mbps=20, rtt_ms=80, buffer_pkts=300, behind=(Jitter(max_ms=2),), **path)
    run = Scenario(name="log", link=link, flows=(FlowSpec(cca="bbr"),), duration_s=30)
    limits = [link.limit for link in links_of([observed_run(run, sample_s=0.2)])]
    found = [limit.rate_mbps for limit in limits if limit]
    assert found == ([] if limit_mbps is None else [pytest.approx(limit_mbps, rel=0.03)])


def test_a_folder_is_read_once_in_spite_of_links_and_what_is_no_file_is_remarked(tmp_path: Path) -> None:
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert [file.name for file in files_of([tmp_path, tmp_path / "pipe"])] == ["broken", "pipe"]
    write(tmp_path / "whole.pcap", whole().frames)
    remarks = read_flows([tmp_path]).remarks
    assert [remark.split(": ")[1] for remark in remarks] == [f"{tmp_path}/broken", f"{tmp_path}/pipe"]


@pytest.mark.parametrize(("step_s", "flows", "remark"), [(-5, 2, "The clock steps back by"), (86_400, 2, "")])
def test_flows_are_cut_where_the_clock_of_a_capture_jumps(
    step_s: float, flows: int, remark: str, tmp_path: Path
) -> None:
    talk = whole()
    half = len(talk.frames) // 2
    frames = [(at_s + (step_s if number > half else 0), frame) for number, (at_s, frame) in enumerate(talk.frames)]
    found = read_flows([write(tmp_path / "jumps.pcap", frames)])
    assert len(found.flows) == flows
    assert max(flow.duration_s for flow in found.flows) < 20
    assert remark in " ".join(found.remarks)

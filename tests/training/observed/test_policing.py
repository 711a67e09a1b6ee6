# SPDX-License-Identifier: MIT
"""Policers are found with their rate and bucket, and queues and random loss are not taken for policers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulation import FlowSpec, _engine
from kmod.abi import ALGORITHMS
from tests.emulation.engine.path import Meets
from tests.emulation.engine.path import Path as NetworkPath
from tests.training.observed.made import CLIENT, SERVER, End, Talk, policer, queue, talk_over, write
from training.observed.captures import read_capture
from training.observed.flow import SEND, STEP, Flow
from training.observed.policer_search import packets_of
from training.observed.policing import limits_of, segments_of

PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "captures"
MSS = 1448


def observed(folder: Path, meets: Meets, *, rtt_ms: float = 100, cca: str = "cubic", pkts: int = 2000) -> Flow:
    """The flow of a simulated transfer, as a capture shows it."""
    network = NetworkPath(FlowSpec(cca=cca), size_pkts=pkts, rtt_ms=rtt_ms, rate_mbps=100, meets=meets).start()
    network.run(120_000)
    talk = Talk()
    talk.open(rtt_s=rtt_ms / 1000)
    talk.request(rtt_ms / 1000)
    talk_over(network, talk, at_s=rtt_ms / 1000)
    (flow,) = read_capture(write(folder / "made.pcap", talk.frames)).flows
    return flow


def random_loss(share: float) -> Meets:
    """Each packet is lost by itself."""
    draw = random.Random(1)
    return lambda _packet, _now_ns: None if draw.random() < share else 0.0


def early_drops(rate_mbps: float) -> Meets:
    """Active queue management: the longer the queue, the more is dropped before it is full."""
    draw = random.Random(1)
    return queue(rate_mbps, 400, drops=lambda wait_ms, _: None if draw.random() < (wait_ms - 20) / 2000 else 0.0)


def test_the_cores_detector_reads_rate_and_bucket_from_acks() -> None:
    rate, bucket, every_us = 250_000, 100_000, 2_000
    time_us = np.arange(5000, dtype=np.uint64) * every_us
    line = np.minimum(time_us * 2.5, bucket + time_us * rate / 1e6)  # 2.5 MB/s until the bucket is empty
    acked_pkts = np.diff((line // MSS).astype(np.int64), prepend=0).astype(np.uint32)
    lost_pkts = ((time_us > 50_000) & (np.arange(5000) % 10 == 0)).astype(np.uint32)
    found = _engine.detect_limit(
        time_us, np.full(5000, 40_000, np.uint32), acked_pkts, lost_pkts, np.zeros(1, np.uint64), MSS,
        [spec.default for spec in ALGORITHMS["rtcp_cubic"].params],
    )  # fmt: skip
    assert found["kind"][0] != _engine.LIMITED == found["kind"][-1]
    assert int(found["bytes_per_s"][-1]) == pytest.approx(rate, rel=0.02)
    assert int(found["bucket_bytes"][-1]) == pytest.approx(bucket, rel=0.1)


@pytest.mark.parametrize("rtt_ms", [20, 100, 250])
@pytest.mark.parametrize(("cca", "rate_mbps", "bucket_bytes"), [("cubic", 5, 60_000), ("bbr", 2, 20_000)])
def test_a_policer_is_found_with_its_rate_and_bucket(
    rtt_ms: float, cca: str, rate_mbps: float, bucket_bytes: int, tmp_path: Path
) -> None:
    flow = observed(tmp_path, policer(rate_mbps, bucket_bytes), rtt_ms=rtt_ms, cca=cca)
    (limit,) = limits_of([flow])
    assert limit is not None
    low, high = limit.rate_range_mbps
    assert 0.98 * low <= rate_mbps <= 1.02 * high
    assert limit.rate_mbps == pytest.approx(rate_mbps, rel=0.03 if high < 1.1 * low else 0.5)
    assert limit.burst_bytes == pytest.approx(bucket_bytes, rel=0.05)
    (row,) = segments_of([flow])
    assert (row["flow"], row["segment"], row["policed"]) == (flow.name, 0, True)
    assert row["packets"] - row["lost"] == 2000
    assert (row["rate_mbps"], row["burst_bytes"]) == (pytest.approx(limit.rate_mbps, abs=1e-3), limit.burst_bytes)


@pytest.mark.parametrize("rtt_ms", [20, 250])
@pytest.mark.parametrize("cca", ["cubic", "bbr"])
@pytest.mark.parametrize(
    "meets",
    [lambda: queue(5, 40), lambda: queue(5, 8), lambda: early_drops(5), lambda: random_loss(0.01)],
    ids=["drop-tail", "small queue", "early drops", "random loss"],
)
def test_no_queue_and_no_random_loss_is_taken_for_a_policer(meets, cca: str, rtt_ms: float, tmp_path: Path) -> None:
    flow = observed(tmp_path, meets(), rtt_ms=rtt_ms, cca=cca)
    assert limits_of([flow]) == [None]
    assert [row["policed"] for row in segments_of([flow])] == [False]


def test_flows_that_share_a_policer_are_read_together(tmp_path: Path) -> None:
    shared = policer(5, 60_000)
    networks = [
        NetworkPath(FlowSpec(cca="cubic"), size_pkts=2000, rtt_ms=60, rate_mbps=100, meets=shared).start()
        for _ in (0, 1)
    ]
    for now_ms in range(1, 12_000):
        for network in networks:
            network.run(now_ms)
    frames = []
    for port, network in enumerate(networks):
        talk = Talk(server=End(SERVER, 80 + port), client=End(CLIENT, 4000 + port))
        talk.open(rtt_s=0.06)
        frames += talk_over(network, talk, at_s=0.1).frames
    flows = read_capture(write(tmp_path / "two.pcap", sorted(frames))).flows
    found = limits_of(flows)
    assert found[0] is not None
    assert found[0] == found[1]
    assert found[0].rate_mbps == pytest.approx(5, rel=0.03)
    assert all(row["policed"] for row in segments_of(flows))


def test_a_log_without_packets_is_read_by_the_detector_alone(tmp_path: Path) -> None:
    policed = replace(observed(tmp_path, policer(2, 500_000), pkts=4000), sends=None)
    (limit,) = limits_of([policed])
    assert limit is not None
    assert limit.found_by == "detector"
    assert limit.rate_mbps == pytest.approx(2, rel=0.05)
    assert [row["policed"] for row in segments_of([policed])] == [True]
    assert limits_of([replace(observed(tmp_path, queue(2, 100), pkts=4000), sends=None)]) == [None]


def test_offloaded_segments_that_were_lost_as_a_whole_count_as_packets() -> None:
    sends = np.zeros(100, SEND)
    sends["time_us"] = np.repeat(np.arange(20) * 1000, 5)
    sends["bytes"] = MSS
    sends["offset_bytes"] = np.arange(100) * MSS
    sends["lost"] = np.repeat(np.arange(20) < 6, 5)
    flow = Flow(name="a > b", source="", kind="capture", steps=np.zeros(1, STEP), sends=sends)
    packets, (places,) = packets_of([flow])
    assert packets.bytes.tolist() == [5 * MSS + 52] * 20
    assert places.tolist() == np.repeat(np.arange(20), 5).tolist()
    sends["lost"][::2] = False  # as beyond a network card
    assert len(packets_of([flow])[0].bytes) == 100


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published captures are not here")
def test_published_captures_show_their_policer_and_their_shaper() -> None:
    (policed,) = PUBLISHED.glob("*CD1=1000-CD2=1000-*-PCIR=3000000-RTT*-LOSS=0%-TCP*")
    rows = segments_of(read_capture(policed).flows)
    assert len(rows) == 10
    assert all(row["policed"] == (row["lost"] > 0) for row in rows)
    assert [row["rate_mbps"] for row in rows if row["policed"]] == [pytest.approx(3, rel=0.05)] * 10
    (shaped,) = PUBLISHED.glob("*-CD=500-SCIR=3000000-SBC=8000-*")
    rows = segments_of(read_capture(shaped).flows)
    assert any(row["lost"] for row in rows)
    assert not any(row["policed"] for row in rows)

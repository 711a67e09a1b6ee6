# SPDX-License-Identifier: MIT
"""Captures give the right flows, or a clear word."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from emulation import FlowSpec
from tests.emulation.engine.path import Path as NetworkPath
from tests.training.observed.made import MSS, Talk, policer, talk_over, write
from tests.training.observed.odd_captures import Odd, capture_words, odd_captures
from training.errors import TrainingError
from training.observed.captures import is_capture, read_capture
from training.observed.flow import Limit
from training.observed.policing import segments_of

PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "captures"
ODD = odd_captures()


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_capture_gives_a_clear_word_or_the_right_flows(odd: Odd, tmp_path: Path) -> None:
    path = tmp_path / f"odd{odd.suffix}"
    path.write_bytes(odd.data)
    if odd.error:
        with pytest.raises(TrainingError, match=str(path)) as raised:
            read_capture(path)
        assert odd.error in str(raised.value)
        return
    assert is_capture(path)
    capture = read_capture(path)
    assert len(capture.flows) == odd.flows == len({flow.name for flow in capture.flows})
    assert odd.remark in capture_words(capture)
    assert odd.holds(capture.flows[0])


def test_the_flow_of_a_capture_is_what_the_sender_did(tmp_path: Path) -> None:
    network = NetworkPath(FlowSpec(cca="cubic"), size_pkts=1500, rtt_ms=100, meets=policer(5, 60_000)).start()
    network.run(60_000)
    talk = Talk()
    talk.open(rtt_s=0.1)
    talk.request(0.1)
    (flow,) = read_capture(write(tmp_path / "one.pcap", talk_over(network, talk).frames)).flows
    counters = network.sender.counters
    assert flow.sends is not None
    assert len(flow.sends) == counters["sent"]
    assert flow.sends["retransmission"].sum() == flow.steps["lost_pkts"][-1] == counters["retransmitted"] > 50
    assert flow.sends["lost"].sum() == counters["retransmitted"]  # no timeout, nothing needless
    assert flow.steps["delivered_bytes"][-1] == 1500 * MSS
    assert flow.steps["inflight_bytes"][-1] == 0
    # The sender knows what is in flight when it sends.
    sent_us = np.array([round(1e3 * ms) for ms, _, _ in network.sent]) + 100_000
    inflight_pkts = np.array([pkts for _, _, pkts in network.sent])
    at = np.searchsorted(flow.steps["time_us"], sent_us[-200:], side="right") - 1
    assert np.median(np.abs(flow.steps["inflight_bytes"][at] / MSS - inflight_pkts[-200:])) <= 2
    assert flow.steps["limit"][-1] == Limit.APPLICATION
    assert (flow.steps["limit"] == Limit.NETWORK).mean() > 0.9


def test_a_request_and_an_idle_time_begin_transfers(tmp_path: Path) -> None:
    talk = Talk()
    talk.open()
    talk.request(0.05)
    end_s = talk.rounds(0.0501)
    talk.request(end_s + 0.001)  # at once
    end_s = talk.rounds(end_s + 0.0011)
    end_s = talk.rounds(end_s + 0.5)  # pushed
    end_s = talk.rounds(end_s + 0.0001)  # goes on
    (flow,) = read_capture(write(tmp_path / "four.pcap", talk.frames)).flows
    assert len(flow.transfers_us) == 3
    assert [0 if s.sends is None else len(s.sends) for s in flow.segments()] == [40, 40, 80]


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published captures are not here")
def test_a_published_capture_has_five_chunks_of_two_megabytes() -> None:
    (path,) = PUBLISHED.glob("*-CD=500-PCIR=3000000-RTT*")
    (flow,) = read_capture(path).flows
    assert flow.vantage == "sender"
    assert (flow.mss_bytes, len(flow.transfers_us)) == (1448, 5)
    assert 100_000 < flow.min_rtt_us < 102_000
    for segment in list(flow.segments())[:-1]:  # the last one is cut off
        assert segment.sends is not None
        assert segment.sends["bytes"][~segment.sends["lost"]].sum() >= 2_000_000
        assert segment.sends["lost"].any()


def test_damaged_bytes_are_read_or_refused(tmp_path: Path) -> None:
    draw = random.Random(1)
    path = tmp_path / "damaged.pcap"
    for _ in range(50):
        data = bytearray(ODD[draw.choice(["big-endian", "pcapng of two interfaces", "a loss"])].data)
        for _ in range(draw.choice([1, 10, 100])):
            data[draw.randrange(len(data))] = draw.randrange(256)
        path.write_bytes(data[: draw.randrange(len(data)) if draw.random() < 0.3 else None])
        with suppress(TrainingError):
            segments_of(read_capture(path).flows)

# SPDX-License-Identifier: MIT
"""What a receiver does to a flow: its window bounds it, and when it acknowledges tells in rates and counts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from emulation import AckPath, FlowSpec, LinkRate, LinkSpec, QoS, ReceiverSpec
from tests.emulation.engine.links import PACKET_MS, fixed, run

MSS_BYTES = 1448


def with_receiver(cwnd_pkts: int, **receiver: Any) -> FlowSpec:
    return fixed(cwnd_pkts, receiver=ReceiverSpec(**receiver))


def acks_of(qos: QoS) -> int:
    """ACKs that entered the way back."""
    assert qos.acks is not None
    return qos.acks.entered


@pytest.mark.parametrize("window_pkts", [4, 10, 60])
def test_the_offered_window_bounds_what_is_under_way(window_pkts: int) -> None:
    qos = run(with_receiver(1000, window_bytes=window_pkts * MSS_BYTES), duration_s=40, warmup_s=10)
    assert qos.throughput_mbps == pytest.approx(window_pkts * 1500 * 8e-3 / (100 + 2 * PACKET_MS), rel=5e-3)


def test_a_window_counts_whole_segments_from_the_first_flight_on() -> None:
    window_bytes = 4 * MSS_BYTES - 1
    qos = run(with_receiver(1000, window_bytes=window_bytes, quick_acks=1000), duration_s=0.09)
    assert qos.packets == 3


def test_a_window_that_tunes_itself_begins_with_64_kib_and_lets_the_flow_fill_the_link() -> None:
    link = LinkSpec(rate_mbps=100, rtt_ms=100)
    by_itself = run(with_receiver(900, autotune=True), link=link, duration_s=4, warmup_s=3)
    bounded = run(with_receiver(900, autotune=True, window_bytes=200 * MSS_BYTES), link=link, duration_s=4, warmup_s=3)
    first = run(with_receiver(900, autotune=True), link=link, duration_s=0.1)
    assert first.packets <= 45
    assert by_itself.utilization > 0.99
    assert bounded.throughput_mbps == pytest.approx(200 * 1500 * 8e-3 / 100, rel=0.02)


@pytest.mark.parametrize("delay_ms", [0.0, 10.0, 60.0])
def test_a_lone_segment_is_acknowledged_after_the_delay(delay_ms: float) -> None:
    qos = run(with_receiver(1, ack_delay_ms=delay_ms, quick_acks=0), duration_s=30, warmup_s=3)
    assert qos.throughput_mbps == pytest.approx(1500 * 8e-3 / (100 + delay_ms + PACKET_MS), rel=5e-3)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_acks_are_sent_for_every_few_segments(every: int) -> None:
    link = LinkSpec(rate_mbps=20, acks=AckPath(uplink=LinkRate(rate_mbps=100)))
    qos = run(with_receiver(200, ack_every=every, quick_acks=0), link=link, duration_s=20)
    assert qos.packets / acks_of(qos) == pytest.approx(every, rel=0.01)


@pytest.mark.parametrize(("rtt_ms", "silence_ms"), [(20, 220), (100, 300), (250, 750)])
@pytest.mark.parametrize("around", [0.9, 1.15])
def test_a_silence_is_longer_than_the_receivers_own_timeout(rtt_ms: float, silence_ms: float, around: float) -> None:
    # Of the three segments of a transfer the first two share an ACK, unless they arrive after a silence.
    gap_s = (around * silence_ms - rtt_ms) / 1000
    flow = fixed(10, transfers=[{"size_bytes": 3 * MSS_BYTES, "gap_s": gap_s, "count": 50}])
    link = LinkSpec(rate_mbps=100, rtt_ms=rtt_ms, acks=AckPath(uplink=LinkRate(rate_mbps=100)))
    qos = run(flow, link=link, duration_s=60)
    assert qos.packets == 150
    assert (acks_of(qos) == 150) == (around > 1)


@pytest.mark.parametrize("stretch_pkts", [8, 40])
def test_a_burst_is_acknowledged_by_one_ack_for_as_many_segments_as_stretch_says(stretch_pkts: int) -> None:
    # Segments come every 0.12 ms: one burst for a gap of 0.2 ms, none for the default of 0.05 ms.
    link = LinkSpec(rate_mbps=100, acks=AckPath(uplink=LinkRate(rate_mbps=100)))
    wide = run(with_receiver(900, stretch_pkts=stretch_pkts, stretch_gap_ms=0.2), link=link, duration_s=10)
    near = run(with_receiver(900, stretch_pkts=stretch_pkts), link=link, duration_s=10)
    assert wide.packets / acks_of(wide) == pytest.approx(stretch_pkts, rel=0.05)
    assert near.packets / acks_of(near) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    "field", [{"window_bytes": 1447}, {"ack_every": 0}, {"ack_delay_ms": 201}, {"stretch_pkts": 0}, {"windows": 1}]
)
def test_a_receiver_that_cannot_be_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(field))):
        ReceiverSpec(**field)

# SPDX-License-Identifier: MIT
"""Logs made by hand, with figures that can be told by heart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emulation.errors import EmulationError
from emulation.mahimahi.measure import to_qos
from emulation.mahimahi.namespace.traffic import INFO_FIELDS
from emulation.run.qos import SERIES, QoS
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario, Transfer
from emulation.scenario.path import AckPath, Policer

HEADER = "# mahimahi mm-link (Downlink) [t] > log\n# init timestamp: 1000000\n# base timestamp: 50\n"
LEAD_MS = 100
# Of the shell's clock, at which the scenario begins.
ZERO = 50 + LEAD_MS


def log_text(*lines: str) -> str:
    """A log; times in the lines count from the scenario's beginning."""
    words = [line.split(" ", 1) for line in lines]
    return HEADER + "".join(f"{int(at) + ZERO} {rest}\n" for at, rest in words)


def end_of_flow(*rows: dict[str, float], flow: int = 0) -> list[list[float]]:
    """Samples at time_s with the fields named; 0 for the others."""
    return [[flow, row["time_s"], *(row.get(name, 0.0) for name in INFO_FIELDS)] for row in rows]


def result(log: str, *, sent: list[list[float]], received: list[list[float]], **changes: Any) -> dict[str, Any]:
    """What link.py leaves."""
    fields = list(INFO_FIELDS)
    return {
        "lead_ms": LEAD_MS,
        "log": log,
        "counters": {"TCPTimeouts": 0, "TCPSpuriousRTOs": 0},
        "sent": {"fields": fields, "rows": sent, "transfers": {}, "late_s": 0.0},
        "received": {"fields": fields, "rows": received, "transfers": {}, "late_s": 0.0},
        "policers": {},
        **changes,
    }


def link_figures(*lines: str, buffer_pkts: int | None = None) -> QoS:
    """What the link of a run of 1 s gave, with this log."""
    link = LinkSpec(rate_mbps=1, rtt_ms=40, buffer_pkts=buffer_pkts)
    scenario = Scenario(name="it", link=link, flows=(FlowSpec(cca="reno"),), duration_s=1)
    return to_qos(scenario, result(log_text(*lines), sent=[], received=[]), series_every_s=0.001)


def drops_by_ms(qos: QoS) -> dict[int, int]:
    assert qos.element_series is not None
    dropped = qos.element_series.dropped[:, 0]
    return {int(at) + 1: int(dropped[at]) for at in np.flatnonzero(dropped)}


def test_packets_without_data_are_no_packets_of_the_link() -> None:
    qos = link_figures("1 # 1504", "2 + 1504", "3 d 2 3008", "5 - 1504 3", "6 + 56", "7 - 56 1")
    assert (qos.packets, qos.throughput_mbps, qos.capacity_mbps) == (1, 1500 * 8e-6, 1500 * 8e-6)
    assert drops_by_ms(qos) == {3: 2}


@pytest.mark.parametrize("line", ["51 -", "51 - 1504", "x # 1504", "51 ? 1504"])
def test_a_broken_line_is_named(line: str) -> None:
    scenario = Scenario(name="it", link=LinkSpec(rate_mbps=1), flows=(FlowSpec(cca="reno"),))
    with pytest.raises(EmulationError, match="it: mm-link's log, line 4: expected TIME"):
        to_qos(scenario, result(HEADER + line + "\n", sent=[], received=[]))


@pytest.mark.parametrize("text", ["", "hello\n", "# a comment\n"])
def test_text_that_is_no_log_is_refused(text: str) -> None:
    scenario = Scenario(name="it", link=LinkSpec(rate_mbps=1), flows=(FlowSpec(cca="reno"),))
    with pytest.raises(EmulationError, match=r"it: mm-link's log.*: expected"):
        to_qos(scenario, result(text, sent=[], received=[]))


def test_drops_are_what_came_and_never_left() -> None:
    # Two come in ms 1 and one leaves; three in ms 2, of which one leaves last: the two others may still be queued.
    lines = ["1 + 1504", "1 + 1504", "2 + 1504", "2 + 1504", "2 + 1504", "3 - 1504 2", "4 - 1504 2"]
    assert drops_by_ms(link_figures(*lines)) == {1: 1}
    assert drops_by_ms(link_figures(*lines, "5 + 1504", buffer_pkts=1)) == {1: 1, 5: 1}


def ten_packets_in_two_seconds(**changes: Any) -> QoS:
    """Opportunities every 100 ms, used from 0.1 to 1.0 s; every packet waits 20 ms, the last one 60."""
    lines = ["-50 # 1504"] + [f"{at} # 1504" for at in range(100, 2001, 100)]
    for number in range(1, 11):
        delay_ms = 60 if number == 10 else 20
        lines += [f"{100 * number - delay_ms} + 1504", f"{100 * number} - 1504 {delay_ms}"]
    lines.sort(key=lambda line: int(line.split()[0]))
    sent = end_of_flow(
        {"time_s": 0.0, "segments_out": 1, "rtt_us": 40_000, "cwnd_pkts": 10, "pacing_bytes_per_s": 2**64 - 1},
        {"time_s": 1.0, "segments_out": 11, "total_retrans_pkts": 1, "rtt_us": 60_000, "cwnd_pkts": 12},
        {"time_s": 2.0, "segments_out": 21, "total_retrans_pkts": 2, "rtt_us": 60_000, "cwnd_pkts": 14},
    )
    received = end_of_flow(
        {"time_s": 0.0},
        {"time_s": 1.0, "segments_in": 10, "received_bytes": 14_480},
        {"time_s": 2.0, "segments_in": 10, "received_bytes": 14_480},
    )
    scenario = Scenario(link=LinkSpec(rate_mbps=1, rtt_ms=40), flows=(FlowSpec(cca="reno"),), duration_s=2, **changes)
    return to_qos(scenario, result(log_text(*lines), sent=sent, received=received), series_every_s=0.5)


def test_figures_of_the_link_are_those_of_the_log() -> None:
    qos = ten_packets_in_two_seconds()
    assert qos.capacity_mbps == pytest.approx(20 * 1500 * 8e-6 / 2)
    assert qos.throughput_mbps == pytest.approx(10 * 1500 * 8e-6 / 2)
    assert qos.utilization == pytest.approx(0.5)
    assert (qos.packets, qos.sent, qos.simulated_packets, qos.dropped, qos.queued) == (10, 10, 10, 0, 0)
    assert qos.mean_queueing_delay_ms == pytest.approx(24)
    # A bin's width above the value at most.
    assert 20 <= qos.queueing_delay.percentile_ms(50) <= 20.7
    assert 60 <= qos.queueing_delay.percentile_ms(95) <= 62


def test_figures_of_a_flow_are_those_of_its_ends() -> None:
    flow = ten_packets_in_two_seconds().flows[0]
    assert flow.retransmission_rate == pytest.approx(2 / 20)
    assert flow.goodput_mbps == pytest.approx(14_480 * 8e-6 / 2)
    assert flow.throughput_mbps == pytest.approx(10 * 1500 * 8e-6 / 2)
    assert 60 <= flow.rtt.percentile_ms(50) <= 62
    assert flow.rtt.total == 2


def test_what_comes_before_the_warm_up_does_not_count() -> None:
    qos = ten_packets_in_two_seconds(warmup_s=0.5)
    assert qos.packets == 5
    assert qos.capacity_mbps == pytest.approx(15 * 1500 * 8e-6 / 1.5)
    assert qos.mean_queueing_delay_ms == pytest.approx((4 * 20 + 60) / 5)
    assert qos.flows[0].retransmission_rate == pytest.approx(1.5 / 15)


def test_acks_are_counted_by_their_own_log() -> None:
    link = LinkSpec(rate_mbps=1, rtt_ms=40, acks=AckPath(interval_ms=10))
    scenario = Scenario(link=link, flows=(FlowSpec(cca="reno"),), duration_s=1, warmup_s=0.5)
    # One in the lead; two leave in the warm-up, two after it, and one never does.
    lines = ["-9 + 56", "-8 - 56 1", "1 + 56", "2 + 84", "2 # 1504", "10 - 56 9", "10 - 84 8"]
    lines += ["506 + 56", "507 + 56", "510 - 56 4", "510 - 56 3", "999 + 56"]
    qos = to_qos(scenario, result(HEADER, sent=[], received=[], ack_log=log_text(*lines)))
    assert qos.acks is not None
    assert (qos.acks.entered, qos.acks.passed, qos.acks.inside, qos.acks.delay.total) == (5, 4, 1, 2)
    assert 3 <= qos.acks.delay.percentile_ms(50) <= 4.2


def test_windows_add_up_to_the_whole() -> None:
    windows = ten_packets_in_two_seconds(window_s=0.5).windows
    assert windows.start_ms.tolist() == [0, 500, 1000, 1500]
    assert windows.packets.tolist() == [5, 5, 0, 0]
    assert windows.capacity_bytes.tolist() == [7500] * 4
    assert windows.delay_counts.sum(axis=1).tolist() == [5, 5, 0, 0]


def test_a_series_has_the_columns_that_a_picture_needs() -> None:
    series = ten_packets_in_two_seconds().series
    assert set(series) == set(SERIES)
    assert series["time_s"].tolist() == [0.5, 1.0, 1.5, 2.0]
    assert series["capacity_mbps"] == pytest.approx(np.full(4, 5 * 1500 * 8e-6 / 0.5))
    assert series["queueing_delay_ms"].tolist() == [20, 60, 60, 60]
    assert series["cwnd_pkts"].tolist() == [10, 12, 12, 14]
    assert series["retransmitted_pkts"] == pytest.approx([0.5] * 4)
    assert series["pacing_mbps"].tolist() == [0, 0, 0, 0]


def test_a_flow_without_samples_has_figures_of_nothing() -> None:
    scenario = Scenario(link=LinkSpec(rate_mbps=1, rtt_ms=40), flows=(FlowSpec(cca="reno"),), duration_s=2)
    qos = to_qos(scenario, result(HEADER, sent=[], received=[]), series_every_s=0.5)
    assert (qos.packets, qos.throughput_mbps, qos.utilization) == (0, 0, 0)
    assert qos.flows[0].retransmission_rate == 0


def policed(time_s: float, came: int, passed: int, *, at: int = 0) -> dict[str, Any]:
    """What a policer's program leaves of flow 0, from nothing at 0 s to these packets at time_s, evenly."""
    return {"names": [f"in_{at}_0", f"out_{at}_0"], "rows": [[0.0, 0, 0], [time_s, came, passed]]}


def test_drops_of_policers_are_apart_from_those_of_the_link() -> None:
    """12 come to the first policer, which passes 8; the link drops 2 of them; the last policer passes 5 of 6."""
    bucket = Policer(rate_mbps=1, bucket_bytes=9000)
    link = LinkSpec(rate_mbps=1, rtt_ms=40, buffer_pkts=1, before=(bucket,), behind=(bucket,))
    scenario = Scenario(link=link, flows=(FlowSpec(cca="reno"),), duration_s=2)
    passed = [line for at in range(100, 601, 100) for line in (f"{at} + 1504", f"{at} - 1504 0")]
    log = log_text(*passed, "650 + 1504", "650 + 1504", "660 d 2 3008")
    told = {"before": policed(1.0, 12, 8), "behind": policed(1.0, 6, 5)}
    sides = {"sent": end_of_flow({"time_s": 0.0}), "received": end_of_flow({"time_s": 0.0})}
    qos = to_qos(scenario, result(log, **sides, policers=told), series_every_s=0.5)
    rows = [(row.name, row.entered, row.passed, row.dropped, row.inside) for row in qos.elements]
    assert rows == [("policer 1", 12, 8, 4, 0), ("link", 8, 6, 2, 0), ("policer 2", 6, 5, 1, 0)]
    assert (qos.sent, qos.simulated_packets, qos.dropped) == (12, 6, 2)
    # What the last policer drops has crossed the link.
    assert qos.flows[0].throughput_mbps == pytest.approx(6 * 1500 * 8e-6 / 2)
    assert qos.element_series is not None
    assert qos.element_series.dropped.tolist() == [[2, 0, 0], [2, 2, 1], [0, 0, 0], [0, 0, 0]]


def test_transfers_are_told_with_their_sizes_and_rtt_counts_while_they_last() -> None:
    sizes = Transfer(size_bytes=2000, gap_s=0.5, count=2), Transfer(size_bytes=9)
    flow = FlowSpec(cca="reno", transfers=sizes)
    scenario = Scenario(link=LinkSpec(rate_mbps=1, rtt_ms=40), flows=(flow,), duration_s=4)
    sent = end_of_flow(*({"time_s": at, "rtt_us": 1000 * at} for at in (0.0, 1.0, 2.0, 3.0, 4.0)))
    for times_s, complete_s, samples in (
        ([[0.5, 1.2], [1.7, None]], None, 4),
        ([[0.5, 1.2], [1.7, 1.9], [2.4, 3.2]], 3.2, 2),
    ):
        told = result(HEADER, sent=sent, received=[])
        told["sent"]["transfers"] = {"0": times_s}
        found = to_qos(scenario, told).flows[0]
        assert [[t.start_s, t.complete_s] for t in found.transfers] == times_s
        assert [t.size_bytes for t in found.transfers] == [2000, 2000, 9][: len(times_s)]
        assert found.complete_s == complete_s
        assert found.rtt.total == samples

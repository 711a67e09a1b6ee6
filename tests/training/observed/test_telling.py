# SPDX-License-Identifier: MIT
"""What flows tell: flows of a few rows, whose facts follow by hand, and simulated ones, whose path is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from emulation import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import AckPath, Policer
from emulation.traces import Trace
from training.observed.flow import STEP, Flow, Limit
from training.observed.simulated import observed_run
from training.observed.telling import Outage, facts_of

MSS = 1448


def made(
    times_ms: Any, delivered_pkts: Any, rtts_ms: Any, *, lost: Any = 0, inflight: Any = 10, limit: Any = Limit.NETWORK,
    kind: Any = "capture",
) -> Flow:  # fmt: skip
    """A flow of these rows."""
    steps = np.zeros(len(times_ms), STEP)
    steps["time_us"], steps["rtt_us"] = np.asarray(times_ms) * 1000, np.asarray(rtts_ms) * 1000
    steps["delivered_bytes"], steps["inflight_bytes"] = np.asarray(delivered_pkts) * MSS, np.asarray(inflight) * MSS
    steps["lost_pkts"], steps["limit"] = lost, limit
    return Flow("made", "test", kind, steps, mss_bytes=MSS)


def simulated(*, cca: str = "cubic", sample_s: float | None = None, duration_s: float = 20, **link: Any) -> Flow:
    """A flow over a link of 12 Mbit/s, with changes."""
    if "trace" not in link:
        link = {"rate_mbps": 12, **link}
    spec = LinkSpec.model_validate({"rtt_ms": 40, "buffer_pkts": 100, **link})
    return observed_run(Scenario(link=spec, flows=(FlowSpec(cca=cca),), duration_s=duration_s), sample_s=sample_s)


def test_queueing_delays_are_rtts_above_the_least_one_weighted_by_bytes() -> None:
    flow = made(np.arange(101), np.arange(101), [40] * 51 + [60] * 45 + [90] * 5)
    assert facts_of(flow).queueing_delay_ms == {"p50": 0.0, "p95": 20.0, "p99": 50.0}
    assert facts_of(flow).base_rtt_ms == 40


def test_time_is_divided_among_its_limits() -> None:
    limits = [Limit.NETWORK] * 51 + [Limit.APPLICATION] * 25 + [Limit.RECEIVER] * 25
    found = facts_of(made(np.arange(101), np.arange(101), 40 * np.ones(101), limit=limits)).limited
    assert found == {"network": 0.5, "application": 0.25, "receiver": 0.25, "send_buffer": 0.0, "unknown": 0.0}


def test_silence_with_data_in_flight_is_an_outage_and_idle_time_is_none() -> None:
    times_ms = np.append(np.arange(1000), 3000 + np.arange(1000))
    pkts = np.arange(2000)
    assert facts_of(made(times_ms, pkts, 40 * np.ones(2000))).outages == (Outage(0.999, 2.001),)
    assert facts_of(made(times_ms, pkts, 40 * np.ones(2000), inflight=0)).outages == ()
    limit = np.where(pkts == 1000, Limit.APPLICATION, Limit.NETWORK)
    assert facts_of(made(times_ms, pkts, 40 * np.ones(2000), limit=limit)).outages == ()


def test_states_are_on_the_axes_of_studies() -> None:
    # 1 packet a ms of payload is 11.6 Mbit/s: level 11 of 1 Mbit/s. 45 ms is in the second octave from 20 ms.
    times_ms = np.arange(0, 65_000)
    states = facts_of(made(times_ms, times_ms, 45 * np.ones(65_000))).states
    assert [(state.at_s, state.throughput_level, state.min_rtt_level) for state in states] == [(30, 11, 1), (60, 11, 1)]


@pytest.mark.parametrize("buffer_pkts", [50, 100, 400])
def test_buffer_is_where_losses_of_a_full_queue_begin(buffer_pkts: int) -> None:
    facts = facts_of(simulated(buffer_pkts=buffer_pkts, duration_s=40))
    assert facts.buffer_pkts == pytest.approx(buffer_pkts, rel=0.05)
    assert facts.full_queue_loss is not None
    assert facts.full_queue_loss > 0
    assert facts.random_loss is not None
    assert facts.random_loss < 2e-4
    sampled = facts_of(simulated(buffer_pkts=buffer_pkts, duration_s=40, sample_s=0.2))
    assert sampled.buffer_pkts == pytest.approx(buffer_pkts, rel=0.15)


@pytest.mark.parametrize("cca", ["cubic", "bbr"])
def test_loss_without_a_queue_is_random(cca: str) -> None:
    facts = facts_of(simulated(cca=cca, loss=0.01, duration_s=40))
    assert facts.random_loss == pytest.approx(0.01, rel=0.35)
    assert facts.full_queue_loss is not None
    assert facts.full_queue_loss < 0.003


def test_losses_on_a_path_with_a_policer_are_policed() -> None:
    flow = simulated(rate_mbps=20, before=(Policer(rate_mbps=4, bucket_bytes=100_000),))

    class Bucket:
        rate_mbps, burst_bytes, rate_range_mbps = 4.0, 100_000, None

    facts = facts_of(flow, limit=Bucket())
    assert facts.policed_loss is not None
    assert facts.policed_loss > 0.01
    assert (facts.random_loss, facts.full_queue_loss, facts.buffer_pkts, facts.outages) == (0, 0, None, None)


@pytest.mark.parametrize("interval_ms", [10, 40])
def test_held_acks_show_their_interval(interval_ms: float) -> None:
    facts = facts_of(simulated(acks=AckPath(interval_ms=interval_ms)))
    assert facts.ack_interval_ms == pytest.approx(interval_ms, rel=0.1)
    assert facts.jitter_ms is None


@pytest.mark.parametrize("rate_mbps", [1, 12, 100])
def test_acks_that_are_not_held_have_no_interval(rate_mbps: float) -> None:
    assert facts_of(simulated(rate_mbps=rate_mbps, buffer_pkts=300)).ack_interval_ms == 0


def test_log_of_samples_says_nothing_about_single_acks() -> None:
    facts = facts_of(simulated(sample_s=0.2))
    assert (facts.ack_gap_ms, facts.ack_bytes, facts.ack_interval_ms, facts.jitter_ms) == (None, None, None, None)
    assert json.loads(json.dumps(facts.as_json()))["kind"] == "observe"


@pytest.mark.parametrize("sample_s", [None, 0.2])
def test_outage_of_a_link_is_found(sample_s: float | None) -> None:
    times_ms = np.arange(1, 20_001, dtype=np.uint32)
    trace = Trace("outage", times_ms[(times_ms < 8000) | (times_ms > 10_000)], 20_000)
    ((outage),) = facts_of(simulated(trace=trace, sample_s=sample_s)).outages or ()
    assert [outage.at_s, outage.duration_s] == pytest.approx([8.0, 2.0], abs=0.3)

# SPDX-License-Identifier: MIT
"""The detector of Flach et al. 2016, on buckets in closed form and on packets of the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Policer, RandomLoss
from experiments.rtcp import policing_detector
from experiments.rtcp.policing_detector import LEAST_LOST, SentPackets, policed_pkts_per_s, sent_packets

EVERY_S = 0.005


def through_a_bucket(offered: NDArray[np.int64], *, pkts_per_s: float, bucket_pkts: float) -> SentPackets:
    """Packets offered bin by bin to a token bucket that is full at first."""
    level, passed = bucket_pkts, []
    for count in offered:
        level = min(level + pkts_per_s * EVERY_S, bucket_pkts)
        passed.append(min(int(count), int(level)))
        level -= passed[-1]
    times_s = EVERY_S * np.arange(1, len(offered) + 1)
    return SentPackets(times_s, np.array(passed), offered - passed, np.full(len(offered), 40.0))


def steady(seconds: float, *, pkts_per_bin: int) -> NDArray[np.int64]:
    return np.full(round(seconds / EVERY_S), pkts_per_bin, dtype=np.int64)


def test_a_token_bucket_is_found_with_its_rate() -> None:
    sent = through_a_bucket(steady(20, pkts_per_bin=5), pkts_per_s=100, bucket_pkts=300)
    assert policed_pkts_per_s(sent) == pytest.approx(100, rel=0.005)


def test_a_sender_that_pauses_below_the_bucket_is_still_found() -> None:
    """2 s of silence bring 200 of 300 tokens: nothing runs over."""
    offered = np.concatenate([steady(10, pkts_per_bin=5), steady(2, pkts_per_bin=0), steady(10, pkts_per_bin=5)])
    assert policed_pkts_per_s(through_a_bucket(offered, pkts_per_s=100, bucket_pkts=300)) == pytest.approx(
        100, rel=0.005
    )


def test_a_bucket_that_runs_over_while_the_sender_is_idle_is_not_found() -> None:
    """R-TCP 2026, section 3.2: 10 s of silence bring 300 tokens and not 1000, which lowers the rate that it takes."""
    offered = np.concatenate([steady(10, pkts_per_bin=5), steady(10, pkts_per_bin=0), steady(10, pkts_per_bin=5)])
    assert policed_pkts_per_s(through_a_bucket(offered, pkts_per_s=100, bucket_pkts=300)) is None


def test_a_full_queue_is_told_from_a_bucket_by_its_round_trips() -> None:
    """The queue's room is a bucket of tokens: without round trips it would be one. Until the first loss it grows."""
    sent = through_a_bucket(steady(20, pkts_per_bin=5), pkts_per_s=100, bucket_pkts=300)
    queued_pkts = np.minimum(np.cumsum(sent.passed) - 100 * sent.time_s, 300)
    queue = replace(sent, rtt_ms=40 + 10 * np.maximum(queued_pkts, 0))
    assert policed_pkts_per_s(replace(queue, rtt_ms=sent.rtt_ms)) is not None
    assert policed_pkts_per_s(queue) is None


def test_a_drop_tail_queue_of_a_run_is_no_policer() -> None:
    """12 Mbit/s and 30 packets, which BBR fills at once: by its tokens alone it would be a policer of that rate."""
    link = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=30)
    qos = simulate(Scenario(link=link, flows=(FlowSpec(cca="bbr"),), duration_s=30, seed=3), series_every_s=EVERY_S)
    sent = sent_packets(qos, every_s=EVERY_S)
    assert policed_pkts_per_s(replace(sent, rtt_ms=np.full(len(sent.time_s), 40.0))) == pytest.approx(1000, rel=0.01)
    assert policed_pkts_per_s(sent) is None


def test_random_loss_is_no_policer() -> None:
    offered = steady(20, pkts_per_bin=5)
    lost = np.random.default_rng(1).binomial(offered, 0.1)
    times_s = EVERY_S * np.arange(1, len(offered) + 1)
    assert policed_pkts_per_s(SentPackets(times_s, offered - lost, lost, np.full(len(offered), 40.0))) is None


def test_where_nothing_passes_between_the_losses_there_is_no_rate() -> None:
    lost = np.full(20, 5)
    times_s = EVERY_S * np.arange(1, 21)
    assert policed_pkts_per_s(SentPackets(times_s, np.zeros(20, dtype=np.int64), lost, np.full(20, 40.0))) is None


@pytest.mark.parametrize("losses", [[], [LEAST_LOST - 1], [LEAST_LOST - 2, 1], [100]])
def test_too_few_losses_or_all_of_them_at_once_are_none(losses: list[int]) -> None:
    lost = np.zeros(1000, dtype=np.int64)
    lost[100 : 100 + len(losses)] = losses
    sent = SentPackets(EVERY_S * np.arange(1, 1001), np.ones(1000, dtype=np.int64), lost, np.full(1000, 40.0))
    assert policed_pkts_per_s(sent) is None


@pytest.fixture(scope="module")
def behind_a_policer() -> QoS:
    """2 Mbit/s behind 50."""
    link = LinkSpec(rate_mbps=50, rtt_ms=40, buffer_pkts=1000, before=(Policer(rate_mbps=2, bucket_bytes=300_000),))
    return simulate(Scenario(link=link, flows=(FlowSpec(cca="cubic"),), duration_s=20, seed=3), series_every_s=EVERY_S)


def test_packets_of_a_run_are_those_that_its_elements_counted(behind_a_policer: QoS) -> None:
    sent = sent_packets(behind_a_policer, every_s=EVERY_S)
    # But for the last bin, which ends with the run.
    assert sent.lost.sum() == pytest.approx(behind_a_policer.elements[0].dropped, abs=2)
    assert sent.passed.sum() == pytest.approx(behind_a_policer.elements[0].passed, abs=2)


@pytest.mark.parametrize("empty_pkts", [2.0, 4.0, 8.0])
def test_a_policer_of_a_run_is_found_whatever_counts_as_empty(
    behind_a_policer: QoS, empty_pkts: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policing_detector, "EMPTY_PKTS", empty_pkts)
    found = policed_pkts_per_s(sent_packets(behind_a_policer, every_s=EVERY_S))
    assert found is not None
    assert found * 1500 * 8e-6 == pytest.approx(2, rel=0.01)


def test_what_is_lost_behind_the_queue_is_found_where_it_was_sent() -> None:
    """A window of 200 packets in front of 12 Mbit/s: 160 ms pass between a packet's sending and its loss."""
    link = LinkSpec(rate_mbps=12, rtt_ms=40, buffer_pkts=1000, behind=(RandomLoss(share=0.02),))
    flow = FlowSpec(cca="fixed", params={"cwnd_pkts": 200})
    qos = simulate(Scenario(link=link, flows=(flow,), duration_s=10, seed=3), series_every_s=EVERY_S)
    sent = sent_packets(qos, every_s=EVERY_S)
    random_loss = next(element for element in qos.elements if element.name == "loss")
    assert sent.lost.sum() == pytest.approx(random_loss.dropped, abs=2)
    # But for the last bin, which ends with the run: 5 packets.
    assert (sent.passed + sent.lost).sum() == pytest.approx(qos.elements[0].entered, abs=6)
    # The first window of 200 is sent at once, at the start; losses among it are of that time.
    first = qos.element_series.time_s[np.flatnonzero(qos.element_series.dropped[:, -1])[0]] if qos.element_series else 0
    assert sent.time_s[np.flatnonzero(sent.lost)[0]] <= first
    assert policed_pkts_per_s(sent) is None


def test_packets_of_several_flows_are_refused() -> None:
    scenario = Scenario(link=LinkSpec(rate_mbps=12, rtt_ms=40), flows=(FlowSpec(), FlowSpec()), duration_s=1)
    with pytest.raises(ValueError, match="expected a run of one flow with series_every_s"):
        sent_packets(simulate(scenario, series_every_s=EVERY_S), every_s=EVERY_S)

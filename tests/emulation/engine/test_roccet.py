# SPDX-License-Identifier: MIT
"""ROCCET in the simulator: what its paper states of it, sections III, VI, VIII and IX.

The links are the paper's, 50 Mbit/s with 30 or 40 ms. A bandwidth-delay product (BDP) is 125 or 167 packets there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from emulation import FlowSpec, LinkSpec, QoS, ReceiverSpec, Scenario, simulate
from emulation.scenario.model import Cca
from emulation.scenario.path import RateStep
from kmod.ensemble import Axis
from tests.emulation.engine.links import run
from tests.emulation.tables import ensemble_of, table_of

RATE_MBPS = 50.0
CHANGE_S = 15.0
EVERY_S = 0.02


def bdp_pkts(rtt_ms: float) -> float:
    """What the path holds before its capacity changes."""
    return RATE_MBPS * 1000 * rtt_ms / 12_000


def link(rtt_ms: float, products: float, **more: Any) -> LinkSpec:
    """The link, with a buffer of that many BDP."""
    rate = more or {"rate_mbps": RATE_MBPS}
    return LinkSpec(rtt_ms=rtt_ms, buffer_pkts=round(products * bdp_pkts(rtt_ms)), **rate)


def halved(rtt_ms: float, products: float) -> LinkSpec:
    """The link of section IX: its capacity falls to half."""
    steps = (RateStep(at_s=0, rate_mbps=RATE_MBPS), RateStep(at_s=CHANGE_S, rate_mbps=RATE_MBPS / 2))
    return link(rtt_ms, products, steps=steps)


def run_one(
    cca: Cca, scenario_link: LinkSpec, *, duration_s: float, window_pkts: int | None = None, **params: int
) -> QoS:
    """One greedy flow, with samples over time."""
    receiver = ReceiverSpec(window_bytes=None if window_pkts is None else window_pkts * 1448)
    flow = FlowSpec(cca=cca, params=params, receiver=receiver)
    return simulate(Scenario(link=scenario_link, flows=(flow,), duration_s=duration_s), series_every_s=EVERY_S)


def column(qos: QoS, name: str, start_s: float, end_s: float) -> NDArray[np.float64]:
    """A column of the samples in (start_s, end_s]."""
    time_s = qos.series["time_s"]
    return qos.series[name][(time_s > start_s) & (time_s <= end_s)]


def smoothed_ms(samples_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """RFC 6298's smoothed RTT, of these samples."""
    smoothed = np.empty_like(samples_ms)
    last = samples_ms[0]
    for i, sample in enumerate(samples_ms):
        last = last * 7 / 8 + sample / 8
        smoothed[i] = last
    return smoothed


# --- section III: the frozen window ------------------------------------------------------------------


@pytest.mark.parametrize("window_pkts", [600, 1200])
@pytest.mark.parametrize("hystart", [0, 1])
def test_cubic_keeps_a_window_that_is_too_large_and_roccet_leaves_it(window_pkts: int, hystart: int) -> None:
    """60 s over a buffer that nothing overflows: what the receiver takes is all that bounds a loss-based window.

    Section III: "the cwnd is frozen at a value that is too high", in slow start and in congestion avoidance.
    """
    deep = link(30, 64)
    cubic = run_one("cubic", deep, duration_s=60, window_pkts=window_pkts, hystart=hystart)
    roccet = run_one("roccet", deep, duration_s=60, window_pkts=window_pkts)
    frozen = column(cubic, "cwnd_pkts", 10, 60)
    assert frozen.min() == frozen.max() > window_pkts
    assert column(cubic, "rtt_ms", 10, 60).min() == pytest.approx(window_pkts * 0.24, rel=0.01)
    assert column(roccet, "cwnd_pkts", 5, 60).max() < 2.5 * bdp_pkts(30)
    assert np.median(smoothed_ms(column(roccet, "rtt_ms", 5, 60))) < 2.1 * 30
    assert column(roccet, "rate_mbps", 5, 60).mean() > 0.99 * column(cubic, "rate_mbps", 5, 60).mean()
    assert roccet.retransmission_rate == 0


def test_slow_start_ends_without_a_loss() -> None:
    """Section III: CUBIC's slow start has to fill the buffer, however large. LAUNCH leaves it within half a second."""
    qos = run_one("roccet", link(30, 64), duration_s=5)
    modes = column(qos, "mode", 0.5, 5)
    assert set(modes) == {1}
    assert qos.retransmission_rate == 0
    assert column(qos, "cwnd_pkts", 0, 5).max() < 8 * bdp_pkts(30)


@pytest.mark.parametrize("products", [0.25, 0.5, 1])
def test_slow_start_ends_by_losses_where_the_buffer_is_short(products: float) -> None:
    """srRTT does not reach 100 % there: if every loss were ignored, a quarter of all packets would be lost."""
    qos = run_one("roccet", link(30, products), duration_s=30)
    assert qos.retransmission_rate < 0.01
    assert qos.utilization > 0.95


# --- section IX: the capacity halves ------------------------------------------------------------------


@pytest.mark.parametrize("products", [4, 8])
@pytest.mark.parametrize("rtt_ms", [30, 40])
def test_round_trips_behind_a_halved_capacity_are_much_shorter_than_cubics(rtt_ms: float, products: float) -> None:
    """Section IX: for CUBIC "the goodput gets halved and the sRTT increases. This behavior gets solved by ROCCET"."""
    cubic, roccet = (run_one(cca, halved(rtt_ms, products), duration_s=35) for cca in ("cubic", "roccet"))
    medians_ms = [np.median(smoothed_ms(column(qos, "rtt_ms", CHANGE_S + 1, 35))) for qos in (cubic, roccet)]
    before_ms, after_ms = (np.median(smoothed_ms(column(cubic, "rtt_ms", a, b))) for a, b in ((5, 15), (16, 35)))
    assert after_ms > 1.5 * before_ms
    assert medians_ms[1] < 0.4 * medians_ms[0]
    assert medians_ms[1] < 2.4 * rtt_ms
    rates = [column(qos, "rate_mbps", CHANGE_S, 35).mean() for qos in (cubic, roccet)]
    assert rates[1] > 0.9 * rates[0]
    assert column(roccet, "retransmitted_pkts", 5, 35).sum() == 0


def test_several_events_answer_the_change_and_some_the_probing_behind_it() -> None:
    """Section IX: "several CEs after the bandwidth of the link is halved", and more "while bandwidth probing"."""
    qos = run_one("roccet", halved(30, 8), duration_s=35)
    assert 2 <= events(qos, CHANGE_S, CHANGE_S + 2) <= 8
    assert events(qos, 20, 35) >= 2


def events(qos: QoS, start_s: float, end_s: float) -> int:
    """Times that the window fell by more than a tenth between two samples."""
    windows = column(qos, "cwnd_pkts", start_s, end_s)
    return int(np.sum(windows[1:] < 0.9 * windows[:-1]))


@pytest.mark.parametrize("rtt_ms", [30, 40])
def test_windows_are_as_large_as_bbr3s(rtt_ms: float) -> None:
    """Section IX: "both algorithms provide a nearly equal-sized cwnd before the bandwidth reduction"."""
    medians = [np.median(column(run_one(cca, link(rtt_ms, 8), duration_s=20), "cwnd_pkts", 5, 20))
               for cca in ("roccet", "bbr3")]  # fmt: skip
    assert medians[0] == pytest.approx(medians[1], rel=0.2)


# --- choices: what the other reading would give ---------------------------------------------------------


def test_by_the_smoothed_round_trip_a_full_window_is_never_left() -> None:
    """The clock of the ACKs gives back the windows that it is compared with: ROCCET is then CUBIC."""
    qos = run_one("roccet", halved(40, 8), duration_s=35, round_rtt=1)
    assert np.median(column(qos, "rtt_ms", CHANGE_S + 1, 35)) > 8 * 40


def test_with_the_figures_sign_slow_start_is_not_left() -> None:
    """Fig. 3's LAUNCH asks for more ACKs than windows: the receiver's window, or an overflow, is what ends it."""
    qos = run_one("roccet", link(30, 64), duration_s=20, window_pkts=600, ack_sense=1)
    assert set(column(qos, "mode", 1, 20)) == {0}
    assert column(qos, "cwnd_pkts", 10, 20).min() == 1200


def test_with_either_sign_the_run_is_the_same_here() -> None:
    """ACKs are beyond the windows only below a BDP, where srRTT is small: the text's deviation adds nothing."""
    either, default = (run_one("roccet", halved(30, 8), duration_s=35, ack_sense=sense) for sense in (2, 0))
    assert np.array_equal(either.series["cwnd_pkts"], default.series["cwnd_pkts"])


# --- the rest ---------------------------------------------------------------------------------------------


def test_stretched_acks_hardly_matter() -> None:
    medians_ms = {}
    for count in (1, 2, 16):
        receiver = ReceiverSpec(ack_every=count, stretch_pkts=count)
        flow = FlowSpec(cca="roccet", receiver=receiver)
        qos = simulate(Scenario(link=link(30, 16), flows=(flow,), duration_s=30), series_every_s=EVERY_S)
        assert qos.utilization > 0.98
        medians_ms[count] = np.median(column(qos, "rtt_ms", 5, 30))
    assert medians_ms[16] == pytest.approx(medians_ms[1], rel=0.1)


def test_losses_at_random_stop_it_as_they_stop_cubic_unless_they_are_ignored() -> None:
    lossy = link(40, 2, rate_mbps=20.0, loss=0.01)
    default, ignoring = (run_one("roccet", lossy, duration_s=40, ignore_loss=flag) for flag in (0, 1))
    assert default.utilization < 0.3
    assert ignoring.utilization > 0.95
    assert ignoring.retransmission_rate < 0.015
    assert np.median(column(ignoring, "rtt_ms", 5, 40)) < 2.2 * 40


@pytest.mark.parametrize("products", [1, 4])
def test_two_flows_that_start_together_share_a_link(products: float) -> None:
    """Section VIII: "nearly an equal throughput share with other ROCCET flows"."""
    flow = FlowSpec(cca="roccet")
    qos = run(flow, flow, link=link(30, products), duration_s=120, warmup_s=20)
    assert qos.fairness > 0.9
    assert qos.utilization > 0.98


def test_cubic_pushes_it_out_of_a_deep_buffer() -> None:
    """Section VIII: CUBIC shares a buffer of one BDP equally, and takes more where it is larger."""
    flows = (FlowSpec(cca="roccet"), FlowSpec(cca="cubic", start_s=1))
    short, deep = (run(*flows, link=link(30, products), duration_s=60, warmup_s=10) for products in (1, 4))
    assert short.fairness > 0.95
    assert deep.flows[0].goodput_mbps < 0.2 * deep.flows[1].goodput_mbps


def table(*, hold_back_permille: int = 0) -> str:
    """Throughput in steps of 5 Mbit/s by minimum RTT below and from 20 ms: from there on the bound is very large."""
    axes = (Axis("throughput_bytes_per_s", "linear", 625_000, 4), Axis("min_rtt_us", "linear", 20_000, 2))
    ensemble = ensemble_of(((20,), (900,)) * 4, cca="roccet", columns=("srrtt_bound_pct",), axes=axes)
    return table_of(ensemble, hold_back_permille=hold_back_permille)


def with_table(rtt_ms: float, **flow: Any) -> QoS:
    """A flow over 12 Mbit/s and ten BDP, measured behind its slow start."""
    path = LinkSpec(rate_mbps=12, rtt_ms=rtt_ms, buffer_pkts=round(10 * rtt_ms))
    spec = FlowSpec(cca="roccet", **flow)
    return simulate(Scenario(link=path, flows=(spec,), duration_s=30, warmup_s=5))


def test_a_flow_is_on_the_row_of_its_throughput_and_minimum_rtt() -> None:
    for rtt_ms, second in ((10, 0), (40, 1)):
        turns = with_table(rtt_ms, ensemble_text=table()).flows[0].epoch_ends
        assert [turn.epoch for turn in turns] == list(range(1, len(turns) + 1))
        for turn in turns[1:]:
            assert turn.state == min(turn.measured_bytes_per_s // 625_000, 3) * 2 + second


def test_the_row_decides_and_a_flow_that_is_held_back_goes_without() -> None:
    plain = with_table(40).mean_queueing_delay_ms
    assert with_table(40, ensemble_text=table()).mean_queueing_delay_ms > 2 * plain
    assert with_table(40, ensemble_text=table(hold_back_permille=1000)).mean_queueing_delay_ms == plain
    # On the shorter path the same table has a bound below the default's.
    assert with_table(10, ensemble_text=table()).mean_queueing_delay_ms < with_table(10).mean_queueing_delay_ms

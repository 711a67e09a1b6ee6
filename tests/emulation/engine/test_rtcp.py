# SPDX-License-Identifier: MIT
"""R-TCP in the simulator: behind operator 1's policer (R-TCP 2026, Table 1), and on links without a limit."""

from __future__ import annotations

from itertools import pairwise

import pytest

from emulation import (
    AccessLink,
    FlowSpec,
    Jitter,
    LimitEstimate,
    LinkSpec,
    Policer,
    QoS,
    RateStep,
    Scenario,
    SteppedPolicer,
    simulate,
)
from emulation.scenario.model import MSS_BYTES, Cca, Transfer
from emulation.scenario.path import BucketOwner
from kmod.ensemble import Axis
from tests.emulation.tables import ensemble_of, table_of

RATE_MBPS = 2.07
BUCKET_BYTES = 733_000
PAYLOAD = MSS_BYTES / 1500  # of what the policer counts
PAIRS: tuple[tuple[Cca, Cca], ...] = (("cubic", "rtcp_cubic"), ("bbr", "rtcp_bbr"), ("bbr3", "rtcp_bbr3"))
RTCP: tuple[Cca, ...] = tuple(pair[1] for pair in PAIRS)


def policed(flow: FlowSpec, *, seed: int = 0, duration_s: float = 70.0) -> QoS:
    """A flow through operator 1; the access rate of 50 Mbit/s is ours."""
    policer = Policer(rate_mbps=RATE_MBPS, bucket_bytes=BUCKET_BYTES)
    link = LinkSpec(rate_mbps=50, rtt_ms=36, before=(policer,), behind=(Jitter(max_ms=2),))
    return simulate(Scenario(link=link, flows=(flow,), duration_s=duration_s, seed=seed))


def found(qos: QoS) -> tuple[LimitEstimate, ...]:
    """Limits that were found, leaving out when detection began."""
    return tuple(limit for limit in qos.flows[0].limits if limit.kind != "unknown")


def is_operator_1(limit: LimitEstimate) -> bool:
    """Within 5 % of R and 10 % of B, in payload."""
    return (
        limit.kind == "limited"
        and limit.bytes_per_s == pytest.approx(RATE_MBPS * 125_000 * PAYLOAD, rel=0.05)
        and limit.bucket_bytes == pytest.approx(BUCKET_BYTES * PAYLOAD, rel=0.1)
    )


@pytest.mark.parametrize(("plain", "capped"), PAIRS)
def test_a_file_of_8_mb_is_sent_again_less_at_the_same_goodput(plain: Cca, capped: Cca) -> None:
    """What the bucket's end costs comes before any detection; what is left to save is most of the rest."""
    sent_again, time_s = {}, {}
    for cca in (plain, capped):
        runs = [policed(FlowSpec(cca=cca, size_bytes=8_000_000), seed=seed) for seed in range(3)]
        sent_again[cca] = sum(qos.flows[0].retransmission_rate for qos in runs)
        time_s[cca] = sum(qos.flows[0].complete_s or 1e9 for qos in runs)
        if cca == capped:
            assert all(is_operator_1(qos.flows[0].limits[-1]) for qos in runs)
    assert sent_again[capped] < 0.85 * sent_again[plain]
    assert time_s[capped] < time_s[plain] / 0.95


@pytest.mark.parametrize("cca", RTCP)
def test_a_file_within_the_bucket_is_left_alone(cca: Cca) -> None:
    qos = policed(FlowSpec(cca=cca, size_bytes=500_000))
    assert qos.flows[0].limits == ()
    assert qos.retransmission_rate == 0


@pytest.mark.parametrize("cca", RTCP)
def test_the_limit_is_found_in_one_of_several_transfers(cca: Cca) -> None:
    """The first ones end before their estimate can be one: at 2 t_h and ten round trips.

    So soon the rate is known to 2 Omega / t: with Omega 53 KB and t 6 s, 7 % of R.
    """
    transfers = (Transfer(size_bytes=400_000, count=3), Transfer(size_bytes=2_500_000, gap_s=3, count=3))
    qos = policed(FlowSpec(cca=cca, transfers=transfers))
    assert qos.flows[0].limits[-1].kind == "limited"
    assert qos.flows[0].limits[-1].bytes_per_s == pytest.approx(RATE_MBPS * 125_000 * PAYLOAD, rel=0.08)


@pytest.mark.parametrize("buffer_pkts", [30, 300])
@pytest.mark.parametrize(("plain", "capped"), PAIRS)
def test_a_link_without_a_limit_is_never_taken_for_limited(plain: Cca, capped: Cca, buffer_pkts: int) -> None:
    """And an R-TCP that has found nothing is what it stands on: the same run, packet by packet."""
    for loss in (0.0, 0.02):
        link = LinkSpec(rate_mbps=20, rtt_ms=45, buffer_pkts=buffer_pkts, loss=loss)
        plain_qos, capped_qos = (
            simulate(Scenario(link=link, flows=(FlowSpec(cca=cca),), duration_s=20)) for cca in (plain, capped)
        )
        assert found(capped_qos) == ()
        if capped != "rtcp_bbr":  # whose own detector is reset where the rate falls
            assert capped_qos.sent == plain_qos.sent


@pytest.mark.parametrize("cca", RTCP)
def test_a_slow_link_is_no_limiter(cca: Cca) -> None:
    steps = (RateStep(at_s=0, rate_mbps=2), RateStep(at_s=20, rate_mbps=40))
    link = LinkSpec(rate_mbps=100, rtt_ms=40, before=(AccessLink(steps=steps, buffer_pkts=50),))
    qos = simulate(Scenario(link=link, flows=(FlowSpec(cca=cca),), duration_s=25))
    assert found(qos) == ()


@pytest.mark.parametrize("cca", RTCP)
def test_results_tell_when_detection_began(cca: Cca) -> None:
    """At 7 rounds of 36 ms and more behind the first loss, and at least epsilon rounds before it found the limit."""
    began, first, *_ = policed(FlowSpec(cca=cca, size_bytes=8_000_000), duration_s=5).flows[0].limits
    assert (began.kind, began.bucket_bytes, began.bytes_per_s) == ("unknown", 0, 0)
    assert first.kind == "limited"
    assert first.at_ms - began.at_ms >= 10 * 36
    assert began.at_ms >= 7 * 36


def test_results_tell_when_a_limiter_is_forgotten() -> None:
    """Two percent of random loss make BBRv1 meet the new limit by loss; ten rounds above the cap release it."""
    steps = (RateStep(at_s=0, rate_mbps=2), RateStep(at_s=20, rate_mbps=40))
    link = LinkSpec(rate_mbps=100, rtt_ms=40, loss=0.02, before=(SteppedPolicer(steps=steps, bucket_bytes=250_000),))
    qos = simulate(Scenario(link=link, flows=(FlowSpec(cca="rtcp_bbr"),), duration_s=30, seed=3))
    forgotten = [after for before, after in pairwise(qos.flows[0].limits)
                 if (before.kind, after.kind) == ("limited", "unknown")]  # fmt: skip
    assert forgotten
    assert {(limit.bucket_bytes, limit.bytes_per_s) for limit in forgotten} == {(0, 0)}
    assert all(limit.at_ms > 20_000 for limit in forgotten)


# --- parameters


OUTAGE = (RateStep(at_s=0, rate_mbps=50), RateStep(at_s=5, rate_mbps=0.01), RateStep(at_s=7, rate_mbps=50))
PATHS = {
    "policer-20": {"rtt_ms": 20},
    "policer-250": {"rtt_ms": 250},
    "bunched": {"rtt_ms": 36, "acks": {"interval_ms": 30}},
    "jitter": {"rtt_ms": 36, "behind": (Jitter(max_ms=20),)},
    "outage": {"rtt_ms": 36, "loss": 0.01, "behind": (AccessLink(steps=OUTAGE, buffer_pkts=100),)},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("plain", "capped"), PAIRS)
def test_an_observer_sends_the_packets_of_its_base(plain: Cca, capped: Cca, path: str) -> None:
    policer = Policer(rate_mbps=RATE_MBPS, bucket_bytes=BUCKET_BYTES)
    link = LinkSpec.model_validate({"rate_mbps": 50, "before": (policer,), **PATHS[path]})
    flows = (FlowSpec(cca=plain), FlowSpec(cca=capped, params={"act": 0}))
    runs = [simulate(Scenario(link=link, flows=(flow,), duration_s=15), series_every_s=0.01) for flow in flows]
    first, second = ({name: column.tolist() for name, column in run.series.items()} for run in runs)
    assert first == second
    assert runs[0].sent == runs[1].sent
    if path == "policer-20":
        assert is_operator_1(runs[1].flows[0].limits[-1])


def test_gamma_and_eta_matter_with_the_papers_probing() -> None:
    """Table 6 behind operator 3: gamma 10 instead of 25 % saves a third, eta 25 instead of 15 a tenth or more."""
    policer = Policer(rate_mbps=1.04, bucket_bytes=223_000)
    link = LinkSpec(rate_mbps=50, rtt_ms=21, before=(policer,), behind=(Jitter(max_ms=2),))

    def rate(eta: int, gamma: int) -> float:
        params = {"probing": 1, "probe_every_rounds": eta, "probe_gain_permille": gamma}
        flow = FlowSpec(cca="rtcp_bbr", size_bytes=8_000_000, params=params)
        runs = [simulate(Scenario(link=link, flows=(flow,), duration_s=90, seed=seed)) for seed in range(3)]
        return sum(qos.flows[0].retransmission_rate for qos in runs)

    assert rate(15, 100) < 0.8 * rate(15, 250)
    assert rate(25, 250) < 0.95 * rate(15, 250)


# --- several connections to a client


def behind_operator_1(*flows: FlowSpec, per: BucketOwner = "client", seed: int = 0, **more: float) -> QoS:
    """Flows through operator 1's policer."""
    policer = Policer(rate_mbps=RATE_MBPS, bucket_bytes=BUCKET_BYTES, per=per)
    link = LinkSpec(rate_mbps=50, rtt_ms=36, before=(policer,), behind=(Jitter(max_ms=2),))
    return simulate(Scenario.model_validate({"link": link, "flows": flows, "duration_s": 70, "seed": seed, **more}))


def two_files(cca: Cca, *, client: str = "client", keep_s: float = 600.0) -> QoS:
    """4 MB, 5 s of silence, and 4 MB on a connection of their own."""
    first = FlowSpec(cca=cca, size_bytes=4_000_000)
    second = FlowSpec(cca=cca, size_bytes=4_000_000, after=0, start_s=5, client=client)
    return behind_operator_1(first, second, client_keep_s=keep_s)


@pytest.mark.parametrize(("plain", "capped"), PAIRS)
def test_a_second_connection_knows_the_limit_and_resends_little(plain: Cca, capped: Cca) -> None:
    """R-TCP 2026, section 6.1: up to 88 % less. It is limited from its first ACK on, at no less goodput."""
    before, after = two_files(plain).flows[1], two_files(capped).flows[1]
    assert is_operator_1(after.limits[0])
    assert after.limits[0].at_ms < 1000 * after.transfers[0].start_s + 50
    assert after.retransmission_rate < 0.3 * before.retransmission_rate
    assert after.transfers[0].duration_s is not None
    assert before.transfers[0].duration_s is not None
    assert after.transfers[0].duration_s < before.transfers[0].duration_s / 0.95


def test_a_connection_to_another_client_and_a_forgotten_one_know_nothing() -> None:
    for qos in (
        two_files("rtcp_bbr", client="other"),
        two_files("rtcp_bbr", keep_s=0),
        two_files("rtcp_bbr", keep_s=4),
    ):
        first, second = qos.flows
        assert second.limits[0].kind == "unknown"
        assert second.retransmission_rate > 0.5 * first.retransmission_rate
    kept = two_files("rtcp_bbr", keep_s=6).flows[1]
    assert kept.limits[0].kind == "limited"


@pytest.mark.parametrize("cca", RTCP)
def test_connections_at_a_time_find_one_limit_and_share_it(cca: Cca) -> None:
    """Three with data without end: R within 5 %, and each has about a third of it."""
    flows = [FlowSpec(cca=cca, start_s=0.5 * k) for k in range(3)]
    qos = behind_operator_1(*flows)
    for flow in qos.flows:
        assert is_operator_1(flow.limits[-1])
        assert 0.15 < flow.goodput_mbps / qos.goodput_mbps < 0.55
    assert all(limit.kind != "split" for flow in qos.flows for limit in flow.limits)


@pytest.mark.parametrize("cca", ["rtcp_bbr", "rtcp_bbr3"])
def test_connections_behind_limiters_of_their_own_do_not_slow_each_other_down(cca: Cca) -> None:
    """Two clients behind one address, as a carrier's NAT has it: neither loses speed by what is known of the other."""
    qos = behind_operator_1(FlowSpec(cca=cca), FlowSpec(cca=cca, start_s=15), per="flow")
    assert qos.flows[0].goodput_mbps > 0.95 * RATE_MBPS * PAYLOAD
    assert qos.flows[1].goodput_mbps > 0.95 * RATE_MBPS * PAYLOAD * 55 / 70


@pytest.mark.parametrize("cca", RTCP)
def test_a_lifted_limit_is_left_within_seconds(cca: Cca) -> None:
    """Appendix H: from 2 to 40 Mbit/s at 20 s."""
    steps = (RateStep(at_s=0, rate_mbps=2), RateStep(at_s=20, rate_mbps=40))
    link = LinkSpec(rate_mbps=100, rtt_ms=40, before=(SteppedPolicer(steps=steps, bucket_bytes=250_000),))
    qos = simulate(Scenario(link=link, flows=(FlowSpec(cca=cca),), duration_s=30, warmup_s=23))
    assert qos.goodput_mbps > 20


def table(cca: Cca, *, theta_permille: int = 600, hold_back_permille: int = 0) -> str:
    """Round trips in steps of 20 ms, limits in octaves from 100 kB/s on, all of the same parameters."""
    axes = (Axis("min_rtt_us", "linear", 20_000, 3), Axis("limit_bytes_per_s", "log", 100_000, 3, 1))
    columns, rows = ("reduction_permille", "probe_every_rounds"), ((theta_permille, 40),) * 9
    ensemble = ensemble_of(rows, cca=cca, columns=columns, axes=axes, epoch_ms=5000)
    return table_of(ensemble, hold_back_permille=hold_back_permille)


@pytest.mark.parametrize("cca", RTCP)
def test_a_flow_is_on_the_row_of_its_round_trip_and_limit(cca: Cca) -> None:
    flow = policed(FlowSpec(cca=cca, size_bytes=4_000_000, ensemble_text=table(cca))).flows[0]
    limited_ms = next(limit.at_ms for limit in flow.limits if limit.kind == "limited")
    assert [turn.epoch for turn in flow.epoch_ends] == list(range(1, len(flow.epoch_ends) + 1))
    # 36 ms is of the second level, 250 kB/s of the second octave.
    assert {turn.state for turn in flow.epoch_ends if turn.at_ms < limited_ms} == {3}
    assert {turn.state for turn in flow.epoch_ends if turn.at_ms >= limited_ms} == {4}
    assert any(turn.at_ms == limited_ms for turn in flow.epoch_ends)


@pytest.mark.parametrize("cca", RTCP)
def test_theta_is_that_of_the_row_unless_the_flow_is_held_back(cca: Cca) -> None:
    texts = {share: table(cca, theta_permille=50, hold_back_permille=share) for share in (0, 1000)}
    kinds = {
        share: [limit.kind for limit in found(policed(FlowSpec(cca=cca, size_bytes=4_000_000, ensemble_text=text)))]
        for share, text in texts.items()
    }
    assert kinds[0] == []
    assert kinds[1000][0] == "limited"

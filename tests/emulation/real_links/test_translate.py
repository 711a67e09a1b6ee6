# SPDX-License-Identifier: MIT
"""From a Scenario to a job: closed-form times, and every refusal by the field's and the runner's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import Field

from emulation.errors import EmulationError
from emulation.mahimahi.namespace.policer import police, rules
from emulation.mahimahi.translate import (
    Runner,
    ack_opportunities_ms,
    check_fields,
    files_in_bpf,
    link_opportunities_ms,
    to_job,
)
from emulation.run.simulator import simulate
from emulation.scenario.delays import BaseDelay, DelayStep
from emulation.scenario.model import Cca, FlowSpec, LinkSpec, ProxySpec, Scenario, Transfer
from emulation.scenario.path import AckPath, LinkRate, Policer, RandomLoss, RateStep
from emulation.traces import Trace

HOST = Runner(name="mahimahi", algorithms={"reno": "reno", "cubic": "cubic", "bbr": "bbr"})
GUEST = Runner(name="vm", algorithms={"gr": "gr", "reno": "guests_reno"}, tunable=frozenset({"gr"}), lead_ms=8000)


def scenario(link: dict[str, Any] | None = None, *flows: FlowSpec, **fields: Any) -> Scenario:
    """A short one over 12 Mbit/s."""
    chosen = LinkSpec(**{"rate_mbps": 12, "rtt_ms": 40, **(link or {})})
    return Scenario(name="it", link=chosen, flows=flows or (FlowSpec(cca="reno"),), **{"duration_s": 2, **fields})


def test_twelve_mbps_is_an_opportunity_a_ms() -> None:
    assert link_opportunities_ms(LinkSpec(rate_mbps=12), 5).tolist() == [1, 2, 3, 4, 5]


def test_a_rate_between_comes_at_the_next_ms_and_never_early() -> None:
    # 20 Mbit/s: 0.6 ms each, at 0.6, 1.2, 1.8, 2.4, 3.0.
    assert link_opportunities_ms(LinkSpec(rate_mbps=20), 3).tolist() == [1, 2, 2, 3, 3]


@pytest.mark.parametrize("rate_mbps", [0.5, 1, 5, 12, 20, 50, 333])
def test_a_rate_offers_what_it_says(rate_mbps: float) -> None:
    times = link_opportunities_ms(LinkSpec(rate_mbps=rate_mbps), 60_000)
    assert len(times) == int(rate_mbps * 60e6 / 12_000 + 1e-6)
    assert (np.diff(times) >= 0).all()
    assert times[-1] <= 60_000


def test_a_trace_begins_where_it_is_told_and_starts_anew() -> None:
    trace = Trace("t", np.array([10, 30, 100], dtype=np.uint32), 100)
    link = LinkSpec(trace=trace, start_ms=20)
    assert link_opportunities_ms(link, 200).tolist() == [10, 80, 90, 110, 180, 190]


def test_a_trace_offers_what_the_simulator_counts() -> None:
    times = np.sort(np.random.default_rng(1).integers(1, 5000, 3000)).astype(np.uint32)
    trace = Trace("t", times, 5000)
    counted = len(link_opportunities_ms(LinkSpec(trace=trace, start_ms=700), 12_000))
    assert counted * 1500 == trace.capacity_bytes(701, 12_701)


def test_steps_carry_packets_at_their_rates_and_none_in_an_outage() -> None:
    # 1.5 packets in the first 30 ms; then none, until the other half needs half a ms.
    steps = RateStep(at_s=0, rate_mbps=0.6), RateStep(at_s=0.03, rate_mbps=0), RateStep(at_s=20, rate_mbps=12)
    link = LinkSpec(steps=steps)
    assert link_opportunities_ms(link, 20_003).tolist() == [20, 20_001, 20_002, 20_003]
    # As many as the simulator counts.
    other = [RateStep(at_s=at_s, rate_mbps=mbps) for at_s, mbps in ((0, 7), (0.9, 0), (1.1, 0.3), (2.05, 61))]
    run = Scenario(link=LinkSpec(steps=tuple(other)), flows=(FlowSpec(cca="reno"),), duration_s=3)
    assert len(link_opportunities_ms(run.link, 3000)) == int(simulate(run).capacity_mbps * 3e6 / 12_000)


def acks_ms(link: LinkSpec, end_ms: int) -> list[int]:
    times = ack_opportunities_ms(link, end_ms)
    assert times is not None
    return times.tolist()


def test_acks_leave_at_the_multiples_of_their_interval() -> None:
    assert ack_opportunities_ms(LinkSpec(rate_mbps=12), 100) is None
    assert acks_ms(LinkSpec(rate_mbps=1, acks=AckPath(interval_ms=40)), 125) == [40, 80, 120]
    assert acks_ms(LinkSpec(rate_mbps=1, acks=AckPath(interval_ms=2.5)), 10) == [3, 5, 8, 10]


@pytest.mark.parametrize(("rate_mbps", "interval_ms"), [(500, 40), (60, 5), (12, 1000)])
def test_a_burst_has_room_for_the_acks_of_two_intervals(rate_mbps: float, interval_ms: int) -> None:
    """An opportunity of 1504 bytes carries 17 of the largest ACKs, of 84 bytes."""
    times = acks_ms(LinkSpec(rate_mbps=rate_mbps, acks=AckPath(interval_ms=interval_ms)), 5000)
    bursts_ms, lines = np.unique(times, return_counts=True)
    assert (bursts_ms % interval_ms == 0).all()
    assert (lines[1:] * 17 >= 2 * int(rate_mbps / 12 * interval_ms)).all()


def test_a_burst_behind_a_fast_piece_still_has_room_for_its_acks() -> None:
    trace = Trace("t", np.repeat([10, 100], [400, 1]).astype(np.uint32), 100)
    times = acks_ms(LinkSpec(trace=trace, acks=AckPath(interval_ms=10)), 40)
    assert np.unique(times, return_counts=True)[1].tolist() == [1 + 400 // 17, 1 + 400 // 17, 1, 1]


def test_an_uplink_is_served_as_the_link_is() -> None:
    uplink = LinkRate(steps=(RateStep(at_s=0, rate_mbps=4), RateStep(at_s=0.006, rate_mbps=12)))
    assert acks_ms(LinkSpec(rate_mbps=50, acks=AckPath(uplink=uplink)), 9) == [3, 6, 7, 8, 9]
    trace = Trace("t", np.array([10, 30], dtype=np.uint32), 30)
    uplink = LinkRate(trace=trace, start_ms=20)
    assert acks_ms(LinkSpec(rate_mbps=50, acks=AckPath(uplink=uplink)), 50) == [10, 20, 40, 50]


def test_a_job_says_what_the_scenario_says() -> None:
    objects = Transfer(size_bytes=500, gap_s=0.5, count=3), Transfer(size_bytes=7)
    flows = (
        FlowSpec(cca="cubic", start_s=0.5, stop_s=1.5),
        FlowSpec(cca="bbr", size_bytes=10_000),
        FlowSpec(cca="bbr", transfers=objects),
    )
    job = to_job(scenario({"buffer_pkts": 50, "loss": 0.01}, *flows), HOST)
    assert job["delay_ms"] == 20
    assert job["queue"] == {"packets": 50, "bytes": None}
    assert job["loss"] == 0.01
    assert job["ack_opportunities_ms"] is None
    assert job["lead_ms"] == 1000 + 6 * 40
    assert job["flows"] == [
        {"cca": "cubic", "priority": 0, "start_s": 0.5, "stop_s": 1.5, "transfers": []},
        {"cca": "bbr", "priority": 0, "start_s": 0.0, "stop_s": None, "transfers": [[10_000, 0.0, 1]]},
        {"cca": "bbr", "priority": 0, "start_s": 0.0, "stop_s": None, "transfers": [[500, 0.5, 3], [7, 0.0, 1]]},
    ]
    assert job["writes"] == []
    assert job["policers"] == {"before": [], "behind": []}


def test_delays_over_time_come_as_a_file_of_one_direction(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = DelayStep(at_s=0, rtt_ms=25), DelayStep(at_s=15, rtt_ms=61)
    link = LinkSpec(rate_mbps=12, delays=BaseDelay(steps=steps, period_s=30))
    asked = Scenario(name="it", link=link, flows=(FlowSpec(cca="reno"),), duration_s=2)
    shell = tmp_path / "delay-shell"
    monkeypatch.setattr("emulation.mahimahi.translate.DELAY_SHELL", shell)
    with pytest.raises(EmulationError, match=r"it: link\.delays: the runner mahimahi needs .*run `make build`"):
        to_job(asked, HOST)
    shell.touch()
    job = to_job(asked, HOST)
    assert job["delays"] == {
        "shell": str(shell),
        "trace": "0.000000 12.500000\n15000.000000 30.500000\n30000.000000\n",
    }
    assert job["lead_ms"] == 1000 + 6 * 62
    assert to_job(scenario(), HOST)["delays"] is None


def test_bytes_of_a_buffer_are_counted_as_mm_link_counts_them() -> None:
    job = to_job(scenario({"buffer_pkts": None, "buffer_bytes": 150_000}), HOST)
    assert job["queue"] == {"packets": None, "bytes": 150_400}


def test_parameters_and_ensemble_go_to_the_namespace_s_own_files() -> None:
    flow = FlowSpec(cca="gr", params={"cwnd_gain_pct": 200}, ensemble_text="the table\n", delay_class=1)
    job = to_job(scenario(None, flow), GUEST)
    assert job["flows"][0]["priority"] == 2
    assert job["writes"] == [
        ("/proc/self/net/ccatune/gr/settings", "follow_initial 0\n"),
        ("/proc/self/net/ccatune/gr/parameters", "cwnd_gain_pct 200\n"),
        ("/proc/self/net/ccatune/gr/ensemble", "the table\n"),
    ]


OP1 = Policer(rate_mbps=2.07, bucket_bytes=733_000)


def split(link: dict[str, Any] | None = None, *flows: FlowSpec, cca: Cca = "cubic") -> Scenario:
    proxy = ProxySpec(link=LinkSpec(**{"rate_mbps": 30, "rtt_ms": 20, **(link or {})}), cca=cca)
    return scenario(None, *flows).model_copy(update={"proxy": proxy})


def test_a_proxy_has_the_algorithms_of_the_flows_and_the_servers_their_own() -> None:
    runner = replace(HOST, haproxy="/usr/sbin/haproxy")
    job = to_job(split({"buffer_pkts": 70}, FlowSpec(cca="bbr", size_bytes=9), FlowSpec(cca="reno")), runner)
    assert [flow["cca"] for flow in job["flows"]] == ["cubic", "cubic"]
    assert job["flows"][0]["transfers"] == [[9, 0.0, 1]]
    assert job["proxy"]["algorithms"] == ["bbr", "reno"]
    assert job["proxy"]["path"]["queue"] == {"packets": 70, "bytes": None}
    # 30 Mbit/s are 5 packets in 2 ms, and the trace repeats.
    assert job["proxy"]["path"]["opportunities_ms"][:5] == [1, 1, 2, 2, 2]
    assert job["proxy"]["path"]["opportunities_ms"][-1] == 12_000
    assert job["lead_ms"] == 1000 + 6 * (40 + 20)


def test_a_class_of_flows_through_a_proxy_is_the_default_of_the_algorithm() -> None:
    runner = replace(GUEST, haproxy="/usr/sbin/haproxy")
    flows = [FlowSpec(cca="gr", ensemble_text="t\n", delay_class=number) for number in (1, 1, 2)]
    job = to_job(split(None, *flows[:2], cca="reno"), runner)
    assert job["writes"] == []
    assert job["proxy"]["writes"][1:] == [
        ("/proc/self/net/ccatune/gr/ensemble", "t\n"),
        ("/proc/self/net/ccatune/gr/settings", "default_class 1\n"),
    ]
    with pytest.raises(EmulationError, match="has one delay_class for all flows of gr, got several"):
        to_job(split(None, *flows, cca="reno"), runner)
    one_for_both = split(None, flows[0], cca="gr")
    with pytest.raises(EmulationError, match=r"proxy\.params: .* has one set for gr of the servers and of the proxy"):
        files_in_bpf(one_for_both, replace(runner, in_bpf=frozenset({"gr"})))


def test_what_a_proxy_over_mahimahi_cannot_do_is_refused_by_name() -> None:
    with pytest.raises(EmulationError, match=r"it: proxy: the runner vm has no HAProxy; use the runner mahimahi"):
        to_job(split(None, FlowSpec(cca="bbr")), replace(HOST, name="vm"))
    runner = replace(HOST, haproxy="/usr/sbin/haproxy")
    with pytest.raises(EmulationError, match=r"it: proxy\.link\.acks: .* cannot do that yet"):
        to_job(split({"acks": {"interval_ms": 10}}, FlowSpec(cca="bbr")), runner)
    with pytest.raises(EmulationError, match=r"it: flows\.0\.stop_s: .* cannot do that yet, got 1\.0"):
        to_job(split(None, FlowSpec(cca="bbr", stop_s=1)), runner)


def test_a_policer_s_bucket_is_whole_packets_and_its_rate_packets_a_day() -> None:
    # 2.07 Mbit/s are 172.5 packets a second; 733 kB are 488.67 packets.
    expected = {"rate_pkts_per_day": 172.5 * 86400, "bucket_pkts": 488, "buckets": [[0]]}
    last = Policer(rate_mbps=0.001, bucket_bytes=1500)
    job = to_job(scenario({"before": (OP1, last), "behind": (OP1,)}), HOST)
    least = {"at": 1, "rate_pkts_per_day": 7200, "bucket_pkts": 1, "buckets": [[0]]}
    assert job["policers"] == {"before": [{"at": 0, **expected}, least], "behind": [{"at": 0, **expected}]}


def test_flows_of_a_client_share_a_bucket_unless_each_has_its_own() -> None:
    flows = [FlowSpec(cca="reno", client=client) for client in "aba"]
    shared = scenario({"before": (OP1, OP1.model_copy(update={"per": "flow"}))}, *flows)
    buckets = [policer["buckets"] for policer in to_job(shared, HOST)["policers"]["before"]]
    assert buckets == [[[0, 2], [1]], [[0], [1], [2]]]


def test_an_element_other_than_a_policer_is_refused_by_its_place() -> None:
    asked = scenario({"before": (OP1, RandomLoss(share=0.1))})
    with pytest.raises(EmulationError, match=r"it: link\.before\.1: the runner mahimahi takes policers alone, .*loss"):
        to_job(asked, HOST)


def test_rules_police_data_by_bucket_and_count_each_flow() -> None:
    policer = {"at": 3, "rate_pkts_per_day": 7200, "bucket_pkts": 9, "buckets": [[0, 2], [1]]}
    lines = rules([policer], hook="forward", port=100).splitlines()
    assert "type filter hook forward priority 0" in lines[1]
    assert lines[2].endswith("meta length <= 80 accept")
    assert [line for line in lines if "limit" in line] == [
        "add rule ip ccatune police tcp sport { 100, 102 } limit rate over 7200/day burst 9 packets drop",
        "add rule ip ccatune police tcp sport { 101 } limit rate over 7200/day burst 9 packets drop",
    ]
    counted = [line.rpartition(" ")[2].strip('"') for line in lines if "counter name" in line]
    assert counted == ["in_3_0", "in_3_1", "in_3_2", "out_3_0", "out_3_1", "out_3_2"]


def test_a_machine_without_nftables_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"nft: No such file or directory; install nftables"):
        police([], hook="input", port=1)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"rtt_ms": 41}, r"link\.rtt_ms: the runner mahimahi expected an even whole number of ms, got 41"),
        ({"rtt_ms": 40.5}, r"link\.rtt_ms: .* got 40\.5"),
        ({"rate_mbps": 501}, r"link: the runner mahimahi emulates at most 500 Mbit/s, got 501"),
        ({"rate_mbps": None, "steps": [{"at_s": 0, "rate_mbps": 501}]}, r"link: .* at most 500 Mbit/s, got 501"),
        (
            {"acks": {"interval_ms": 10, "uplink": {"rate_mbps": 2}}},
            r"link\.acks: the runner mahimahi takes interval_ms or uplink, got both; use the simulator",
        ),
        ({"acks": {"uplink": {"rate_mbps": 501}}}, r"link\.acks\.uplink: .* at most 500 Mbit/s, got 501"),
        (
            {"acks": {"uplink": {"rate_mbps": 2, "opportunity_bytes": 3000}}},
            r"link\.acks\.uplink\.opportunity_bytes: the runner mahimahi cannot do that yet, got 3000",
        ),
        ({"opportunity_bytes": 3000}, r"link\.opportunity_bytes: the runner mahimahi cannot do that yet, got 3000"),
    ],
)
def test_a_link_that_mahimahi_cannot_make_is_refused(link: dict[str, Any], words: str) -> None:
    with pytest.raises(EmulationError, match=words):
        to_job(scenario(link), HOST)


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (FlowSpec(), r"flows\.0\.cca: the runner mahimahi has reno, cubic, bbr, got gr"),
        (FlowSpec(cca="fixed", params={"cwnd_pkts": 9}), r"flows\.0\.cca: the runner mahimahi has .*, got fixed"),
    ],
)
def test_an_algorithm_that_the_kernel_lacks_is_refused(flow: FlowSpec, words: str) -> None:
    with pytest.raises(EmulationError, match=words):
        to_job(scenario(None, flow), HOST)


def test_two_parameter_sets_of_one_module_are_refused() -> None:
    flows = FlowSpec(params={"cwnd_gain_pct": 200}), FlowSpec()
    with pytest.raises(EmulationError, match="flows: the runner vm has one params for all flows of gr, got several"):
        to_job(scenario(None, *flows), GUEST)


def test_a_field_that_is_new_in_scenario_is_refused_until_it_is_translated() -> None:
    class NewLink(LinkSpec):
        jitter_ms: float = Field(0.0)
        stages: tuple[int, ...] = Field(default_factory=tuple)

    plain = scenario()
    check_fields(plain.model_copy(update={"link": NewLink(rate_mbps=12)}), HOST)
    for field, value in (("jitter_ms", 3.0), ("stages", (1,))):
        asked = plain.model_copy(update={"link": NewLink(rate_mbps=12, **{field: value})})  # type: ignore[arg-type]
        with pytest.raises(EmulationError, match=rf"it: link\.{field}: the runner mahimahi cannot do that yet"):
            check_fields(asked, HOST)

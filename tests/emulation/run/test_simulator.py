# SPDX-License-Identifier: MIT
"""The simulator against closed forms, itself, and what must not change its results."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from emulation import _engine
from emulation.errors import EmulationError
from emulation.run.jobs import require_current
from emulation.run.measures import Trial, measure
from emulation.run.qos import QoS
from emulation.run.simulator import core_version, simulate
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.scenario.path import Policer
from emulation.traces import Trace
from kmod.ensemble import Axis
from tests.emulation.tables import ensemble_of, table_of


def fixed(cwnd_pkts: int, *, pacing_bytes_per_s: int = 0) -> FlowSpec:
    return FlowSpec(cca="fixed", params={"cwnd_pkts": cwnd_pkts, "pacing_bytes_per_s": pacing_bytes_per_s})


def run_fixed(cwnd_pkts: int, **link: object) -> QoS:
    spec = LinkSpec.model_validate({"rate_mbps": 20, **link})
    return simulate(Scenario(link=spec, flows=(fixed(cwnd_pkts),), duration_s=20, warmup_s=5))


def even_trace(per_ms: int = 2, *, period_ms: int = 1000) -> Trace:
    return Trace("even", np.repeat(np.arange(period_ms, dtype=np.uint32), per_ms), period_ms)


def two_level_text(*, epsilon_pct: int = 0) -> str:
    """A table whose two levels, below and from 1 MB/s on, differ in every class; epsilon 0 looks each level up."""
    axes = (Axis("throughput_bytes_per_s", "linear", 1_000_000, 2),)
    rows = ((10_000,), (120_000,), (20_000,), (160_000,))
    return table_of(ensemble_of(rows, axes=axes, classes_ms=(50, 200), epoch_ms=5000, epsilon_pct=epsilon_pct))


def same(one: QoS, other: QoS) -> bool:
    """Whether two results agree to the last bit."""
    return one.summary() == other.summary() and np.array_equal(one.windows.delay_counts, other.windows.delay_counts)


def test_trace_of_the_same_rate_gives_what_the_constant_link_gives() -> None:
    constant = run_fixed(300, rate_mbps=24)
    traced = simulate(Scenario(link=LinkSpec(trace=even_trace()), flows=(fixed(300),), duration_s=20, warmup_s=5))
    assert traced.capacity_mbps == pytest.approx(24)
    assert traced.throughput_mbps == pytest.approx(constant.throughput_mbps, rel=1e-3)
    assert traced.mean_queueing_delay_ms == pytest.approx(constant.mean_queueing_delay_ms, abs=1.5)


def test_unbounded_buffer_drops_nothing() -> None:
    qos = run_fixed(5000, buffer_pkts=None)
    assert qos.dropped == 0
    assert qos.queueing_delay.percentile_ms(50) > 600


@pytest.mark.parametrize("loss", [0.001, 0.01, 0.1])
def test_random_loss_is_of_the_size_asked_for(loss: float) -> None:
    link = LinkSpec(rate_mbps=20, loss=loss)
    qos = simulate(Scenario(link=link, flows=(fixed(100),), duration_s=20))
    n = qos.simulated_packets
    assert abs(qos.lost_at_random - loss * n) < 5 * np.sqrt(loss * (1 - loss) * n)
    # Each loss is repaired once, and nothing else is sent again; what is in flight at the end (100) may differ.
    assert qos.flows[0].timeouts == 0
    assert abs(qos.flows[0].retransmission_rate * n - qos.lost_at_random) < 100 * loss + 3 * np.sqrt(100 * loss) + 1


def test_measures_are_those_of_single_runs() -> None:
    scenarios = [Scenario(link=LinkSpec(rate_mbps=rate, loss=0.01), duration_s=6, warmup_s=2) for rate in (5, 20)]
    trials = [Trial("gr", {"delay_threshold_us": value}) for value in (10_000, 200_000)] + [Trial("cubic")]
    found, again = (measure(scenarios, trials, threads=threads) for threads in (1, 2))
    for column in fields(found):
        assert np.array_equal(getattr(found, column.name), getattr(again, column.name)), column.name
    assert found.packets.shape == (2, 3)
    for i, scenario in enumerate(scenarios):
        for j, trial in enumerate(trials):
            qos = simulate(trial.on(scenario), series_every_s=None)
            assert found.duration_s[i, j] == 4
            assert found.packets[i, j] == qos.packets
            assert found.delivered_bytes[i, j] == qos.packets * 1500
            assert found.goodput_bytes[i, j] * 8e-6 / 4 == pytest.approx(qos.goodput_mbps)
            assert found.retransmitted_pkts[i, j] / found.sent_pkts[i, j] == pytest.approx(qos.retransmission_rate)
            assert np.array_equal(found.delay_counts[i, j], qos.windows.delay_counts.sum(axis=0))
            # An entry for each RTT sample, and smoother than these.
            assert found.srtt_counts[i, j].sum() == qos.flows[0].rtt.counts.sum()
            assert found.complete[i, j]  # it has no end to wait for


def test_measures_of_files_are_of_the_time_in_which_they_had_data() -> None:
    size_bytes = 1448 * 2000
    first = FlowSpec(cca="cubic", size_bytes=size_bytes)
    link = LinkSpec(rate_mbps=50, rtt_ms=40, before=(Policer(rate_mbps=2, bucket_bytes=250_000),))
    scenario = Scenario(link=link, flows=(first, first.model_copy(update={"after": 0, "start_s": 3})), duration_s=60)
    trials = [Trial("cubic"), Trial("rtcp_cubic")]
    found = measure([scenario, scenario.model_copy(update={"duration_s": 5.0})], trials)
    flows = simulate(scenario).flows
    busy_s = sum((flow.complete_s or 60) - flow.transfers[0].start_s for flow in flows)
    assert found.busy_s[0, 0] == pytest.approx(busy_s)
    assert found.offered_bytes.tolist() == [[2 * size_bytes] * 2, [size_bytes] * 2]
    assert found.complete.tolist() == [[True, True], [False, False]]
    assert found.detecting.tolist() == found.limited.tolist() == [[False, True], [False, True]]
    # Cut short the first one is under way to the end, and the second has not begun.
    assert found.busy_s[1, 0] == pytest.approx(5 - flows[0].transfers[0].start_s)


def test_measures_refuse_what_the_algorithm_does_not_take() -> None:
    scenario = Scenario(link=LinkSpec(rate_mbps=20))
    with pytest.raises(EmulationError, match="got 0 and 1"):
        measure([], [Trial("gr")])
    with pytest.raises(EmulationError, match="got colour"):
        measure([scenario], [Trial("gr", {"colour": 1})])
    with pytest.raises(EmulationError, match="nosuch"):
        measure([scenario], [Trial("nosuch")])


def test_warmup_leaves_the_run_as_it_is_and_measures_less_of_it() -> None:
    whole, part = (
        simulate(Scenario(link=LinkSpec(rate_mbps=20), duration_s=10, warmup_s=warmup_s, window_s=5))
        for warmup_s in (0, 5)
    )
    assert part.simulated_packets == whole.simulated_packets
    assert part.packets == whole.windows.packets[1]
    assert part.queueing_delay.percentile_ms(99) < whole.queueing_delay.percentile_ms(99)


def test_series_add_up_to_the_throughput() -> None:
    scenario = Scenario(link=LinkSpec(rate_mbps=20), duration_s=10, flows=(FlowSpec(), FlowSpec(cca="reno")))
    qos = simulate(scenario, series_every_s=0.1)
    assert set(qos.series) >= {"time_s", "rate_mbps", "capacity_mbps", "rtt_ms", "cwnd_pkts", "pacing_mbps", "mode"}
    assert qos.series["rate_mbps"].sum() * 0.1 / 10 == pytest.approx(qos.throughput_mbps, rel=0.02)
    assert np.allclose(qos.series["capacity_mbps"], 20)
    assert simulate(scenario).series["time_s"].size == 0
    assert same(simulate(scenario), qos)


@pytest.mark.parametrize("threshold_us", [10_000, 30_000, 100_000])
def test_gr_on_a_constant_link_stays_about_its_threshold(threshold_us: int) -> None:
    flow = FlowSpec(params={"delay_threshold_us": threshold_us})
    qos = simulate(Scenario(link=LinkSpec(rate_mbps=20), flows=(flow,), duration_s=40, warmup_s=5))
    assert 0.3 * threshold_us / 1000 < qos.queueing_delay.percentile_ms(50) < 1.2 * threshold_us / 1000 + 2
    assert qos.utilization > 0.97


@pytest.mark.parametrize(("rate_mbps", "delay_class", "state"), [(4, 0, 0), (20, 0, 1), (20, 1, 1)])
def test_flow_follows_the_row_of_its_state_and_class(rate_mbps: float, delay_class: int, state: int) -> None:
    threshold_us = {(0, 0): 10_000, (1, 0): 20_000, (1, 1): 160_000}[state, delay_class]
    link = LinkSpec(rate_mbps=rate_mbps)
    follower = FlowSpec(ensemble_text=two_level_text(), delay_class=delay_class)
    plain = FlowSpec(params={"delay_threshold_us": threshold_us})
    by_table, by_hand = (
        simulate(Scenario(link=link, flows=(flow,), duration_s=30, warmup_s=15)) for flow in (follower, plain)
    )
    turns = by_table.flows[0].epoch_ends
    assert len(turns) >= 5
    assert turns[-1].state == state
    assert all(turn.state is None for turn in by_hand.flows[0].epoch_ends)
    assert by_table.queueing_delay.percentile_ms(50) == pytest.approx(
        by_hand.queueing_delay.percentile_ms(50), rel=0.5, abs=3
    )


def test_flow_that_leaves_its_target_unused_is_raised_by_epsilon() -> None:
    # Level 0 keeps some 10 ms where 50 ms are allowed: the flow then takes level 1, the highest.
    link = LinkSpec(rate_mbps=4)
    kinds = {}
    for epsilon_pct in (0, 25):
        flow = FlowSpec(ensemble_text=two_level_text(epsilon_pct=epsilon_pct))
        turns = simulate(Scenario(link=link, flows=(flow,), duration_s=30)).flows[0].epoch_ends
        kinds[epsilon_pct] = {(turn.kind, turn.state) for turn in turns[2:]}
    assert kinds == {0: {("looked_up", 0)}, 25: {("raised", 1)}}


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("epoch_ms 5000\n", "epoch_ms 05000\n"),
        ("end 4\n", "end 5\n"),
        ("cca gr\n", "cca reno\n"),
        ("0 1 120000\n", "0 1 120000 3\n"),
        ("1 1 160000\nend 4\n", ""),
        ("end 4\n", "end 4\n\n"),
    ],
)
def test_ensemble_text_that_the_core_refuses_is_told(line: str, other: str) -> None:
    assert line in two_level_text()
    flow = FlowSpec(ensemble_text=two_level_text().replace(line, other))
    with pytest.raises(EmulationError, match=r"ensemble text: .*; write it with kmod\.ensemble\.table_text"):
        simulate(Scenario(link=LinkSpec(rate_mbps=20), flows=(flow,)))


def test_the_core_version_is_of_the_bytes_of_core_and_simulator_here(repository: Path) -> None:
    patterns = ("kmod/core/*.h", "kmod/core/*.def", "emulation/cpp/*/*.hpp", "emulation/cpp/*/*.cpp")
    paths = {path.relative_to(repository).as_posix(): path for pattern in patterns for path in repository.glob(pattern)}
    assert {"kmod/core/gr.h", "kmod/core/params.def", "emulation/cpp/simulation/simulation.cpp"} <= set(paths)
    lines = (f"{name} {hashlib.sha256(paths[name].read_bytes()).hexdigest()}\n" for name in sorted(paths))
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    assert core_version() == digest, "the engine is older than its sources; run make build"


def test_an_engine_that_was_built_with_other_parameters_is_refused() -> None:
    names = _engine.parameters()
    require_current(SimpleNamespace(__file__="engine.so", parameters=lambda: list(names)))
    for stale in (names[1:], [*names, "gr.another"], [names[1], names[0], *names[2:]], None):
        engine = SimpleNamespace(__file__="engine.so", **({} if stale is None else {"parameters": lambda n=stale: n}))
        with pytest.raises(EmulationError, match=r"engine\.so: .* run `make build`"):
            require_current(engine)

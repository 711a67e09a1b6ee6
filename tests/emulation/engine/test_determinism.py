# SPDX-License-Identifier: MIT
"""The same scenario and seed give the same result: again, on any number of threads, in any company."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from emulation import BaseDelay, DelayStep, FlowSpec, LinkSpec, QoS, Scenario, VideoSpec, simulate, simulate_many
from kmod.abi import ALGORITHMS
from tests.emulation.engine.links import fixed
from tests.emulation.tables import ensemble_of, table_of
from tests.prove.scenarios import draw, load

PARAMS = [
    {"bandwidth_window_us": 20_000, "adaptation_interval_us": 5_000, "delay_threshold_us": 35_000},
    {"bandwidth_window_us": 60_000, "adaptation_interval_us": 3_000, "delay_threshold_us": 12_000},
    {"bandwidth_window_us": 500_000, "adaptation_interval_us": 20_000, "delay_threshold_us": 145_000},
]


def scenarios() -> list[Scenario]:
    return [
        Scenario(
            link=LinkSpec(rate_mbps=rate, loss=loss, buffer_pkts=100),
            flows=(FlowSpec(), FlowSpec(cca="reno", start_s=1.0)),
            duration_s=8,
            warmup_s=2,
            window_s=2.0,
            seed=seed,
        )
        for seed, (rate, loss) in enumerate([(1, 0), (5, 0.01), (20, 0), (40, 0.001), (80, 0.05), (3, 0.1)])
    ]


def scenarios_of_every_kind() -> list[Scenario]:
    """Drawn ones, which have all algorithms and elements, one with delays over time, and a video."""
    steps = (DelayStep(at_s=0, rtt_ms=25), DelayStep(at_s=0.7, rtt_ms=60))
    delays = LinkSpec(rate_mbps=20, delays=BaseDelay(steps=steps, period_s=1.4))
    video = FlowSpec(cca="cubic", video=VideoSpec(abr="robust-mpc", chunks=8, page_bytes=200_000))
    return [
        *(load(draw(number)) for number in range(40)),
        Scenario(link=delays, flows=(FlowSpec(cca="cubic"), FlowSpec()), duration_s=6, seed=3),
        Scenario(link=LinkSpec(rate_mbps=2), flows=(video, FlowSpec(cca="cubic", video_of=0)), duration_s=100),
    ]


def fingerprint(qos: QoS) -> tuple[object, ...]:
    return (
        str(qos.summary()),
        qos.queueing_delay.counts.tobytes(),
        qos.windows.delay_counts.tobytes(),
        *(flow.rtt.counts.tobytes() for flow in qos.flows),
    )


def test_runs_are_the_same_again_and_on_any_number_of_threads() -> None:
    first = [fingerprint(qos) for qos in simulate_many(scenarios(), threads=1)]
    for threads in (1, 2, 5):
        assert [fingerprint(qos) for qos in simulate_many(scenarios(), threads=threads)] == first
    assert [fingerprint(simulate(s)) for s in reversed(scenarios())] == first[::-1]
    one, many = ([str(qos.summary()) for qos in simulate_many(scenarios_of_every_kind(), threads=n)] for n in (1, 3))
    assert one == many


def test_the_seed_decides_what_is_lost() -> None:
    scenario = Scenario(link=LinkSpec(rate_mbps=10, loss=0.02), flows=(fixed(50),), duration_s=10)
    runs = [simulate(scenario.model_copy(update={"seed": seed})).lost_at_random for seed in range(6)]
    assert len(set(runs)) > 1
    assert np.mean(runs) == pytest.approx(0.02 * simulate(scenario).simulated_packets, rel=0.2)


def test_series_do_not_change_the_run() -> None:
    for scenario in scenarios():
        plain, sampled = simulate(scenario), simulate(scenario, series_every_s=0.01)
        assert fingerprint(plain) == fingerprint(sampled)
        assert len(sampled.series["time_s"]) == pytest.approx(8 / 0.01 * 2, abs=2)


def test_progress_reports_every_run_at_the_end() -> None:
    seen: list[int] = []
    simulate_many(scenarios(), threads=2, progress=seen.append)
    assert seen[-1] == len(scenarios())
    assert seen == sorted(seen)


def test_an_error_in_progress_stops_the_batch() -> None:
    def stop(_done: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        simulate_many(scenarios(), threads=2, progress=stop)


INTERRUPTED = """
import os, signal, threading
from emulation import LinkSpec, Scenario, simulate_many

threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
day = Scenario(link=LinkSpec(rate_mbps=1000), duration_s=86_400)
try:
    simulate_many([day] * {runs}, threads=2)
except KeyboardInterrupt:
    print("stopped")
"""


@pytest.mark.parametrize("runs", [1, 20])
def test_control_c_stops_a_run_that_would_take_an_hour(runs: int) -> None:
    # In a process of its own: one that does not stop is ended by the time limit, and fails.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(runs=runs)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "stopped\n"


def ensemble_text(hold_back_permille: int, rows: tuple[tuple[int, ...], ...]) -> str:
    columns = ("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us")
    return table_of(ensemble_of(rows, columns=columns), hold_back_permille=hold_back_permille)


def test_a_flow_follows_its_ensemble_and_a_held_back_one_does_not() -> None:
    rows = tuple((20_000, 5_000, 10_000 if level < 10 else 150_000) for level in range(20))
    scenario = Scenario(link=LinkSpec(rate_mbps=15), duration_s=20, warmup_s=5)
    default = ALGORITHMS["gr"].param("delay_threshold_us").default
    assert default not in (10_000, 150_000)

    def delay_ms(**flow: object) -> float:
        qos = simulate(scenario.model_copy(update={"flows": (FlowSpec.model_validate(flow),)}))
        return qos.mean_queueing_delay_ms

    plain = delay_ms()
    followed = delay_ms(ensemble_text=ensemble_text(0, rows))
    assert followed > 1.5 * plain
    assert delay_ms(ensemble_text=ensemble_text(1000, rows)) == plain


def test_epochs_tell_the_level_that_was_measured() -> None:
    rows = tuple((20_000, 5_000, 40_000) for _ in range(20))
    flow = FlowSpec(ensemble_text=ensemble_text(0, rows))
    qos = simulate(Scenario(link=LinkSpec(rate_mbps=7.5), flows=(flow,), duration_s=11))
    turns = qos.flows[0].epoch_ends
    assert [turn.epoch for turn in turns] == list(range(1, len(turns) + 1))
    for turn in turns[1:]:
        assert turn.measured_bytes_per_s == pytest.approx(7.5e6 / 8 * 1448 / 1500, rel=0.05)
        assert turn.state == 7

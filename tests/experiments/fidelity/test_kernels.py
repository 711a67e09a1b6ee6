# SPDX-License-Identifier: MIT
"""Campaigns resume, keep each run, and go on past what cannot be run or fails. The kernel is a stand-in."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from emulation.errors import EmulationError
from emulation.mahimahi.machine import Machine, Watch
from emulation.mahimahi.path import path_of_mahimahi
from emulation.mahimahi.translate import Runner
from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.model import FlowSpec, LinkSpec, ReceiverSpec, Scenario
from emulation.scenario.path import Policer
from emulation.traces import Trace
from experiments import campaign
from experiments.fidelity import kernels, runs
from experiments.fidelity.kernels import Outcome, Request, make_runs
from experiments.fidelity.plan import Case
from experiments.fidelity.runs import Store, Task, figures_of, tasks_of

from .conftest import StandInKernel

Choose = Callable[..., list[Case]]


def silent(what: str, done: int, total: int) -> None:
    del what, done, total


def asked(cases: Sequence[Case], folder: Path, *, runs: int, seeds: int = 1, **options: bool) -> Request:
    simulated = campaign.Store(folder / "simulated")
    return Request(tuple(cases), runs=runs, seeds=seeds, store=Store(folder), simulated=simulated, **options)


def run(
    cases: list[Case], folder: Path, *, only_kept: bool = False, runs: int = 2, **options: bool
) -> dict[str, Outcome]:
    request = asked(cases, folder, runs=runs, seeds=3, **options)
    return {found.case.key: found for found in make_runs(request, progress=silent, only_kept=only_kept)}


def stand_in_guest(monkeypatch: pytest.MonkeyPatch, boot: Callable[..., None]) -> None:
    """Boots that run two scenarios each."""
    monkeypatch.setattr(kernels, "lacking_for_guests", lambda: "")
    monkeypatch.setattr(kernels.guest, "guest_runner", lambda: Runner(name="vm", algorithms={"gr": "gr"}))
    monkeypatch.setattr(kernels.guest, "emulate_each", boot)
    monkeypatch.setattr(kernels, "VM_BATCH", 2)


def test_runs_that_are_kept_are_not_run_again(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    first = run(choose("cubic"), tmp_path)
    assert sorted(kernel.ran) == ["fast/cubic", "fast/cubic", "slow/cubic", "slow/cubic"]
    again = run(choose("cubic"), tmp_path)
    assert len(kernel.ran) == 4
    assert again == first
    assert {len(found.real) for found in again.values()} == {2}
    assert {len(found.simulated) for found in again.values()} == {3}
    assert len(run(choose("fast"), tmp_path, runs=3)["fast/cubic"].real) == 3
    assert len(kernel.ran) == 5


def test_a_run_that_another_kernel_or_scenario_made_is_made_anew(
    kernel: StandInKernel, choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = choose("fast")
    run([case], tmp_path)
    assert case.scenario is not None
    longer = replace(case, scenario=case.scenario.model_copy(update={"duration_s": 2.5}))
    run([longer], tmp_path / "other")
    monkeypatch.setattr("platform.release", lambda: "9.9.9-foreign")
    runs.versions.cache_clear()
    try:
        run([case], tmp_path)
    finally:
        runs.versions.cache_clear()
    assert len(kernel.ran) == 6
    run([longer], tmp_path)
    assert len(kernel.ran) == 8
    # The runs of neither scenario have replaced those of the other one.
    run([case], tmp_path)
    run([longer], tmp_path)
    assert len(kernel.ran) == 8


def test_a_case_may_ask_for_several_times_the_runs(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    del kernel
    chancy, other = (replace(case, times=times) for case, times in zip(choose("cubic"), (3, 1), strict=True))
    outcomes = run([chancy, other], tmp_path)
    assert [(len(found.real), len(found.simulated)) for found in outcomes.values()] == [(6, 9), (2, 3)]


def test_runs_that_are_alone_are_others_than_those_that_are_not(
    kernel: StandInKernel, choose: Choose, tmp_path: Path
) -> None:
    run(choose("cubic"), tmp_path)
    assert kernel.processors == [None]
    assert len(run(choose("cubic"), tmp_path, alone=True)["fast/cubic"].real) == 2
    assert kernel.processors == [None, 0]
    assert len(kernel.ran) == 8
    run(choose("cubic"), tmp_path, alone=True)
    assert len(kernel.ran) == 8


def test_runs_with_late_timers_are_run_anew_on_request_and_no_others(
    kernel: StandInKernel, choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Machine(late_share=0.02)
    monkeypatch.setattr(Watch, "during_a_run", lambda _self, _duration_s: seen)
    run(choose("cubic"), tmp_path)
    run(choose("cubic"), tmp_path)
    assert len(kernel.ran) == 4
    seen = Machine(late_share=0.001)
    run(choose("slow/cubic"), tmp_path, redo_disturbed=True)
    assert kernel.ran[4:] == ["slow/cubic"] * 2
    run(choose("cubic"), tmp_path, redo_disturbed=True)
    assert kernel.ran[6:] == ["fast/cubic"] * 2
    run(choose("cubic"), tmp_path, redo_disturbed=True)
    assert len(kernel.ran) == 8


def test_ctrl_c_keeps_the_runs_that_were_over(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    kernel.breaks_at = 3
    with pytest.raises(KeyboardInterrupt):
        run(choose("slow", "fast"), tmp_path)
    ran = list(kernel.ran)
    assert len(ran) == 3
    kept = run(choose("slow", "fast"), tmp_path, only_kept=True)
    assert sorted(key for key, found in kept.items() for _ in found.real) == sorted(ran)
    kernel.breaks_at = None
    whole = run(choose("slow", "fast"), tmp_path)
    assert len(kernel.ran) == 6
    assert [len(whole[key].real) for key in ("slow/cubic", "slow/reno", "fast/cubic")] == [2, 2, 2]


def test_what_a_runner_refuses_fails_no_campaign(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    found = run(choose(), tmp_path)
    assert found["slow/gr"].refused == "vm: no guest in this test"
    assert not found["slow/gr"].real
    assert len(found["slow/gr"].simulated) == 3, "the simulator has no reason to refuse"
    assert set(kernel.ran) == {"slow/cubic", "slow/reno", "fast/cubic"}


def test_guests_run_side_by_side_and_a_run_that_fails_takes_none_with_it(
    kernel: StandInKernel, choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    told: list[tuple[int, int]] = []
    meet = threading.Barrier(2)

    def boot(scenarios: Sequence[Scenario], each: Callable[[int, QoS | EmulationError], None]) -> None:
        if len(scenarios) == 2:
            meet.wait(20)  # broken unless two are there
        kernel.emulate_each(scenarios, each)

    stand_in_guest(monkeypatch, boot)
    (case,) = choose("slow/gr")
    four = asked([case], tmp_path, runs=4)

    def tell(what: str, done: int, total: int) -> None:
        if what == "vm":
            told.append((done, total))

    (found,) = make_runs(four, progress=tell)
    assert len(found.real) == 4
    assert told[0] == (0, 4)
    assert told[-1] == (4, 4)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    kernel.failing = {"slow/gr"}
    eight = asked([case], tmp_path, runs=8)
    (found,) = make_runs(eight, progress=silent)
    assert (len(found.real), found.failed) == (4, ["slow/gr: the link broke"] * 4)
    assert len(kernel.tried) == 8, "each is tried once more by itself"


def test_a_guest_that_dies_loses_only_what_it_had_not_told(
    kernel: StandInKernel, choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boot(scenarios: Sequence[Scenario], each: Callable[[int, QoS | EmulationError], None]) -> None:
        kernel.emulate_each(scenarios[:1], each)
        if len(scenarios) > 1:
            raise EmulationError("vm: the guest went down")

    stand_in_guest(monkeypatch, boot)
    (case,) = choose("slow/gr")
    (found,) = make_runs(asked([case], tmp_path, runs=2), progress=silent)
    assert (len(found.real), found.failed) == (2, [])
    assert kernel.ran == ["slow/gr"] * 2


def test_an_algorithm_that_the_kernel_lacks_is_refused_by_name(
    kernel: StandInKernel, choose: Choose, tmp_path: Path
) -> None:
    (case,) = choose("fast")
    assert case.scenario is not None
    flows = (FlowSpec(cca="bbr"),)
    other = Case("fast/bbr", "fast", "bbr", "mahimahi", case.scenario.model_copy(update={"flows": flows}))
    assert "has cubic, reno, got bbr" in run([other], tmp_path)["fast/bbr"].refused
    assert not kernel.ran


def test_one_run_that_fails_takes_none_with_it_and_is_tried_again(
    kernel: StandInKernel, choose: Choose, tmp_path: Path
) -> None:
    kernel.failing = {"slow/reno"}
    found = run(choose("slow/cubic", "slow/reno", "fast"), tmp_path)
    assert found["slow/reno"].failed == ["slow/reno: the link broke"] * 2
    assert len(kernel.tried) == 4
    assert len(found["slow/cubic"].real) == len(found["fast/cubic"].real) == 2
    kernel.failing = set()
    assert len(run(choose("slow/reno"), tmp_path)["slow/reno"].real) == 2


def test_the_simulated_side_has_the_path_of_mahimahi_and_a_seed_each(
    kernel: StandInKernel, choose: Choose, tmp_path: Path
) -> None:
    del kernel
    (case,) = choose("fast")
    assert case.scenario is not None
    found = run([case], tmp_path)["fast/cubic"].simulated
    for seed, figures in enumerate(found):
        said = simulate(path_of_mahimahi(case.scenario.model_copy(update={"seed": seed}), runner="mahimahi"))
        assert figures == figures_of(case.scenario, said)


def test_a_broken_file_is_told_by_its_name(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    del kernel
    run(choose("fast"), tmp_path, runs=1)
    broken = sorted(tmp_path.glob("fast-cubic-0-*.json"))[0]
    broken.write_text("{", encoding="utf-8")
    with pytest.raises(EmulationError, match="expected a run's result, got other text; remove the file"):
        run(choose("fast"), tmp_path, runs=1)


def test_kept_runs_are_there_whether_or_not_the_machine_could_run_them_again(
    kernel: StandInKernel, choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del kernel
    run(choose("fast"), tmp_path)

    def lacks() -> Runner:
        raise EmulationError("mahimahi: needs root")

    monkeypatch.setattr(kernels.host, "host_runner", lacks)
    found = run(choose("fast"), tmp_path)["fast/cubic"]
    assert (len(found.real), found.refused) == (2, "")
    assert run(choose("fast"), tmp_path, runs=3)["fast/cubic"].refused == "mahimahi: needs root"


def test_a_run_counts_for_its_scenario_whatever_that_is_called(choose: Choose) -> None:
    (case,) = choose("fast")
    assert case.scenario is not None
    link = case.scenario.link

    def digest(**changes: object) -> str:
        assert case.scenario is not None
        return Task(replace(case, scenario=case.scenario.model_copy(update=changes)), 0).digest

    same = {digest(), digest(name="renamed"), digest(seed=7)}
    assert len(same) == 1
    recorded = Trace("one", np.array([1, 5, 9], dtype=np.uint32), 10)
    traces = [recorded, replace(recorded, name="two"), replace(recorded, period_ms=11)]
    one, two, longer = (digest(link=link.model_copy(update={"rate_mbps": None, "trace": t})) for t in traces)
    assert one == two != longer
    others = {
        digest(flows=(FlowSpec(cca="cubic", receiver=ReceiverSpec(ack_delay_ms=25)),)),
        digest(link=link.model_copy(update={"rtt_ms": 42})),
        digest(flows=(FlowSpec(cca="gr", params={"bandwidth_window_us": 60_000}),)),
        digest(duration_s=3.0),
        digest(client_keep_s=5.0),
    }
    assert len(others | same) == 6


def test_a_run_depends_on_the_bytes_of_its_runner_and_in_the_guest_on_those_of_the_modules(
    choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_with(name: str, text: str) -> list[dict[str, str]]:
        """Of a run in the guest, and of one on this kernel."""
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        runs.versions.cache_clear()
        campaign.sources_digest.cache_clear()
        return [Task(choose(case)[0], 0).made_with for case in ("slow/gr", "fast/cubic")]

    monkeypatch.setattr(campaign, "ROOT", tmp_path)
    try:
        first = made_with("kmod/linux/tcp_gr.c", "int a;\n")
        changed = made_with("kmod/linux/tcp_gr.c", "int b;\n")
        assert [one == other for one, other in zip(first, changed, strict=True)] == [False, True]
        changed = made_with("emulation/mahimahi/runner.py", "# another comment\n")
        assert [one == other for one, other in zip(first, changed, strict=True)] == [False, False]
    finally:
        runs.versions.cache_clear()
        campaign.sources_digest.cache_clear()


def test_the_first_run_of_each_case_comes_before_the_second_of_any(choose: Choose) -> None:
    tasks = tasks_of(choose("cubic"), count=2)
    assert [(task.case.key, task.number) for task in tasks] == [
        (key, number) for number in (0, 1) for key in ("slow/cubic", "fast/cubic")
    ]


def test_behind_a_policer_throughput_is_what_arrived() -> None:
    policer = Policer(rate_mbps=2, bucket_bytes=30_000)
    link = LinkSpec(rate_mbps=20, rtt_ms=40, buffer_pkts=100, behind=(policer,))
    policed = Scenario(link=link, flows=(FlowSpec(cca="cubic"),), duration_s=5)
    qos = simulate(policed)
    assert figures_of(policed, qos).throughput_mbps == qos.goodput_mbps
    # At most the bucket's rate and the bucket: 2 Mbit/s + 30,000 bytes in 5 s.
    assert figures_of(policed, qos).throughput_mbps <= 2.048
    assert qos.throughput_mbps > qos.goodput_mbps
    plain = policed.model_copy(update={"link": LinkSpec(rate_mbps=20, rtt_ms=40, buffer_pkts=100)})
    qos = simulate(plain)
    assert figures_of(plain, qos).throughput_mbps == qos.throughput_mbps

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
from emulation.mahimahi.translate import Runner
from emulation.run.qos import QoS
from emulation.run.simulator import simulate
from emulation.scenario.model import FlowSpec, LinkSpec, ReceiverSpec, Scenario
from emulation.scenario.path import Policer
from emulation.traces import Trace
from experiments.fidelity import campaign, results
from experiments.fidelity.campaign import Campaign, Outcome, run_missing
from experiments.fidelity.path import path_of_mahimahi
from experiments.fidelity.plan import Case
from experiments.fidelity.results import LATER, Store, figures_of, module_sources, tasks_of

from .conftest import StandInKernel

Choose = Callable[..., list[Case]]


def silent(what: str, done: int, total: int) -> None:
    del what, done, total


def run(
    cases: list[Case],
    folder: Path,
    *,
    only_kept: bool = False,
    runs: int = 2,
    alone: bool = False,
    redo_disturbed: bool = False,
) -> dict[str, Outcome]:
    asked = Campaign(
        cases=tuple(cases), runs=runs, seeds=3, store=Store(folder), alone=alone, redo_disturbed=redo_disturbed
    )
    return {found.case.key: found for found in run_missing(asked, progress=silent, only_kept=only_kept)}


def stand_in_guest(monkeypatch: pytest.MonkeyPatch, boot: Callable[..., None]) -> None:
    """Boots that run two scenarios each."""
    monkeypatch.setattr(campaign, "lacking_for_guests", lambda: "")
    monkeypatch.setattr(campaign.guest, "guest_runner", lambda: Runner(name="vm", algorithms={"gr": "gr"}))
    monkeypatch.setattr(campaign.guest, "emulate_each", boot)
    monkeypatch.setattr(campaign, "VM_BATCH", 2)


def test_runs_that_are_kept_are_not_run_again(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    first = run(choose("cubic"), tmp_path)
    assert sorted(kernel.ran) == ["fast/cubic", "fast/cubic", "slow/cubic", "slow/cubic"]
    again = run(choose("cubic"), tmp_path)
    assert len(kernel.ran) == 4
    assert again == first
    assert {len(found.real) for found in again.values()} == {2}
    assert {len(found.simulated) for found in again.values()} == {3}


def test_more_runs_are_added_to_those_that_are_kept(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    run(choose("fast"), tmp_path, runs=1)
    assert len(run(choose("fast"), tmp_path, runs=3)["fast/cubic"].real) == 3
    assert len(kernel.ran) == 3


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

    def boot(
        scenarios: Sequence[Scenario],
        each: Callable[[int, QoS | EmulationError], None],
        *,
        series_every_s: float | None = None,
    ) -> None:
        if len(scenarios) == 2:
            meet.wait(20)  # broken unless two are there
        kernel.emulate_each(scenarios, each, series_every_s=series_every_s)

    stand_in_guest(monkeypatch, boot)
    (case,) = choose("slow/gr")
    four = Campaign(cases=(case,), runs=4, seeds=1, store=Store(tmp_path))

    def tell(what: str, done: int, total: int) -> None:
        if what == "vm":
            told.append((done, total))

    (found,) = run_missing(four, progress=tell)
    assert len(found.real) == 4
    assert told[0] == (0, 4)
    assert told[-1] == (4, 4)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    kernel.failing = {"slow/gr"}
    eight = Campaign(cases=(case,), runs=8, seeds=1, store=Store(tmp_path))
    (found,) = run_missing(eight, progress=silent)
    assert (len(found.real), found.failed) == (4, ["slow/gr: the link broke"] * 4)
    assert len(kernel.tried) == 8, "each is tried once more by itself"


def test_a_guest_that_dies_loses_only_what_it_had_not_told(
    kernel: StandInKernel, choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boot(
        scenarios: Sequence[Scenario],
        each: Callable[[int, QoS | EmulationError], None],
        *,
        series_every_s: float | None = None,
    ) -> None:
        kernel.emulate_each(scenarios[:1], each, series_every_s=series_every_s)
        if len(scenarios) > 1:
            raise EmulationError("vm: the guest went down")

    stand_in_guest(monkeypatch, boot)
    (case,) = choose("slow/gr")
    (found,) = run_missing(Campaign(cases=(case,), runs=2, seeds=1, store=Store(tmp_path)), progress=silent)
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
    for seed, result in enumerate(found):
        said = simulate(path_of_mahimahi(case.scenario.model_copy(update={"seed": seed}), runner="mahimahi"))
        assert result.figures == figures_of(case.scenario, said)
        # A point every 0.1 s, from the first to the last that is over.
        assert len(result.series["time_s"]) in {19, 20}


def test_a_broken_file_is_told_by_its_name(kernel: StandInKernel, choose: Choose, tmp_path: Path) -> None:
    del kernel
    run(choose("fast"), tmp_path, runs=1)
    broken = sorted(tmp_path.glob("*real-0*.json"))[0]
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

    monkeypatch.setattr(campaign.host, "host_runner", lacks)
    found = run(choose("fast"), tmp_path)["fast/cubic"]
    assert (len(found.real), found.refused) == (2, "")
    assert run(choose("fast"), tmp_path, runs=3)["fast/cubic"].refused == "mahimahi: needs root"


def digest(case: Case, **changes: object) -> str:
    assert case.scenario is not None
    changed = case.scenario.model_copy(update=changes)
    (task,) = tasks_of([Case(case.key, case.name, case.cca, case.runner, changed)], side="simulated", count=1)
    return task.digest


def test_a_run_is_known_by_all_that_it_depends_on_and_nothing_else(choose: Choose) -> None:
    (case,) = choose("fast")
    assert case.scenario is not None
    link = case.scenario.link
    same = {digest(case), digest(case, name="renamed"), digest(case, seed=7)}
    assert len(same) == 1
    recorded = Trace("one", np.array([1, 5, 9], dtype=np.uint32), 10)
    traces = [recorded, replace(recorded, name="two"), replace(recorded, period_ms=11)]
    one, two, longer = (digest(case, link=link.model_copy(update={"rate_mbps": None, "trace": t})) for t in traces)
    assert one == two != longer
    others = {
        digest(case, flows=(FlowSpec(cca="cubic", receiver=ReceiverSpec(ack_delay_ms=25)),)),
        digest(case, link=link.model_copy(update={"rtt_ms": 42})),
        digest(case, link=link.model_copy(update={"buffer_pkts": 51})),
        digest(case, flows=(FlowSpec(cca="reno"),)),
        digest(case, flows=(FlowSpec(cca="gr", params={"bandwidth_window_us": 60_000}),)),
        digest(case, duration_s=3.0),
        digest(case, client_keep_s=5.0),
    }
    assert len(others | same) == 8


def test_a_later_field_of_scenarios_counts_only_where_it_says_something() -> None:
    fields = {**Scenario.model_fields, **FlowSpec.model_fields}
    assert all(fields[name].default == default for name, default in LATER)


def test_a_run_in_the_guest_depends_on_what_its_modules_are_made_of_and_on_nothing_else(tmp_path: Path) -> None:
    core, linux = tmp_path / "kmod" / "core", tmp_path / "kmod" / "linux"
    core.mkdir(parents=True)
    linux.mkdir()
    (linux / "Kbuild").write_text("ccflags-y := -I$(src)/../core\nobj-m := tcp_gr.o tcp_other.o\n", encoding="utf-8")
    (linux / "main.c").write_text('#include <linux/tcp.h>\n#include "shell.h"\n', encoding="utf-8")
    (linux / "shell.h").write_text('#include "cca.h"\n', encoding="utf-8")
    (linux / "tcp_gr.c").write_text('#include "gr.h"\n', encoding="utf-8")
    (linux / "tcp_other.c").write_text('#include "window.h"\n#include "tcp_shared.h"\n', encoding="utf-8")
    (linux / "tcp_shared.h").write_text("int shared;\n", encoding="utf-8")
    (linux / "tcp_shared.c").write_text('#include "tcp_shared.h"\n', encoding="utf-8")
    (linux / "window.h").write_text('#include "cubic.h"\n', encoding="utf-8")
    (core / "gr.h").write_text('/* "cubic.h" is no part of it */\n\t#include "cca.h"\n', encoding="utf-8")
    (core / "cca.h").write_text('#include "gr.h"\n#include "params.def"\n#include "params.h"\n', encoding="utf-8")
    (core / "params.def").write_text(
        "#if 0\nCCA_PARAM(gr, a)\n#endif\n#if X == CCA_ID_cubic\nCCA_PARAM(cubic, b)\nCCA_AXIS(roccet, c)\n#endif\n",
        encoding="utf-8",
    )
    (core / "params.h").write_text("#define CCA_ID_gr 1\n#define CCA_ID_cubic 2\n", encoding="utf-8")
    (core / "cubic.h").write_text('#include "cca.h"\n', encoding="utf-8")
    found = module_sources(tmp_path, ["gr"])
    shared = ["core/cca.h", "core/gr.h", "core/params.def", "core/params.h"]
    modules = ["linux/Kbuild", "linux/main.c", "linux/shell.h", "linux/tcp_gr.c"]
    assert sorted(found) == [f"kmod/{name}" for name in [*shared, *modules]]
    assert found["kmod/core/params.def"] == b"#if 0\nCCA_PARAM(gr, a)"
    assert found["kmod/core/params.h"] == b"#define CCA_ID_gr 1"
    assert found["kmod/linux/Kbuild"] == b"ccflags-y := -I$(src)/../core"
    both = module_sources(tmp_path, ["gr", "other"])
    assert both.keys() - found.keys() >= {"kmod/core/cubic.h", "kmod/linux/tcp_shared.h", "kmod/linux/tcp_shared.c"}


def test_comments_in_sources_leave_the_keys_and_tokens_move_them(
    choose: Choose, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "kmod/core/gr.h": "int gain = 3;\n",
        "kmod/linux/tcp_gr.c": '#include "gr.h"\n',
        "kmod/linux/Kbuild": "ccflags-y := -O2\n",
        "emulation/run/qos.py": "RATE = 1\n",
        "emulation/run/simulator.py": "STEP = 1\n",
    }

    def clear() -> None:
        for each in (results._versions, results._files_digest, results._modules_digest):
            each.cache_clear()

    def digests(changes: dict[str, str]) -> list[str]:
        """Of a run in the guest, one on this kernel, and a simulated one."""
        for name, text in {**files, **changes}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        clear()
        tasks = [tasks_of(choose(case), side="real", count=1)[0] for case in ("slow/gr", "fast/cubic")]
        return [task.digest for task in (*tasks, *tasks_of(choose("fast/cubic"), side="simulated", count=1))]

    def moved(changes: dict[str, str]) -> list[bool]:
        return [now != then for now, then in zip(digests(changes), first, strict=True)]

    monkeypatch.setattr(results, "EMULATION", tmp_path / "emulation")
    monkeypatch.setattr(results, "_shells_digest", lambda _runner: "")
    for each in results._SOURCES["simulated"]:
        files.setdefault(each, "")
    try:
        first = digests({})
        commented = {
            "kmod/core/gr.h": '/*\n#include "cubic.h"\n */\nint  gain = 3; // of the rate\n',
            "kmod/linux/Kbuild": "# How it is built.\nccflags-y :=  -O2\n",
            "emulation/run/qos.py": '"""Figures."""\nRATE = (1)  # Mbit/s\n',
            "emulation/run/simulator.py": "# A step.\nSTEP = 1\n",
        }
        assert moved(commented) == [False, False, False]
        assert moved({"kmod/core/gr.h": "int gain = 4;\n"}) == [True, False, False]
        assert moved({"emulation/run/qos.py": "RATE = 2\n"}) == [True, True, True]
        assert moved({"emulation/run/simulator.py": "STEP = 2\n"}) == [False, False, True]
        monkeypatch.setattr(results._engine, "SOURCES_DIGEST", "0" * 64)
        assert moved({}) == [False, False, True]
    finally:
        clear()


def test_sides_and_numbers_are_runs_of_their_own(kernel: StandInKernel, choose: Choose) -> None:
    del kernel
    tasks = [*tasks_of(choose("fast"), side="real", count=3), *tasks_of(choose("fast"), side="simulated", count=3)]
    assert len({task.digest for task in tasks}) == len({task.file_name for task in tasks}) == 6


def test_the_first_run_of_each_case_comes_before_the_second_of_any(choose: Choose) -> None:
    tasks = tasks_of(choose("cubic"), side="real", count=2)
    assert [(task.case.key, task.number) for task in tasks] == [
        ("slow/cubic", 0),
        ("fast/cubic", 0),
        ("slow/cubic", 1),
        ("fast/cubic", 1),
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

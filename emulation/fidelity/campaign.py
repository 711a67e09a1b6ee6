# SPDX-License-Identifier: MIT
"""Runs what a campaign lacks, keeps each run as soon as it is over, and says what could not be run.

    simulated      all at once, on all processors, on the path that Mahimahi gives (emulation/fidelity/path.py); the
                   seeds differ by the jitter of its clock
    mahimahi       as many side by side as the processors carry, or one by one (`alone`: runs that start together
                   disturb each other's first round trips, in which HyStart looks for 4 ms)
    vm             batches of VM_BATCH runs, one boot each, a boot on each processor: a guest by its own clock does not
                   feel the others

A run that fails is run again once, by itself, when the others are over; it is not kept, so that the next campaign
tries it, too. What a runner refuses (a field that it cannot translate, an algorithm that it does not have) is found out
before any run, and is no failure of the campaign.

While runs are on this machine's kernel its processors are kept awake (emulation/processors.py), and how late timers are
is noted in each result: Mahimahi's shells that do not wake up in their ms deliver late (emulation/fidelity/machine.py).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from emulation.errors import EmulationError
from emulation.fidelity._threads import side_by_side
from emulation.fidelity.machine import Watch, is_disturbed
from emulation.fidelity.path import path_of_mahimahi
from emulation.fidelity.plan import Case
from emulation.fidelity.results import (
    SERIES_EVERY_S,
    RunResult,
    Store,
    Task,
    figures_of,
    series_of,
    tasks_of,
    versions_that_differ,
)
from emulation.mahimahi import runner as host
from emulation.mahimahi.translate import Runner, to_job
from emulation.processors import kept_awake
from emulation.qos import QoS
from emulation.scenario import Scenario
from emulation.simulator import default_threads, simulate
from emulation.vm import lacking as lacking_for_guests
from emulation.vm import runner as guest

__all__ = ["Campaign", "Outcome", "Progress", "run_missing"]

# Called with what runs, how many runs of it are over, and how many there are.
Progress = Callable[[str, int, int], None]
Each = Callable[[int, QoS | EmulationError], None]
RunEach = Callable[[Sequence[Scenario], Each], None]

VM_BATCH = 6


@dataclass(frozen=True)
class Campaign:
    """What is asked for: cases, how many real and how many simulated runs of each, and where results are kept.

    alone: no two runs at a time on this machine's kernel. redo_disturbed: kept runs that were disturbed are run anew,
    each replaced when its successor is over. starts_real_runs: those that are missing are run; otherwise what there is
    is judged, and no runner has to be here.
    """

    cases: tuple[Case, ...]
    runs: int
    seeds: int
    store: Store
    alone: bool = False
    redo_disturbed: bool = False
    starts_real_runs: bool = True


@dataclass
class Outcome:
    """What there is of a case. refused: why its runner cannot run what is missing; failed: what runs that failed said.

    asked: real runs that there should be. earlier: how many of them other versions than those here made, by what these
    versions are.
    """

    case: Case
    asked: int = 0
    real: list[RunResult] = field(default_factory=list)
    simulated: list[RunResult] = field(default_factory=list)
    refused: str = ""
    failed: list[str] = field(default_factory=list)
    earlier: Counter[str] = field(default_factory=Counter)

    @property
    def missing(self) -> int:
        """Real runs that there are too few; none of a case that cannot be run."""
        return 0 if self.refused else max(self.asked - len(self.real), 0)


def run_missing(campaign: Campaign, *, progress: Progress, only_kept: bool = False) -> list[Outcome]:
    """Run what is not kept yet (only_kept: nothing); what there is of each case, in their order.

    A KeyboardInterrupt leaves all runs kept that were over.

    Raises:
        EmulationError: the simulator cannot run a scenario, a kept result is broken.
    """
    outcomes = {
        case.key: Outcome(case, asked=campaign.runs * case.times, refused=case.lacks) for case in campaign.cases
    }
    real = tasks_of(campaign.cases, side="real", count=campaign.runs, alone=campaign.alone)
    simulated = tasks_of(campaign.cases, side="simulated", count=campaign.seeds)
    missing = [task for task in real if _is_missing(campaign, task)]
    if campaign.starts_real_runs:
        for key in {task.case.key for task in missing}:
            outcomes[key].refused = refusal(outcomes[key].case)
    if not only_kept:
        lacking = [task for task in simulated if campaign.store.load(task) is None]
        _simulate(lacking, store=campaign.store, progress=progress)
        missing = [task for task in missing if campaign.starts_real_runs and not outcomes[task.case.key].refused]
        for runner, run in (("mahimahi", _run_on_host), ("vm", _run_in_guest)):
            tasks = [task for task in missing if task.case.runner == runner]
            for task, said in run(tasks, campaign=campaign, progress=progress):
                outcomes[task.case.key].failed.append(said)
    for task in (*real, *simulated):
        result = campaign.store.load(task)
        if result is not None:
            outcome = outcomes[task.case.key]
            (outcome.real if task.side == "real" else outcome.simulated).append(result)
            if versions := versions_that_differ(task, result):
                outcome.earlier[versions] += 1
    return list(outcomes.values())


def _is_missing(campaign: Campaign, task: Task) -> bool:
    result = campaign.store.load(task)
    redo = campaign.redo_disturbed and task.case.runner == "mahimahi"  # a guest goes by its own clock
    return result is None or (redo and is_disturbed(result.machine))


def refusal(case: Case) -> str:
    """Why the case's runner cannot run it; "" where it can."""
    assert case.scenario is not None  # noqa: S101 (who has no scenario lacks something, which is asked first)
    try:
        to_job(case.scenario, _runner_of(case.runner))
    except EmulationError as error:
        return str(error).removeprefix(f"{case.scenario.name}: ")
    return ""


def _runner_of(name: str) -> Runner:
    if name == "mahimahi":
        return host.host_runner()
    lacks = lacking_for_guests()
    if lacks:
        raise EmulationError(f"vm: {lacks}")
    return guest.guest_runner()


def _simulate(tasks: Sequence[Task], *, store: Store, progress: Progress) -> None:
    """Run and keep them, some at a time."""
    step = 16 * default_threads()
    for at in range(0, len(tasks), step):
        progress("simulator", at, len(tasks))
        batch = tasks[at : at + step]
        scenarios = [
            path_of_mahimahi(task.scenario.model_copy(update={"seed": task.number}), runner=task.case.runner)
            for task in batch
        ]
        with ThreadPoolExecutor(default_threads()) as pool:
            for task, qos in zip(batch, pool.map(_simulated, scenarios), strict=True):
                result = RunResult(key=task.digest, figures=figures_of(task.scenario, qos), series=series_of(qos))
                store.save(task, result)


def _simulated(scenario: Scenario) -> QoS:
    """With its series, which simulate_many does not give."""
    return simulate(scenario, series_every_s=SERIES_EVERY_S)


def _run_on_host(tasks: Sequence[Task], *, campaign: Campaign, progress: Progress) -> list[tuple[Task, str]]:
    """Run them on this machine's kernel; those that failed."""

    def run_each(scenarios: Sequence[Scenario], each: Each) -> None:
        processors = 0 if campaign.alone else None
        host.emulate_each(scenarios, each, series_every_s=SERIES_EVERY_S, processors=processors)

    over = 0

    def told(count: int) -> None:
        nonlocal over
        over += count
        progress("mahimahi", over, len(tasks))

    with kept_awake(), Watch(timers=bool(tasks)) as machine:
        return _run(tasks, store=campaign.store, run_each=run_each, told=told, machine=machine)


def _run_in_guest(tasks: Sequence[Task], *, campaign: Campaign, progress: Progress) -> list[tuple[Task, str]]:
    """Run them in guests, a boot for each batch and one on each processor; those that failed."""
    batches = [tasks[at : at + VM_BATCH] for at in range(0, len(tasks), VM_BATCH)]
    over, counting = 0, threading.Lock()

    def run_each(scenarios: Sequence[Scenario], each: Each) -> None:
        guest.emulate_each(scenarios, each, series_every_s=SERIES_EVERY_S)

    def told(count: int) -> None:
        nonlocal over
        with counting:
            over += count
            progress("vm", over, len(tasks))

    def boot(batch: Sequence[Task]) -> list[tuple[Task, str]]:
        with Watch() as machine:
            return _run(batch, store=campaign.store, run_each=run_each, told=told, machine=machine)

    failed = []
    for its in side_by_side(boot, batches, most=len(os.sched_getaffinity(0))):
        failed += its
    return failed


def _run(
    tasks: Sequence[Task], *, store: Store, run_each: RunEach, told: Callable[[int], None], machine: Watch
) -> list[tuple[Task, str]]:
    """Run and keep them, and those that have no result once more by themselves; those that failed twice.

    told: called with how many more are over.
    """
    if not tasks:
        return []
    told(0)
    failed = []
    for task, _said in _run_once(tasks, store=store, run_each=run_each, told=told, machine=machine):
        failed += _run_once([task], store=store, run_each=run_each, told=lambda _count: None, machine=machine)
        told(1)
    return failed


def _run_once(
    tasks: Sequence[Task], *, store: Store, run_each: RunEach, told: Callable[[int], None], machine: Watch
) -> list[tuple[Task, str]]:
    """Run and keep them; those without a result, and why."""
    lacking = dict.fromkeys(range(len(tasks)), "")

    def each(number: int, found: QoS | EmulationError) -> None:
        if isinstance(found, EmulationError):
            lacking[number] = str(found)
            return
        task = tasks[number]
        figures, series = figures_of(task.scenario, found), series_of(found)
        seen = machine.during_a_run(task.scenario.duration_s)
        store.save(task, RunResult(key=task.digest, figures=figures, machine=seen, origin=task.origin, series=series))
        del lacking[number]
        told(1)

    try:
        run_each([task.scenario for task in tasks], each)
    except EmulationError as error:
        lacking = {number: said or str(error) for number, said in lacking.items()}
    return [(tasks[number], said) for number, said in lacking.items()]

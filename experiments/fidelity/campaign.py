# SPDX-License-Identifier: MIT
"""Makes the missing runs of a campaign, keeps each run as soon as it is over, and reports what could not be run.

    simulated      Runs use all processors and the path of Mahimahi (experiments/fidelity/path.py). The seeds vary the
                   clocks of this path and the random loss.
    mahimahi       As many runs are made in parallel as the processors can carry, or one at a time (`alone`). Runs that
                   start together delay each other's first round trips. HyStart takes 4 ms of delay for a queue.
    vm             A boot makes a batch of up to VM_BATCH runs. There is one boot at a time on each processor. The
                   guests do not disturb each other, because each has its own clock.

A failed run is repeated once, alone, after the others of its batch. If it fails again it is not kept, so the next
campaign repeats it. A runner refuses a scenario with a field that it cannot translate or an algorithm that it does not
have. This is detected before any run, and is not a failure of the campaign.

During runs on this machine's kernel the processors are kept awake (emulation/mahimahi/processors.py). Each result
records how late timers were (emulation/mahimahi/machine.py): Mahimahi's shells deliver late if they wake up late.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from emulation.errors import EmulationError
from emulation.mahimahi import runner as host
from emulation.mahimahi.machine import Watch, is_disturbed
from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.translate import Runner, to_job
from emulation.run.qos import QoS
from emulation.run.simulator import default_threads, simulate
from emulation.scenario.model import Scenario
from emulation.vm import lacking as lacking_for_guests
from emulation.vm import runner as guest
from experiments.fidelity._threads import side_by_side
from experiments.fidelity.path import path_of_mahimahi
from experiments.fidelity.plan import Case
from experiments.fidelity.results import (
    SERIES_EVERY_S,
    RunResult,
    Store,
    Task,
    figures_of,
    series_of,
    tasks_of,
    versions_that_differ,
)

__all__ = ["Campaign", "Outcome", "Progress", "run_missing"]

# Called with the runner's name (or "simulator"), its number of finished runs, and its number of runs.
Progress = Callable[[str, int, int], None]
Each = Callable[[int, QoS | EmulationError], None]
RunEach = Callable[[Sequence[Scenario], Each], None]

VM_BATCH = 6


@dataclass(frozen=True)
class Campaign:
    """What a campaign requires: the cases, the numbers of real and simulated runs of each, and the store of results.

    alone: runs on this machine's kernel are made one at a time. redo_disturbed: disturbed runs on this machine's
    kernel are repeated, and each is replaced when its repetition is over. starts_real_runs: whether missing real runs
    are made. Otherwise only the existing runs are evaluated, and no runner has to be installed.
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
    """The runs of a case.

    asked: the number of real runs that the campaign requires.
    refused: why the missing runs cannot be made; "" if they can.
    failed: the messages of failed runs.
    earlier: the number of runs that other versions of the code made, by a description of these versions.
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
        """The number of missing real runs; 0 for a case that cannot be run."""
        return 0 if self.refused else max(self.asked - len(self.real), 0)


def run_missing(campaign: Campaign, *, progress: Progress, only_kept: bool = False) -> list[Outcome]:
    """Make the runs that are not kept yet, and return the outcome of each case in their order.

    only_kept: make no run. After a KeyboardInterrupt all finished runs are kept.

    Raises:
        EmulationError: the simulator cannot run a scenario, or a kept result is broken.
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
    redo = campaign.redo_disturbed and task.case.runner == "mahimahi"  # guests have their own clocks
    return result is None or (redo and is_disturbed(result.machine))


def refusal(case: Case) -> str:
    """Return why the case's runner cannot run it; "" if it can."""
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
    """Run these tasks in the simulator, in batches, and keep the results."""
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
    """Run a scenario with its series. simulate_many returns no series."""
    return simulate(scenario, series_every_s=SERIES_EVERY_S)


def _run_on_host(tasks: Sequence[Task], *, campaign: Campaign, progress: Progress) -> list[tuple[Task, str]]:
    """Run these tasks on this machine's kernel. Return those that failed, each with its message."""

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
    """Run these tasks in guests, one boot per batch. Return those that failed, each with its message."""
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
    """Run these tasks and keep the results. Repeat each failed one alone, and return those that failed twice.

    told: called with the number of runs that are over since its last call.
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
    """Run these tasks once and keep the results. Return those without a result, each with the reason."""
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

# SPDX-License-Identifier: MIT
"""Makes the missing runs of both sides, keeps each run as soon as it is over, and reports what could not be run.

    simulated      A case runs on the path of Mahimahi (emulation/mahimahi/path.py). The seeds vary the clocks of this
                   path and the random loss.
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
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.pool import ThreadPool

from emulation.errors import EmulationError
from emulation.mahimahi import runner as host
from emulation.mahimahi.machine import Watch, is_disturbed
from emulation.mahimahi.path import path_of_mahimahi
from emulation.mahimahi.processors import kept_awake
from emulation.mahimahi.translate import Runner, to_job
from emulation.run.qos import QoS
from emulation.scenario.model import Scenario
from emulation.vm import lacking as lacking_for_guests
from emulation.vm import runner as guest
from experiments import campaign
from experiments.fidelity.plan import Case
from experiments.fidelity.runs import (
    Figures,
    Run,
    Store,
    Task,
    figures_of,
    tasks_of,
    versions_that_differ,
)

# Called with the runner's name (or "simulator"), its number of finished runs, and its number of runs.
Progress = Callable[[str, int, int], None]
Each = Callable[[int, QoS | EmulationError], None]
RunEach = Callable[[Sequence[Scenario], Each], None]

VM_BATCH = 6


@dataclass(frozen=True)
class Request:
    """What a campaign requires: the cases, the numbers of real and simulated runs of each, and the store of real runs.

    alone: runs on this machine's kernel are made one at a time. redo_disturbed: disturbed runs on this machine's
    kernel are repeated, and each is replaced when its repetition is over. starts_real_runs: whether missing real runs
    are made. Otherwise only the existing runs are evaluated, and no runner has to be installed.
    """

    cases: tuple[Case, ...]
    runs: int
    seeds: int
    store: Store
    simulated: campaign.Store
    alone: bool = False
    redo_disturbed: bool = False
    starts_real_runs: bool = True


@dataclass
class Outcome:
    """The runs of a case.

    required: the number of real runs that the campaign requires.
    refused: why the missing runs cannot be made; "" if they can.
    failed: the messages of failed runs.
    earlier: the number of runs that other versions of the code made, by a description of these versions.
    """

    case: Case
    required: int = 0
    real: list[Run] = field(default_factory=list)
    simulated: list[Figures] = field(default_factory=list)
    refused: str = ""
    failed: list[str] = field(default_factory=list)
    earlier: Counter[str] = field(default_factory=Counter)

    @property
    def missing(self) -> int:
        """The number of missing real runs; 0 for a case that cannot be run."""
        return 0 if self.refused else max(self.required - len(self.real), 0)


def make_runs(request: Request, *, progress: Progress, only_kept: bool = False) -> list[Outcome]:
    """Make the runs that are not kept yet, and return the outcome of each case in their order.

    only_kept: make no run. After a KeyboardInterrupt all finished runs are kept.

    Raises:
        EmulationError: the simulator cannot run a scenario, or a kept result is broken.
    """
    found = {case.key: Outcome(case, required=request.runs * case.times, refused=case.lacks) for case in request.cases}
    real = tasks_of(request.cases, count=request.runs, alone=request.alone)
    missing = [task for task in real if _is_missing(request, task)]
    if request.starts_real_runs:
        for key in {task.case.key for task in missing}:
            found[key].refused = refusal(found[key].case)
    _simulate(request, found, progress=progress, only_kept=only_kept)
    if request.starts_real_runs and not only_kept:
        missing = [task for task in missing if not found[task.case.key].refused]
        for runner, run in (("mahimahi", _run_on_host), ("vm", _run_in_guest)):
            tasks = [task for task in missing if task.case.runner == runner]
            for task, message in run(tasks, request=request, progress=progress):
                found[task.case.key].failed.append(message)
    for task in real:
        if (result := request.store.load(task)) is not None:
            found[task.case.key].real.append(result)
            if differing := versions_that_differ(task, result):
                found[task.case.key].earlier[differing] += 1
    return list(found.values())


def _is_missing(request: Request, task: Task) -> bool:
    result = request.store.load(task)
    redo = request.redo_disturbed and task.case.runner == "mahimahi"  # guests have their own clocks
    return result is None or (redo and is_disturbed(result.machine))


def refusal(case: Case) -> str:
    """Return why the case's runner cannot run it; "" if it can."""
    assert case.scenario is not None  # noqa: S101 (who has no scenario lacks something, which is checked first)
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


def _simulate(request: Request, found: dict[str, Outcome], *, progress: Progress, only_kept: bool) -> None:
    """Run the cases in the simulator, and put the figures into their outcomes."""
    cases = [simulated_case(case, request.seeds * case.times) for case in request.cases if case.scenario is not None]
    for at, case in enumerate(cases, 1):
        for key, columns in request.simulated.run([case], only_kept=only_kept).items():
            rows = zip(*(columns[name].tolist() for name in Figures.model_fields), strict=True)
            found[key[0]].simulated = [Figures(**dict(zip(Figures.model_fields, row, strict=True))) for row in rows]
        progress("simulator", at, len(cases))


def simulated_case(case: Case, seeds: int) -> campaign.Case:
    """The case in the simulator, on the path of Mahimahi."""
    scenario = case.scenario
    assert scenario is not None  # noqa: S101 (as in refusal)

    def scenarios() -> list[Scenario]:
        path = path_of_mahimahi(scenario, runner=case.runner)
        return [path.model_copy(update={"seed": seed}) for seed in range(seeds)]

    return campaign.Case((case.key,), scenarios, lambda _path, qos: figures_of(scenario, qos).model_dump())


def _run_on_host(tasks: Sequence[Task], *, request: Request, progress: Progress) -> list[tuple[Task, str]]:
    """Run these tasks on this machine's kernel. Return those that failed, each with its message."""
    processors = 0 if request.alone else None
    run_each = partial(host.emulate_each, processors=processors)
    with kept_awake(), Watch(timers=bool(tasks)) as machine:
        return _run(tasks, store=request.store, run_each=run_each, over=_Count("mahimahi", tasks, progress),
                    machine=machine)  # fmt: skip


def _run_in_guest(tasks: Sequence[Task], *, request: Request, progress: Progress) -> list[tuple[Task, str]]:
    """Run these tasks in guests, one boot per batch. Return those that failed, each with its message."""
    batches = [tasks[at : at + VM_BATCH] for at in range(0, len(tasks), VM_BATCH)]
    over = _Count("vm", tasks, progress)

    def boot(batch: Sequence[Task]) -> list[tuple[Task, str]]:
        with Watch() as machine:
            return _run(batch, store=request.store, run_each=guest.emulate_each, over=over, machine=machine)

    # Its threads are daemons, so that Ctrl-C ends the program, and thereby the guests.
    with ThreadPool(len(os.sched_getaffinity(0))) as pool:
        return [failed for its in pool.imap_unordered(boot, batches) for failed in its]


class _Count:
    """Counts the finished runs of a runner, from several threads."""

    def __init__(self, runner: str, tasks: Sequence[Task], progress: Progress) -> None:
        self._runner, self._total, self._progress = runner, len(tasks), progress
        self._count, self._lock = 0, threading.Lock()

    def add(self, count: int) -> None:
        """So many more runs are over."""
        with self._lock:
            self._count += count
            self._progress(self._runner, self._count, self._total)


def _run(
    tasks: Sequence[Task], *, store: Store, run_each: RunEach, over: _Count, machine: Watch
) -> list[tuple[Task, str]]:
    """Run these tasks and keep the results. Repeat each failed one alone, and return those that failed twice."""
    if not tasks:
        return []
    over.add(0)
    failed = []
    for task, _message in _run_once(tasks, store=store, run_each=run_each, over=over, machine=machine):
        failed += _run_once([task], store=store, run_each=run_each, over=None, machine=machine)
        over.add(1)
    return failed


def _run_once(
    tasks: Sequence[Task], *, store: Store, run_each: RunEach, over: _Count | None, machine: Watch
) -> list[tuple[Task, str]]:
    """Run these tasks once and keep the results. Return those without a result, each with the reason."""
    lacking = dict.fromkeys(range(len(tasks)), "")

    def each(number: int, found: QoS | EmulationError) -> None:
        if isinstance(found, EmulationError):
            lacking[number] = str(found)
            return
        task = tasks[number]
        seen = machine.during_a_run(task.scenario.duration_s)
        store.save(task, task.run_of(figures_of(task.scenario, found), seen))
        del lacking[number]
        if over is not None:
            over.add(1)

    try:
        run_each([task.scenario for task in tasks], each)
    except EmulationError as error:
        lacking = {number: message or str(error) for number, message in lacking.items()}
    return [(tasks[number], message) for number, message in lacking.items()]

# SPDX-License-Identifier: MIT
"""Runs what a campaign lacks, keeps each run as soon as it is over, and says what could not be run.

    simulated      all at once, on all processors, on the path that Mahimahi gives (emulation/fidelity/path.py); the
                   seeds differ by the jitter of its clock
    mahimahi       groups of runs that the processors carry side by side, or one by one (`alone`: runs that start
                   together disturb each other's first round trips, in which HyStart looks for 4 ms); a group that
                   fails is run again one by one
    vm             batches of VM_BATCH runs, one boot each, a boot on each processor: a guest by its own clock does not
                   feel the others; a batch that fails is run again one by one, too

What a runner refuses (a field that it cannot translate, an algorithm that it does not have) is found out before any
run, and is no failure of the campaign. A run that fails is not kept, so that the next campaign tries it again.

How idle the machine was during a run on its own kernel stands in its result: Mahimahi's shells that do not wake up in
their ms deliver late. A run is disturbed where less than IDLE_LEAST of the processors' time was idle; runs of our own
take at most half of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from emulation.errors import EmulationError
from emulation.fidelity._threads import side_by_side
from emulation.fidelity.path import path_of_mahimahi
from emulation.fidelity.plan import Case
from emulation.fidelity.results import (
    SERIES_EVERY_S,
    Machine,
    RunResult,
    Store,
    Task,
    figures_of,
    series_of,
    tasks_of,
)
from emulation.mahimahi import runner as host
from emulation.mahimahi.translate import Runner, to_job
from emulation.qos import QoS
from emulation.scenario import Scenario
from emulation.simulator import default_threads, simulate
from emulation.vm import lacking as lacking_for_guests
from emulation.vm import runner as guest

__all__ = ["IDLE_LEAST", "Campaign", "Outcome", "Progress", "run_missing"]

# Called with what runs, how many runs of it are over, and how many there are.
Progress = Callable[[str, int, int], None]
RunMany = Callable[[Sequence[Scenario]], list[QoS]]

IDLE_LEAST = 0.25
VM_BATCH = 6
# Fields of the line `cpu` in /proc/stat: idle, and waiting for a disk.
_IDLE_FIELDS = (3, 4)


@dataclass(frozen=True)
class Campaign:
    """What is asked for: cases, how many real and how many simulated runs of each, and where results are kept.

    alone: no two runs at a time on this machine's kernel.
    """

    cases: tuple[Case, ...]
    runs: int
    seeds: int
    store: Store
    alone: bool = False


@dataclass
class Outcome:
    """What there is of a case. refused: why its runner cannot run it; failed: what its runs that failed said."""

    case: Case
    real: list[RunResult] = field(default_factory=list)
    simulated: list[RunResult] = field(default_factory=list)
    refused: str = ""
    failed: list[str] = field(default_factory=list)


def run_missing(campaign: Campaign, *, progress: Progress, only_kept: bool = False) -> list[Outcome]:
    """Run what is not kept yet (only_kept: nothing); what there is of each case, in their order.

    A KeyboardInterrupt leaves all runs kept that were over.

    Raises:
        EmulationError: the simulator cannot run a scenario, a kept result is broken.
    """
    outcomes = {case.key: Outcome(case) for case in campaign.cases}
    runnable = []
    for case in campaign.cases:
        outcomes[case.key].refused = case.lacks or refusal(case)
        if not outcomes[case.key].refused:
            runnable.append(case)
    real = tasks_of(runnable, side="real", count=campaign.runs)
    simulated = tasks_of(campaign.cases, side="simulated", count=campaign.seeds)
    if not only_kept:
        missing = [task for task in simulated if campaign.store.load(task) is None]
        _simulate(missing, store=campaign.store, progress=progress)
        missing = [task for task in real if campaign.store.load(task) is None]
        on_host = [task for task in missing if task.case.runner == "mahimahi"]
        in_guest = [task for task in missing if task.case.runner == "vm"]
        failed = chain(
            _run_on_host(on_host, store=campaign.store, progress=progress, alone=campaign.alone),
            _run_in_guest(in_guest, store=campaign.store, progress=progress),
        )
        for task, said in failed:
            outcomes[task.case.key].failed.append(said)
    for task in (*real, *simulated):
        result = campaign.store.load(task)
        if result is not None:
            outcome = outcomes[task.case.key]
            (outcome.real if task.side == "real" else outcome.simulated).append(result)
    return list(outcomes.values())


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


def _run_on_host(tasks: Sequence[Task], *, store: Store, progress: Progress, alone: bool) -> Iterator[tuple[Task, str]]:
    """Run them on this machine's kernel; gives those that failed."""
    # A part of a processor carries one run.
    processors = 0 if alone else len(os.sched_getaffinity(0))
    at = 0
    while at < len(tasks):
        progress("mahimahi", at, len(tasks))
        count = host.side_by_side([task.scenario for task in tasks[at:]], processors)
        yield from _run_batch(tasks[at : at + count], store=store, run_many=_on_host)
        at += count


def _run_in_guest(tasks: Sequence[Task], *, store: Store, progress: Progress) -> Iterator[tuple[Task, str]]:
    """Run them in guests, a boot for each batch and one on each processor; gives those that failed."""
    batches = [tasks[at : at + VM_BATCH] for at in range(0, len(tasks), VM_BATCH)]
    over = [0] * len(batches)

    def boot(number: int) -> list[tuple[Task, str]]:
        def told(done: int) -> None:
            over[number] = done
            progress("vm", sum(over), len(tasks))

        def run(scenarios: Sequence[Scenario]) -> list[QoS]:
            return guest.emulate_many(scenarios, series_every_s=SERIES_EVERY_S, progress=told)

        failed = list(_run_batch(batches[number], store=store, run_many=run))
        told(len(batches[number]))
        return failed

    if batches:
        progress("vm", 0, len(tasks))
    for failed in side_by_side(boot, range(len(batches)), most=len(os.sched_getaffinity(0))):
        yield from failed


def _on_host(scenarios: Sequence[Scenario]) -> list[QoS]:
    return host.emulate_many(scenarios, series_every_s=SERIES_EVERY_S)


def _run_batch(tasks: Sequence[Task], *, store: Store, run_many: RunMany) -> Iterator[tuple[Task, str]]:
    """Run and keep them together, and where that fails one by one; gives those that failed by themselves."""
    try:
        with _watched() as machine:
            found = run_many([task.scenario for task in tasks])
    except EmulationError as error:
        if len(tasks) == 1:
            yield tasks[0], str(error)
            return
        for task in tasks:
            yield from _run_batch([task], store=store, run_many=run_many)
        return
    for task, qos in zip(tasks, found, strict=True):
        figures = figures_of(task.scenario, qos)
        store.save(task, RunResult(key=task.digest, figures=figures, machine=machine[0], series=series_of(qos)))


def _times() -> tuple[int, int]:
    """(idle, all) ticks of the processors so far."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return sum(fields[at] for at in _IDLE_FIELDS), sum(fields)


@contextmanager
def _watched() -> Iterator[list[Machine]]:
    """Gives a list that holds, afterwards, what the machine did meanwhile."""
    machine: list[Machine] = []
    idle, ticks = _times()
    yield machine
    idle_after, ticks_after = _times()
    share = (idle_after - idle) / max(ticks_after - ticks, 1)
    machine.append(Machine(idle_share=round(share, 3), load=round(os.getloadavg()[0], 2)))

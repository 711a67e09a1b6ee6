# SPDX-License-Identifier: MIT
"""Runs scenarios over Mahimahi in the virtual machine, with the kernel modules of this repository loaded.

    emulate_many(scenarios, line="6.12") -> list[QoS]

One boot serves all scenarios, which run one after the other. The guest has a clock of its own (`own_clock` of
run_in_guest). So its computations cost its flows the same time on any machine, busy or not, and a run may take longer
than its duration. The algorithms that params.def marks as modules are those of this repository. reno, cubic and bbr
(version 1) are the kernel's. Parameters, ensemble and clients of R-TCP belong to the network namespace of a run, and
are removed with it. This process removes the folder of jobs and results; if it is killed, the next one that starts
does (_folder.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

from emulation.errors import EmulationError
from emulation.mahimahi.in_bpf import KERNELS_OWN
from emulation.mahimahi.measure import to_qos
from emulation.mahimahi.process import BARE_PYTHON, launch_words
from emulation.mahimahi.runner import Each, Progress, in_order
from emulation.mahimahi.translate import Runner, to_job
from emulation.run.qos import QoS
from emulation.scenario.model import Scenario
from emulation.vm._folder import owned_folder
from emulation.vm.guest import run_in_guest
from emulation.vm.kernels import FULL_LINE, mahimahi_root
from emulation.vm.modules import build_modules, load_order
from kmod.abi import ALGORITHMS

# `cubic` and `bbr` of a scenario are the kernel's own.
_WITH_MODULE = frozenset(name for name, algorithm in ALGORITHMS.items() if algorithm.module and name not in KERNELS_OWN)
_ALGORITHMS = {
    **{name: ALGORITHMS[name].kernel_name for name in sorted(_WITH_MODULE)}, **{name: name for name in KERNELS_OWN}
}  # fmt: skip
_LEAD_MS = 3000
_SAMPLE_S = 0.05
_BOOT_S = 300.0
# Upper bound on this machine's time per second of the guest's time.
_SLOWER = 20
_RUN_S = 15.0
_LOOK_S = 0.5
_FOLDERS = "ccatune-runs-"
_RUNS = Path(__file__).with_name("runs.py")


def guest_runner() -> Runner:
    """What the guest's kernel supports. Raises EmulationError if Mahimahi was not downloaded."""
    return Runner(
        name="vm",
        algorithms=_ALGORITHMS,
        tunable=_WITH_MODULE,
        lead_ms=_LEAD_MS,
        sample_s=_SAMPLE_S,
        mahimahi=str(mahimahi_root()),
    )


def _run_all(jobs: list[dict[str, Any]], *, line: str, folder: Path, timeout_s: float) -> None:
    modules = build_modules(line).paths
    work = {"modules": [str(modules[name]) for name in load_order(modules)], "launch": launch_words(), "jobs": jobs}
    (folder / "jobs.json").write_text(json.dumps(work), encoding="utf-8")
    done = run_in_guest(line, [*BARE_PYTHON, str(_RUNS)], timeout_s=timeout_s, files=folder, own_clock=True)
    if done.status:
        raise EmulationError(f"vm: expected the guest to run the scenarios, it ended with {done.status}: {done.stderr}")


def _report(folder: Path, waiting: dict[int, Scenario], each: Each, series_every_s: float | None) -> None:
    """Report the results that the guest has written into the folder, and remove their scenarios from `waiting`."""
    for number, scenario in list(waiting.items()):
        path = folder / f"result-{number}.json"
        if not path.exists():
            continue
        del waiting[number]
        result = json.loads(path.read_text(encoding="utf-8"))
        if "error" in result:
            each(number, EmulationError(f"{scenario.name}: {result['error']}"))
        else:
            each(number, to_qos(scenario, result, series_every_s=series_every_s))


def emulate_each(
    scenarios: Sequence[Scenario], each: Each, *, line: str = FULL_LINE, series_every_s: float | None = None
) -> None:
    """Run scenarios in the guest of a kernel line and report each result as soon as it exists.

    Raises EmulationError if the machine lacks something, a scenario needs what the runner does not support, or the
    guest ended before all runs were over; the results of the completed runs are reported nevertheless.
    """
    runner = guest_runner()
    jobs = [to_job(scenario, runner) for scenario in scenarios]
    timeout_s = _BOOT_S + _SLOWER * sum(scenario.duration_s + _RUN_S for scenario in scenarios)
    waiting = dict(enumerate(scenarios))
    over = Event()

    def watch(folder: Path) -> None:
        while not over.wait(_LOOK_S):
            _report(folder, waiting, each, series_every_s)
        _report(folder, waiting, each, series_every_s)

    # The guest belongs to the thread that calls, which alone receives KeyboardInterrupt, and then ends the guest.
    with owned_folder(_FOLDERS) as folder, ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch, folder)
        try:
            _run_all(jobs, line=line, folder=folder, timeout_s=timeout_s)
        finally:
            over.set()
            watcher.result()


def emulate_many(
    scenarios: Sequence[Scenario],
    *,
    line: str = FULL_LINE,
    series_every_s: float | None = None,
    progress: Progress | None = None,
) -> list[QoS]:
    """Run scenarios in the guest of a kernel line; return the results in the order of the scenarios.

    progress: called with the number of completed runs.

    Raises EmulationError as `emulate_each` does, and if a run failed.
    """
    return in_order(
        lambda each: emulate_each(scenarios, each, line=line, series_every_s=series_every_s), progress=progress
    )

# SPDX-License-Identifier: MIT
"""Runs scenarios over Mahimahi on this machine's own kernel, as many in parallel as its processors can carry.

    emulate_many(scenarios) -> list[QoS]

The processors that a run keeps busy are estimated from its link's rate (`cores_of`): _CORES_IDLE for the shells, which
wake up every ms, and _CORES_PER_MBPS for the packets that pass them. Measured values are 0.22 processors at 12 Mbit/s
and 0.30 at 50 Mbit/s. Runs start as long as the sum is at most _USABLE of the processors, so that the shells find a
free processor in time. At least one run is always active.

GR, ROCCET, R-TCP and BBRv3 are the kernel's where it has ccatune's modules. Otherwise they are loaded in BPF for the
time of the runs, as Vegas is in any case (emulation/mahimahi/in_bpf.py). `cubic` and `bbr` of a scenario are the
kernel's own.

Everything of a run is in its own namespaces, and nothing is left when this process ends, by whatever signal
(emulation/mahimahi/process.py).
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulation.errors import EmulationError
from emulation.mahimahi import in_bpf
from emulation.mahimahi.in_bpf import InBpf, available_ccas, can_share
from emulation.mahimahi.measure import to_qos
from emulation.mahimahi.process import SYSTEM_PATH, RunProcess, run_queue
from emulation.mahimahi.translate import Files, Runner, files_in_bpf, rate_mbps_of, to_job
from emulation.run.qos import QoS
from emulation.scenario.model import LinkSpec, Scenario
from emulation.vm.kernels import GuestError, mahimahi_root
from kmod.bpf_host import BPF_CCAS

Progress = Callable[[int], None]
# Called with a run's number and its result, or the error of a failed run, as soon as the run is over.
Each = Callable[[int, QoS | EmulationError], None]

# Linux' names of the scenario's algorithms. Linux' bbr is version 1.
SHELLS = ("mm-delay", "mm-link", "mm-loss")
_PROGRAMS = ("iptables", "ip", "ldconfig", "mount", "nft", "nsenter", "setpriv", "sysctl", "unshare")
_CORES_IDLE = 0.2
_CORES_PER_MBPS = 0.0025
_USABLE = 0.5
_GRACE_S = 60.0


def _installed() -> bool:
    return all(shutil.which(name, path=SYSTEM_PATH) for name in SHELLS)


def shell_paths() -> list[Path]:
    """Return the paths of Mahimahi's shells: those installed on the machine, or else those that `make setup` fetched.

    Raises GuestError if there are neither.
    """
    if _installed():
        return [Path(str(shutil.which(name, path=SYSTEM_PATH))) for name in SHELLS]
    return [mahimahi_root() / "usr" / "bin" / name for name in SHELLS]


def lacking() -> str:
    """Return what this machine lacks to run Mahimahi's links and how to get it; "" if nothing."""
    if os.geteuid() != 0:
        return "needs root, for namespaces and Mahimahi's shells; run it with sudo"
    programs = [name for name in _PROGRAMS if shutil.which(name, path=SYSTEM_PATH) is None]
    if programs:
        return f"not installed: {', '.join(programs)}; run `make setup`"
    if not Path("/dev/net/tun").exists():
        return "no /dev/net/tun; run `modprobe tun`"
    try:
        if not _installed():
            mahimahi_root()
    except GuestError as error:
        return str(error)
    return ""


def host_runner() -> Runner:
    """Return the runner for this machine's kernel, with the algorithms that the kernel has or can load in BPF.

    Raises EmulationError if something is missing. The message says how to get it.
    """
    lacks = lacking()
    if lacks:
        raise EmulationError(f"mahimahi: {lacks}")
    available = available_ccas()
    modules = frozenset(cca for cca in in_bpf.CCAS if available.get(BPF_CCAS[cca]))
    lacks = in_bpf.lacking()
    loadable = frozenset() if lacks else frozenset(in_bpf.CCAS) - modules
    own = [cca for cca in in_bpf.CCAS if cca in modules | loadable]
    return Runner(
        name="mahimahi",
        algorithms={
            **{name: name for name in in_bpf.KERNELS_OWN if name in available},
            **{cca: BPF_CCAS[cca] for cca in own},
        },
        tunable=modules | loadable,
        in_bpf=loadable,
        remedies={
            **{cca: lacks for cca in in_bpf.CCAS if cca not in own},
            "proxy": "install the package haproxy, or use the simulator",
        },
        mahimahi="" if _installed() else str(mahimahi_root()),
        haproxy=shutil.which("haproxy", path=SYSTEM_PATH) or "",
    )


def cores_of(scenario: Scenario) -> float:
    """Estimate the number of processors that a run keeps busy."""
    of_servers = 0.0 if scenario.proxy is None else _cores_of(scenario.proxy.link)
    return _cores_of(scenario.link) + of_servers


def _cores_of(link: LinkSpec) -> float:
    return _CORES_IDLE + _CORES_PER_MBPS * rate_mbps_of(link)


def side_by_side(scenarios: Sequence[Scenario], processors: int) -> int:
    """Return how many of the first of these scenarios may run at the same time: at least one."""
    most = _USABLE * processors
    used, count = 0.0, 0
    for scenario in scenarios:
        used += cores_of(scenario)
        if used > most:
            break
        count += 1
    return max(count, 1)


@dataclass(frozen=True, eq=False)
class _Planned:
    """A run that has not been started. files: those that it needs in force in BPF, by algorithm."""

    number: int
    scenario: Scenario
    job: dict[str, Any]
    files: Mapping[str, Files]


@dataclass(frozen=True, eq=False)
class _Run:
    """A run that has been started."""

    planned: _Planned
    process: RunProcess

    def close(self) -> None:
        """End the run."""
        self.process.close()

    def qos(self, *, series_every_s: float | None) -> QoS:
        """Return the QoS of a run that is over. Raises EmulationError, with the scenario's name, if there is none."""
        scenario = self.planned.scenario
        try:
            result = self.process.result()
        except EmulationError as error:
            raise EmulationError(f"{scenario.name}: {error}") from error
        return to_qos(scenario, result, series_every_s=series_every_s)


def _run_all(
    waiting: deque[_Planned], each: Each, *, bpf: InBpf, series_every_s: float | None, processors: int
) -> None:
    """Start the runs in their order, and call `each` as soon as one is over."""

    def may_start(planned: _Planned, running: Sequence[_Run]) -> bool:
        """Whether the run may start beside the running ones.

        The processors must have room for one more run, and no running one may use the same BPF algorithm with other
        parameters or another ensemble.
        """
        wanted = [*(run.planned.scenario for run in running), planned.scenario]
        return side_by_side(wanted, processors) == len(wanted) and all(
            can_share(planned.files, run.planned.files) for run in running
        )

    def start(planned: _Planned) -> _Run | None:
        try:
            bpf.put_in_force(planned.files)
        except EmulationError as error:
            each(planned.number, EmulationError(f"{planned.scenario.name}: {error}"))
            return None
        return _Run(planned, RunProcess(planned.job, limit_s=planned.scenario.duration_s + _GRACE_S))

    def finish(run: _Run) -> None:
        try:
            found: QoS | EmulationError = run.qos(series_every_s=series_every_s)
        except EmulationError as error:
            found = error
        each(run.planned.number, found)

    run_queue(waiting, may_start=may_start, start=start, finish=finish)


def emulate_each(
    scenarios: Sequence[Scenario],
    each: Each,
    *,
    series_every_s: float | None = None,
    processors: int | None = None,
) -> None:
    """Run scenarios over Mahimahi and call `each` as soon as a run is over. A failed run does not end the others.

    processors: how many processors the runs may share (None: all that this process may use; 0: one run at a time).

    Raises EmulationError if the machine lacks something, or a scenario requires something that the runner cannot do.
    """
    runner = host_runner()
    waiting = deque(
        _Planned(number, scenario, to_job(scenario, runner), files_in_bpf(scenario, runner))
        for number, scenario in enumerate(scenarios)
    )
    if processors is None:
        processors = len(os.sched_getaffinity(0))

    with InBpf({cca for planned in waiting for cca in planned.files}) as bpf:
        _run_all(waiting, each, bpf=bpf, series_every_s=series_every_s, processors=processors)


def emulate_in(bpf: InBpf, scenario: Scenario, *, series_every_s: float | None = None) -> QoS:
    """Run one scenario over Mahimahi with algorithms that the caller has loaded.

    Their parameters and ensembles stay as they are. The scenario should state the same ones.

    Raises EmulationError as `emulate_many` does.
    """
    waiting = deque([_Planned(0, scenario, to_job(scenario, host_runner()), files={})])
    return in_order(lambda each: _run_all(waiting, each, bpf=bpf, series_every_s=series_every_s, processors=0))[0]


def emulate_many(
    scenarios: Sequence[Scenario],
    *,
    series_every_s: float | None = None,
    processors: int | None = None,
    progress: Progress | None = None,
) -> list[QoS]:
    """Run scenarios over Mahimahi and return the results in their order.

    processors: as for `emulate_each`. progress: called with the number of finished runs.

    Raises EmulationError as `emulate_each` does, and if a run failed. A failed run ends the others.
    """
    return in_order(
        lambda each: emulate_each(scenarios, each, series_every_s=series_every_s, processors=processors),
        progress=progress,
    )


def in_order(run_each: Callable[[Each], None], *, progress: Progress | None = None) -> list[QoS]:
    """Call run_each with a function that collects the results of its runs, and return them in their order.

    progress: called with the number of finished runs. A failed run ends the others.
    """
    results: dict[int, QoS] = {}

    def each(number: int, found: QoS | EmulationError) -> None:
        if isinstance(found, EmulationError):
            raise found
        results[number] = found
        if progress is not None:
            progress(len(results))

    run_each(each)
    return [results[number] for number in sorted(results)]

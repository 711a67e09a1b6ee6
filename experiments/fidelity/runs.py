# SPDX-License-Identifier: MIT
"""The runs of a case on a real kernel, and the store that keeps them.

A run is a file. It counts for a case as long as the scenario and everything that made it are the same:

    any run               kernel release, Mahimahi's programs, the bytes of the runner's sources, whether it ran alone
    run on this machine   of an algorithm of ccatune its object in BPF or its module
    run in the guest      the bytes of kmod/core and kmod/linux

A record is one file with the undisturbed runs of a campaign, one per line. It makes runs that
took hours available on other machines and to later versions of the code: a recorded run counts as long as the scenario
is the same. The report says which of them other versions made.

The figures:

    throughput             throughput of the link, in Mbit/s; the goodput if a policer or shaper follows the link,
                           because it drops packets that the link has carried
    queueing delay         95th percentile, in ms
    retransmission rate    retransmitted segments / sent segments
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emulation.errors import EmulationError
from emulation.mahimahi import in_bpf
from emulation.mahimahi.machine import Machine, is_disturbed
from emulation.mahimahi.runner import SHELLS, shell_paths
from emulation.run.qos import QoS
from emulation.scenario.model import Scenario, canonical_text
from emulation.vm.kernels import FULL_LINE, GuestError, kernel_line, mahimahi_root
from experiments.campaign import digest_of_files, sources_digest
from experiments.fidelity.plan import Case
from kmod.ensemble import write_atomically

_SOURCES = {
    "mahimahi": ("emulation/run/qos.py", "emulation/mahimahi/**/*.py", "experiments/fidelity/runs.py"),
    "vm": (
        "emulation/run/qos.py",
        "experiments/fidelity/runs.py",
        "emulation/mahimahi/**/*.py",
        "emulation/vm/**/*.py",
    ),
    "modules": ("kmod/core/*", "kmod/linux/*"),
}


class Figures(BaseModel):
    """The figures of a run. The module's docstring defines the first three."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    throughput_mbps: float
    queueing_delay_p95_ms: float
    retransmission_rate: float
    goodput_mbps: float
    queueing_delay_p50_ms: float
    rtt_p50_ms: float
    timeouts: int


class Run(BaseModel):
    """A run on a real kernel, and what made it. scenario: the digest of the scenario."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: str
    number: int = Field(ge=0)
    scenario: str
    made_with: dict[str, str] = Field(description="version of each thing that the run depends on, by its name")
    figures: Figures
    machine: Machine | None = None


@dataclass(frozen=True)
class Task:
    """A real run that a campaign requires. alone: no other run takes place at the same time."""

    case: Case
    number: int
    alone: bool = False

    @property
    def scenario(self) -> Scenario:
        """The scenario of the case. Every case of a task has one."""
        assert self.case.scenario is not None  # noqa: S101 (tasks_of makes no task without)
        return self.case.scenario

    @cached_property
    def digest(self) -> str:
        """The digest of the scenario, whose name and seed do not count."""
        nameless = self.scenario.model_copy(update={"name": "", "seed": 0})
        return hashlib.sha256(canonical_text(nameless).encode()).hexdigest()

    @cached_property
    def made_with(self) -> dict[str, str]:
        """The versions that the run would have here."""
        found = versions(self.case.runner, tuple(sorted({flow.cca for flow in self.scenario.flows})))
        return {**found, **({"alone": "yes"} if self.alone else {})}

    @property
    def file_name(self) -> str:
        """The name of the run's file. Runs of another scenario or of other versions have other files."""
        digest = hashlib.sha256(repr([self.digest, sorted(self.made_with.items())]).encode()).hexdigest()
        return f"{self.case.key.replace('/', '-')}-{self.number}-{digest[:16]}.json"

    def run_of(self, figures: Figures, machine: Machine) -> Run:
        """The run, with its results."""
        return Run(case=self.case.key, number=self.number, scenario=self.digest, made_with=self.made_with,
                   figures=figures, machine=machine)  # fmt: skip


def tasks_of(cases: Sequence[Case], *, count: int, alone: bool = False) -> list[Task]:
    """The real runs of all cases that have a scenario: the first run of each case, then the second of each, and so on.

    An interrupted campaign thus has some runs of every case. count: the runs of each case, to be multiplied by the
    case's `times`. alone: runs on this machine's kernel are made one at a time.
    """
    return [
        Task(case, number, alone and case.runner == "mahimahi")
        for number in range(count * max((case.times for case in cases), default=1)) for case in cases
        if case.scenario is not None and number < count * case.times
    ]  # fmt: skip


def figures_of(scenario: Scenario, qos: QoS) -> Figures:
    """Return the figures of a run of this scenario."""
    drops_behind = any(element.kind in {"policer", "shaper"} for element in scenario.link.behind)
    return Figures(
        throughput_mbps=qos.goodput_mbps if drops_behind else qos.throughput_mbps,
        queueing_delay_p95_ms=qos.queueing_delay.percentile_ms(95),
        retransmission_rate=qos.retransmission_rate,
        goodput_mbps=qos.goodput_mbps,
        queueing_delay_p50_ms=qos.queueing_delay.percentile_ms(50),
        rtt_p50_ms=qos.flows[0].rtt.percentile_ms(50),
        timeouts=sum(flow.timeouts for flow in qos.flows),
    )


@cache
def versions(runner: str, algorithms: tuple[str, ...]) -> dict[str, str]:
    """The version of each thing that the real runs of these algorithms depend on, by its name; "": it is missing."""
    found = {"runner": runner, "kernel": platform.release()}
    shells: Sequence[Path] = ()
    try:
        if runner == "vm":
            found |= {"kernel": "", "modules": sources_digest(*_SOURCES["modules"])}
            found["kernel"] = kernel_line(FULL_LINE).release
        else:
            found |= {cca: in_bpf.version_here(cca) for cca in algorithms if cca in in_bpf.CCAS}
        shells = [mahimahi_root() / "usr" / "bin" / name for name in SHELLS] if runner == "vm" else shell_paths()
    except GuestError:
        pass  # no run is possible, so that the versions do not count
    return {
        **found,
        "mahimahi": digest_of_files(shells) if shells else "",
        "runner's sources": sources_digest(*_SOURCES[runner]),
    }


def versions_that_differ(task: Task, run: Run) -> str:
    """Name the versions that made a run and that differ from the present ones; "" if none differs."""
    if not run.made_with:
        return "versions that the file does not name"
    return ", ".join(
        f"{name} {_short(run.made_with.get(name, ''))} (here {_short(here)})"
        for name, here in task.made_with.items() if run.made_with.get(name) != here
    )  # fmt: skip


def _short(version: str) -> str:
    """Shorten a digest to its first twelve digits."""
    return version[:12] if re.fullmatch("[0-9a-f]{64}", version) else version or "unknown"


class Store:
    """The folder of kept runs, which is created when needed. record: its runs take precedence over kept ones."""

    def __init__(self, folder: Path, *, record: Iterable[Run] = ()) -> None:
        self._folder = folder
        self._record = {(run.case, run.scenario, run.number): run for run in record}

    def load(self, task: Task) -> Run | None:
        """The result of a run; None: there is none.

        An undisturbed recorded run comes first, then the kept run, then a disturbed recorded run.

        Raises:
            EmulationError: the file of the kept run was not written by a store.
        """
        recorded = self._record.get((task.case.key, task.digest, task.number))
        path = self._folder / task.file_name
        if (recorded is not None and not is_disturbed(recorded.machine)) or not path.exists():
            return recorded
        try:
            run = Run.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise EmulationError(f"{path}: expected a run's result, got other text; remove the file") from error
        is_same = (run.case, run.scenario, run.made_with) == (task.case.key, task.digest, task.made_with)
        return run if is_same else recorded

    def save(self, task: Task, run: Run) -> None:
        """Keep the result of a run. The file is written atomically."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / task.file_name, run.model_dump_json().encode() + b"\n")


def read_record(path: Path) -> list[Run]:
    """Read all runs of a record.

    Raises:
        EmulationError: the file cannot be read, or a line is not a recorded run.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EmulationError(f"{path}: expected recorded runs, got none ({reason})") from error
    runs = []
    for number, line in enumerate(lines, start=1):
        try:
            runs.append(Run.model_validate_json(line))
        except ValidationError as error:
            raise EmulationError(f"{path}: line {number}: expected a recorded run, got other text") from error
    return runs


def write_record(path: Path, runs: Iterable[Run]) -> None:
    """Write the undisturbed runs into a record, atomically.

    Raises:
        EmulationError: the file cannot be written.
    """
    lines = (run.model_dump_json() for run in runs if not is_disturbed(run.machine))
    try:
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    except OSError as error:
        raise EmulationError(f"{path}: cannot be written ({error.strerror})") from error

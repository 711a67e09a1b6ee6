# SPDX-License-Identifier: MIT
"""The results of a campaign's runs, and the store that keeps them.

Each run is kept in one file. The file's name contains a digest, the key, of everything that the run depends on:

    any run                         the scenario, emulation/run/qos.py (which computes the figures)
    simulated run                   the engine's sources, emulation/run/simulator.py, the sources that build the path of
                                    Mahimahi, the seed
    real run                        the kernel release, Mahimahi's programs, the runner's sources including its programs
                                    in the namespace, the run's number, whether it ran alone
    real run on this machine        also emulation/mahimahi/processors.py, which keeps the processors awake. With GR or
                                    ROCCET also their objects of BPF, or their modules
    real run in the guest           also the sources of its algorithms' kernel modules (see module_sources)

Only the tokens of sources count (emulation/source_tokens.py), so comments and formatting do not change a key.
The scenario's name does not count. Its trace counts by the times in it, its flows by the values of their parameters.

A record is one file with the undisturbed real runs of a campaign, one per line, without their series.
It makes runs that took hours on a kernel available on other machines and to later versions of the code.
A recorded run is looked up by its case and number. If its line states the scenario, and whether the run was alone,
these must match, too. The key of a recorded run only shows whether it was made by the present versions.
The line also names the versions that made it.

The figures:

    throughput             throughput of the link, in Mbit/s; the goodput if a policer or shaper follows the link,
                           because it drops packets that the link has carried
    queueing delay         95th percentile, in ms
    retransmission rate    retransmitted segments / sent segments
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emulation import _engine
from emulation.errors import EmulationError
from emulation.mahimahi import in_bpf
from emulation.mahimahi.machine import Machine, is_disturbed
from emulation.mahimahi.runner import SHELLS, shell_paths
from emulation.run.qos import QoS
from emulation.scenario.model import Scenario
from emulation.source_tokens import c_tokens, digest_of_texts
from emulation.vm.kernels import FULL_LINE, GuestError, kernel_line, mahimahi_root
from experiments.fidelity.plan import Case
from kmod.ensemble import write_atomically

__all__ = [
    "SERIES_EVERY_S",
    "Figures",
    "Record",
    "RunResult",
    "Store",
    "Task",
    "figures_of",
    "series_of",
    "tasks_of",
    "versions_that_differ",
    "write_record",
]

Side = Literal["real", "simulated"]

# Increase this number when a figure is added or computed differently.
FORMAT = 1
# Scenario fields that were added after the first runs were kept, each with its default.
LATER = (("client_keep_s", 600.0), ("after", None))
SERIES_EVERY_S = 0.1
SERIES_KEPT = ("time_s", "rate_mbps", "rtt_ms", "queueing_delay_ms", "cwnd_pkts", "pacing_mbps", "retransmitted_pkts")
EMULATION = Path(__file__).resolve().parents[2] / "emulation"
_INCLUDE = re.compile(r'^# include "([^"]+)"$', re.MULTILINE)  # applies to the output of c_tokens
# What params.def and params.h have for each algorithm. The name is that of the algorithm.
_ENTRY = re.compile(rb"(?:CCA_(?:ALGORITHM|AXIS|PARAM)\(|#if .*== CCA_ID_|#define CCA_ID_)(\w+)")
_SOURCES: dict[str, tuple[str, ...]] = {
    "mahimahi": ("emulation/run/qos.py", "emulation/mahimahi", "emulation/mahimahi/processors.py"),
    # The sources of the kernel modules are added by _versions (see module_sources).
    "vm": ("emulation/run/qos.py", "emulation/mahimahi", "emulation/vm"),
    "simulated": (
        "emulation/run/qos.py",
        "emulation/run/simulator.py",
        "experiments/fidelity/path.py",
        "emulation/mahimahi/clock.py",
        "emulation/mahimahi/translate.py",
    ),
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


class Origin(BaseModel):
    """Identifies a real run within its case, and names the versions that made it.

    Older records contain no origins. The number of such a run is its position among the lines of its case, and the
    other fields are unknown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = Field(ge=0)
    scenario: str | None = Field(None, description="digest of the scenario's content")
    alone: bool | None = None
    made_with: dict[str, str] = Field({}, description="version of each thing that the run depends on, by its name")


class RunResult(BaseModel):
    """The result of a run. Only real runs have `machine` and `origin`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    figures: Figures
    machine: Machine | None = None
    origin: Origin | None = None
    series: dict[str, list[float]] = Field({}, description="columns of emulation.run.qos.SERIES, every SERIES_EVERY_S")


class RecordedRun(BaseModel):
    """One line of a record."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case: str
    key: str
    figures: Figures
    machine: Machine | None = None
    origin: Origin | None = None


@dataclass(frozen=True)
class Task:
    """A run that a campaign requires.

    number: the number of a real run, or the seed of a simulated one. digest: the key of the run (see the module's
    docstring). origin: the origin that the run gets if it is made here.
    """

    case: Case
    side: Side
    number: int
    digest: str
    origin: Origin

    @property
    def scenario(self) -> Scenario:
        """The scenario of the case. Every case of a task has one."""
        assert self.case.scenario is not None  # noqa: S101 (tasks_of makes no task without)
        return self.case.scenario

    @property
    def file_name(self) -> str:
        """A readable file name that ends in the first digits of the run's key."""
        name = self.case.key.replace("/", "-")
        return f"{name}-{self.side}-{self.number}-{self.digest[:16]}.json"


def throughput_of(scenario: Scenario, qos: QoS) -> float:
    """The throughput figure in Mbit/s, as the module's docstring defines it."""
    drops_behind = any(element.kind in {"policer", "shaper"} for element in scenario.link.behind)
    return qos.goodput_mbps if drops_behind else qos.throughput_mbps


def figures_of(scenario: Scenario, qos: QoS) -> Figures:
    """Return the figures of a run of this scenario."""
    return Figures(
        throughput_mbps=throughput_of(scenario, qos),
        queueing_delay_p95_ms=qos.queueing_delay.percentile_ms(95),
        retransmission_rate=qos.retransmission_rate,
        goodput_mbps=qos.goodput_mbps,
        queueing_delay_p50_ms=qos.queueing_delay.percentile_ms(50),
        rtt_p50_ms=qos.flows[0].rtt.percentile_ms(50),
        timeouts=sum(flow.timeouts for flow in qos.flows),
    )


def series_of(qos: QoS) -> dict[str, list[float]]:
    """Return the series of the first flow, rounded to three decimals, which suffice for a picture."""
    if not qos.series:
        return {}
    own = qos.series["flow"] == 0
    return {name: np.round(qos.series[name][own], 3).tolist() for name in SERIES_KEPT}


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    raise TypeError(f"expected a trace's times or JSON data in a scenario, got {type(value).__name__}")


def _without_later(value: object) -> object:
    # Leaves out the fields of LATER that are at their default, so that the keys of older runs stay valid.
    if isinstance(value, dict):
        return {name: _without_later(part) for name, part in value.items() if (name, part) not in LATER}
    return [_without_later(part) for part in value] if isinstance(value, list | tuple) else value


def _scenario_text(scenario: Scenario) -> str:
    content = scenario.model_dump(exclude={"name", "seed"})
    if content["link"]["trace"] is not None:
        del content["link"]["trace"]["name"]
    values = [flow.values() for flow in scenario.flows]
    return json.dumps([_without_later(content), values], default=_plain, sort_keys=True)


@cache
def _files_digest(*names: str) -> str:
    """Return the digest of the tokens of these Python files, and of all Python files in these folders."""
    root, texts = EMULATION.parent, {}
    for name in names:
        path = root / name
        for file in [path] if path.is_file() else path.rglob("*.py"):
            texts[file.relative_to(root).as_posix()] = file.read_text(encoding="utf-8")
    return digest_of_texts(texts)


def module_sources(root: Path, algorithms: Sequence[str]) -> dict[str, bytes]:
    """Return the sources of the kernel modules of these algorithms, by their path relative to `root`.

    A file kmod/linux/tcp_NAME.c belongs to the module NAME only. Other C files there belong to all modules.
    The headers that these files include are added. Where such a header (tcp_rtcp.h) has a C file of the same name, that
    file is added, too. The list of modules in Kbuild is left out, and so are the lines for other algorithms in
    params.def. A new algorithm thus does not change the sources of the others.
    """
    core, linux = root / "kmod" / "core", root / "kmod" / "linux"
    own = {f"tcp_{algorithm}.c" for algorithm in algorithms}
    files = [path for path in sorted(linux.glob("*.c")) if not path.name.startswith("tcp_") or path.name in own]
    waiting = list(files)
    while waiting:
        for name in _INCLUDE.findall(c_tokens(waiting.pop().read_text(encoding="utf-8"))):
            names = (linux / name, (linux / name).with_suffix(".c"), core / name)
            found = [path for path in names if path.is_file()]
            waiting += [path for path in found if path not in files]
            files += [path for path in found if path not in files]
    texts = {str(path.relative_to(root)): path.read_bytes() for path in sorted(files)}
    build = linux / "Kbuild"
    if build.is_file():
        lines = build.read_bytes().splitlines()
        texts[str(build.relative_to(root))] = b"\n".join(line for line in lines if not line.startswith(b"obj-m"))
    for table in ("kmod/core/params.def", "kmod/core/params.h"):
        if table in texts:
            entries = texts[table].splitlines()
            texts[table] = b"\n".join(line for line in entries if not _is_of_others(line, algorithms))
    return texts


def _is_of_others(line: bytes, algorithms: Sequence[str]) -> bool:
    """Whether a line of params.def or params.h is of an algorithm that is not among these, or ends a condition."""
    entry = _ENTRY.match(line)
    return line == b"#endif" or (entry is not None and entry[1].decode() not in algorithms)


@cache
def _modules_digest(*algorithms: str) -> str:
    return digest_of_texts({name: text.decode() for name, text in module_sources(EMULATION.parent, algorithms).items()})


@cache
def _shells_digest(runner: str) -> str:
    """Return the digest of the contents of Mahimahi's shells; "" if they are missing, so that no run is possible."""
    try:
        shells = [mahimahi_root() / "usr" / "bin" / name for name in SHELLS] if runner == "vm" else shell_paths()
    except GuestError:
        return ""
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in shells)).hexdigest()


@cache
def _versions(side: Side, runner: str, algorithms: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return (name, version) of each thing that the runs of a side depend on, besides their scenario.

    algorithms: those of the scenario's flows. Those of this repository have versions of their own.
    """
    if side == "simulated":
        return (
            ("runner", runner),
            ("engine", _engine.SOURCES_DIGEST),
            ("simulator", _files_digest(*_SOURCES["simulated"])),
        )
    versions = {"runner": runner, "kernel": platform.release()}
    if runner == "vm":
        try:
            versions["kernel"] = kernel_line(FULL_LINE).release
        except GuestError:
            versions["kernel"] = ""  # without a guest no run is possible
        versions["modules"] = _modules_digest(*algorithms)
    else:
        versions |= {cca: in_bpf.version_here(cca) for cca in algorithms if cca in in_bpf.CCAS}
    versions["mahimahi"] = _shells_digest(runner)
    versions["runner's sources"] = _files_digest(*_SOURCES[runner])
    return tuple(versions.items())


def tasks_of(cases: Sequence[Case], *, side: Side, count: int, alone: bool = False) -> list[Task]:
    """Return the runs of all cases that have a scenario.

    The first run of each case comes first, then the second of each, and so on. An interrupted campaign thus has some
    runs of every case.

    count: the runs of each case, to be multiplied by the case's `times`. alone: real runs on this machine's kernel are
    made one at a time. Such runs have other keys than runs that were not alone.
    """
    tasks = []
    for number in range(count * max((case.times for case in cases), default=1)):
        for case in cases:
            if case.scenario is not None and number < count * case.times:
                is_alone = alone and side == "real" and case.runner == "mahimahi"
                tasks.append(_task(case, case.scenario, side=side, number=number, is_alone=is_alone))
    return tasks


def _task(case: Case, scenario: Scenario, *, side: Side, number: int, is_alone: bool) -> Task:
    versions = _versions(side, case.runner, tuple(sorted({flow.cca for flow in scenario.flows})))
    content = _scenario_text(scenario)
    ground = json.dumps([FORMAT, side, *versions, *["alone"] * is_alone, number])
    origin = Origin(
        number=number,
        scenario=hashlib.sha256(content.encode()).hexdigest(),
        alone=is_alone,
        made_with=dict(versions),
    )
    return Task(case, side, number, hashlib.sha256(f"{ground}{content}".encode()).hexdigest(), origin)


class Record:
    """The recorded real runs of a file. They are looked up by case, scenario, `alone` and number."""

    def __init__(self, path: Path, lines: Sequence[RecordedRun]) -> None:
        self.path = path
        self._runs: dict[tuple[str, str | None, bool | None, int], RunResult] = {}
        # Lines with an origin keep their number. The other lines then get the free numbers in their order.
        for line in sorted(lines, key=lambda line: line.origin is None):
            origin = line.origin or Origin(number=0)
            number = origin.number
            while (key := (line.case, origin.scenario, origin.alone, number)) in self._runs:
                number += 1
            origin = origin.model_copy(update={"number": number})
            self._runs[key] = RunResult(key=line.key, figures=line.figures, machine=line.machine, origin=origin)

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read all runs of a file.

        Raises:
            EmulationError: the file cannot be read, or a line is not a recorded run.
        """
        runs = []
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise EmulationError(f"{path}: expected recorded runs, got none ({reason})") from error
        for number, line in enumerate(lines, start=1):
            try:
                runs.append(RecordedRun.model_validate_json(line))
            except ValidationError as error:
                raise EmulationError(f"{path}: line {number}: expected a recorded run, got other text") from error
        return cls(path, runs)

    def get(self, task: Task) -> RunResult | None:
        """Return the recorded run of the task's case, scenario, `alone` and number, whichever versions made it.

        A run of an older record, which states no scenario, matches every scenario of its case.
        """
        if task.side != "real":
            return None
        key, own = task.case.key, task.origin
        return self._runs.get((key, own.scenario, own.alone, own.number)) or self._runs.get(
            (key, None, None, own.number)
        )


def write_record(path: Path, runs: Sequence[tuple[str, RunResult]]) -> None:
    """Write the undisturbed runs into a record, atomically. runs: pairs of a case's key and a run.

    Raises:
        EmulationError: the file cannot be written.
    """
    lines = (
        RecordedRun(case=case, key=run.key, figures=run.figures, machine=run.machine, origin=run.origin)
        for case, run in runs
        if not is_disturbed(run.machine)
    )
    try:
        write_atomically(path, "".join(f"{line.model_dump_json()}\n" for line in lines).encode())
    except OSError as error:
        raise EmulationError(f"{path}: cannot be written ({error.strerror})") from error


def versions_that_differ(task: Task, run: RunResult) -> str:
    """Name the versions that made a run and that differ from the present ones; "" if none differs."""
    if run.key == task.digest:
        return ""
    made_with = {} if run.origin is None else run.origin.made_with
    if not made_with:
        return "versions that the file does not name"
    names = [name for name, here in task.origin.made_with.items() if made_with.get(name) != here]
    told = (f"{name} {_short(made_with.get(name, ''))} (here {_short(task.origin.made_with[name])})" for name in names)
    return ", ".join(told) or "another key"


def _short(version: str) -> str:
    """Shorten a digest to its first twelve digits."""
    return version[:12] if re.fullmatch("[0-9a-f]{64}", version) else version or "unknown"


class Store:
    """The folder of kept runs, which is created when needed. record: its runs take precedence over kept ones."""

    def __init__(self, folder: Path, *, record: Record | None = None) -> None:
        self._folder = folder
        self._record = record

    def load(self, task: Task) -> RunResult | None:
        """Return the result of a run, or None.

        An undisturbed recorded run comes first, then the kept run with the task's key, then a disturbed recorded run.

        Raises:
            EmulationError: the file of the kept run was not written by a store.
        """
        recorded = None if self._record is None else self._record.get(task)
        if recorded is not None and not is_disturbed(recorded.machine):
            return recorded
        path = self._folder / task.file_name
        if not path.exists():
            return recorded
        try:
            result = RunResult.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise EmulationError(f"{path}: expected a run's result, got other text; remove the file") from error
        return result if result.key == task.digest else recorded

    def save(self, task: Task, result: RunResult) -> None:
        """Keep the result of a run. The file is written atomically."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self._folder / task.file_name, result.model_dump_json().encode() + b"\n")

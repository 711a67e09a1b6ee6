# SPDX-License-Identifier: MIT
"""Runs a Pantheon test, which is several runs of each scheme over one link, and writes the files that Pantheon writes.

    run_tests(tests, each)

Each run has namespaces of its own (inside.py). If a scheme crashes or hangs, only that run fails. The outputs of its
processes are kept in outputs/ of the data folder. Runs are independent of each other. When a test is resumed, finished
runs are not repeated.

GR, ROCCET and R-TCP run as kernel modules if these are loaded. Otherwise they are loaded in BPF for the duration of the
test (emulation/mahimahi/in_bpf.py), with the ensembles that the test names.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from emulation.errors import EmulationError
from emulation.mahimahi import in_bpf
from emulation.mahimahi.in_bpf import InBpf, available_ccas
from emulation.mahimahi.logs import TunnelLog, write_log
from emulation.mahimahi.process import SYSTEM_PATH, RunProcess, run_queue
from emulation.mahimahi.runner import lacking as mahimahi_lacking
from emulation.mahimahi.runner import shell_paths
from emulation.mahimahi.translate import Files, files_of
from emulation.pantheon.capture import NETWORKS, tunnel_logs
from emulation.pantheon.flows import flow_of, refuse_without_kernel
from emulation.pantheon.links import TestLink, shells_of
from emulation.pantheon.schemes import Scheme, SchemeError, caller, environment
from emulation.pantheon.statistics import write_stats_log
from emulation.vm.kernels import mahimahi_root
from kmod.bpf_host import BPF_CCAS
from kmod.ensemble import Deployment, Ensemble, table_text

INSIDE = Path(__file__).with_name("inside.py")
# The time for which Pantheon waits until the first end listens.
LEAD_MS = 3000
# The namespaces of each further flow are also created during the lead.
LEAD_PER_FLOW_MS = 300
# A run may exceed its runtime by this, for starting and ending the shells and for further attempts.
_GRACE_S = 120.0
# A flow with fewer packets in a run has only opened its connection, and sent no data.
_LEAST_PACKETS = 10
_DEPLOYMENT = Deployment("file", "pantheon", 1)
_PROGRAMS = ("chrt", "tcpdump")


@dataclass(frozen=True)
class TestSettings:
    """A test, in terms of Pantheon's options.

    interval_s: time between the starts of two flows. order_seed: the seed of a random order of schemes; None: the given
    order. ensembles, parameters: by algorithm, for all flows of its schemes. Other parameters have their defaults.
    """

    __test__ = False  # not a test of pytest

    schemes: tuple[Scheme, ...]
    link: TestLink
    flows: int = 1
    runtime_s: int = 30
    interval_s: int = 0
    run_times: int = 1
    order_seed: int | None = None
    ensembles: Mapping[str, Ensemble] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def order(self) -> list[RunKey]:
        """Return the runs in the order in which they execute: one run of each scheme, then the second one of each."""
        rounds = []
        for run in range(1, self.run_times + 1):
            names = [scheme.name for scheme in self.schemes]
            if self.order_seed is not None:
                random.Random(f"{self.order_seed}/{run}").shuffle(names)  # noqa: S311 (an order)
            rounds += [RunKey(name, run) for name in names]
        return rounds


@dataclass(frozen=True)
class RunKey:
    """Identifies a run of a scheme. Runs count from 1."""

    scheme: str
    run: int

    def __str__(self) -> str:
        return f"{self.scheme} run {self.run}"

    def file(self, what: str) -> str:
        """Return Pantheon's name of a file of the run. what: the kind of file, such as datalink."""
        return f"{self.scheme}_{what}_run{self.run}.log"


@dataclass(frozen=True)
class Verdict:
    """How a run ended. kind: ok, crashed, ended early, sent nothing, or not run. reason: "" if it is ok."""

    kind: str
    reason: str = ""


# Called with the number of the test, the run, and its verdict.
Each = Callable[[int, RunKey, Verdict], None]


def lacking() -> str:
    """Return what this machine lacks for tests and how to get it; "" if it lacks nothing."""
    if lacks := mahimahi_lacking():
        return lacks
    programs = [name for name in _PROGRAMS if shutil.which(name, path=SYSTEM_PATH) is None]
    return f"not installed: {', '.join(programs)}; run `make setup`" if programs else ""


@dataclass(frozen=True, eq=False)
class _Run:
    """A run that has been started. folder: where it puts captures and outputs."""

    test: _Test
    key: RunKey
    folder: Path
    process: RunProcess

    def close(self) -> None:
        """End the run and remove its folder."""
        self.process.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Test:
    """A test in progress. It asks the wrapper of each scheme only once for its command lines."""

    def __init__(self, number: int, planned: PlannedTest, *, loaded: Collection[str]) -> None:
        self.number = number
        self.loaded = loaded
        self.settings = settings = planned.settings
        self.data_dir = planned.data_dir
        self.schemes = {scheme.name: scheme for scheme in settings.schemes}
        self.flows: dict[str, dict[str, Any] | SchemeError] = {}
        installed = all(path.is_relative_to("/usr") for path in shell_paths())
        self.mahimahi = "" if installed else str(mahimahi_root())

    def ask(self, name: str) -> dict[str, Any]:
        """Return the command lines of a scheme's flow. The first call prepares the scheme. Raises SchemeError."""
        if name not in self.flows:
            scheme = self.schemes[name]
            try:
                refuse_without_kernel(scheme, self.loaded)
                scheme.prepare()
                self.flows[name] = flow_of(scheme, self.settings.ensembles)
            except SchemeError as error:
                self.flows[name] = error
        found = self.flows[name]
        if isinstance(found, SchemeError):
            raise found
        return found

    def start(self, key: RunKey) -> _Run:
        """Start a run. Raises SchemeError if its scheme cannot run."""
        settings, flow = self.settings, self.ask(key.scheme)
        folder = Path(tempfile.mkdtemp(prefix=f".{key.scheme}-{key.run}-", dir=self.data_dir.resolve()))
        user = caller()
        job = {
            "mahimahi": self.mahimahi,
            "shells": shells_of(settings.link),
            "opportunities_ms": settings.link.opportunities_ms(settings.runtime_s * 1000),
            "networks": NETWORKS,
            "flows": [flow] * settings.flows,
            "start_s": [number * settings.interval_s for number in range(settings.flows)],
            "runtime_s": settings.runtime_s,
            "lead_ms": LEAD_MS + LEAD_PER_FLOW_MS * (settings.flows - 1),
            "folder": str(folder),
            "environment": environment(self.schemes[key.scheme]) | ({"HOME": user.pw_dir} if user else {}),
            "user": [user.pw_uid, user.pw_gid] if user else None,
        }
        return _Run(self, key, folder, RunProcess(job, limit_s=settings.runtime_s + _GRACE_S, program=INSIDE))

    def finish(self, run: _Run) -> Verdict:
        """Write the files of a run that is over, and judge it. Raises EmulationError if there is no usable result."""
        result = run.process.result()
        self._keep_outputs(run, result["ends"])
        if result["missed"]:
            raise EmulationError(
                f"expected tcpdump to capture all packets, it missed {result['missed']}; run fewer in parallel"
            )
        runtime_s = self.settings.runtime_s
        logs = tunnel_logs(run.folder, begins_ms=result["begins_ms"], runtime_s=runtime_s)
        for name, log in logs.items():
            write_log(log, self.data_dir / run.key.file(name))
        for name, side in (("mm_datalink", "uplink"), ("mm_acklink", "downlink")):
            shutil.copyfile(run.folder / f"{side}.log", self.data_dir / run.key.file(name))
        begins = datetime.fromtimestamp(result["begins_ms"] / 1000, UTC)
        end = begins + timedelta(seconds=runtime_s)
        write_stats_log(self.data_dir / run.key.file("stats"), start=begins, end=end)
        return judge(result["ends"], logs["datalink"], flows=self.settings.flows)

    def _keep_outputs(self, run: _Run, ends: Sequence[Mapping[str, Any]]) -> None:
        outputs = self.data_dir / "outputs"
        outputs.mkdir(exist_ok=True)
        for end in ends:
            name = f"{end['role']}{end['flow']}"
            shutil.copyfile(run.folder / f"{name}.log", outputs / run.key.file(name))


def judge(ends: Sequence[Mapping[str, Any]], datalink: TunnelLog, *, flows: int) -> Verdict:
    """Judge a run by how its processes ended and by the packets that left its data link.

    ends: as inside.py returns them. A flow of which fewer than _LEAST_PACKETS packets arrived has sent nothing.
    """
    ended = [end for end in ends if end["ended_s"] is not None]
    if ended:
        # The crash of one end can make the other one end without an error.
        end = min(ended, key=lambda end: (not end["status"], end["ended_s"]))
        when = f"after {end['ended_s']:.1f} s" if end["ended_s"] >= 0 else "before the run began"
        tail = " ".join(end["output"].split())[-300:]
        what = f"the {end['role']} of flow {end['flow']} ended {when}"
        said = f": {tail}" if tail else ", without output"
        if end["status"]:
            return Verdict("crashed", f"{what} with status {end['status']}{said}")
        return Verdict("ended early", f"{what}{said}")
    for flow in range(1, flows + 1):
        packets = int((datalink.left.flow == flow).sum())
        if packets < _LEAST_PACKETS:
            return Verdict(
                "sent nothing", f"only {packets} packets of flow {flow} reached its receiver; the scheme hangs"
            )
    return Verdict("ok")


def _files_of(settings: TestSettings) -> dict[str, Files]:
    """Return the parameters and the ensemble of each algorithm of a test, as the contents of files.

    Raises EmulationError if parameters or an ensemble are given for an algorithm that no scheme of the test uses.
    """
    used = {scheme.cca for scheme in settings.schemes if scheme.cca}
    for cca in {*settings.ensembles, *settings.parameters}:
        if cca not in used:
            raise EmulationError(
                f"pantheon: an ensemble or parameters of {cca} are given; expected a scheme that uses it, got none"
            )
    tables = {cca: table_text(ensemble, _DEPLOYMENT) for cca, ensemble in settings.ensembles.items()}
    return {cca: files_of(settings.parameters.get(cca, {}), tables.get(cca)) for cca in sorted(used)}


def _in_bpf(tests: Sequence[PlannedTest]) -> dict[str, Files]:
    """Return the files of the algorithms that must be loaded in BPF for the tests.

    Raises EmulationError if the tests differ in the files of an algorithm, or files are given for a loaded kernel
    module.
    """
    available, found = available_ccas(), dict[str, Files]()
    for test in tests:
        for cca, files in _files_of(test.settings).items():
            if available.get(BPF_CCAS[cca]) and files:
                raise EmulationError(
                    f"pantheon: expected {cca} in BPF, got its kernel module, whose parameters a test cannot set"
                )
            if found.setdefault(cca, files) != files:
                raise EmulationError(
                    f"pantheon: expected the same parameters of {cca} in all tests, got different ones"
                )
    return {cca: files for cca, files in found.items() if not available.get(BPF_CCAS[cca]) and not in_bpf.lacking()}


@dataclass(frozen=True)
class PlannedTest:
    """A test and its data folder. The traces of settings.link must be files. done: runs that are not repeated."""

    settings: TestSettings
    data_dir: Path
    done: frozenset[RunKey] = frozenset()


def run_tests(tests: Sequence[PlannedTest], each: Each, *, jobs: int = 1) -> None:
    """Execute the runs of all tests. Call `each` with the verdict on a run as soon as its files are written.

    jobs: how many runs may run at the same time.

    Raises EmulationError if the machine lacks a program or permission, or an algorithm cannot be loaded.
    """
    if lacks := lacking():
        raise EmulationError(f"pantheon: {lacks}")
    files = _in_bpf(tests)
    waiting = deque(
        (test, key)
        for test, planned in ((_Test(number, planned, loaded=files), planned) for number, planned in enumerate(tests))
        for key in planned.settings.order()
        if key not in planned.done
    )

    def start(planned: tuple[_Test, RunKey]) -> _Run | None:
        test, key = planned
        try:
            return test.start(key)
        except SchemeError as error:
            each(test.number, key, Verdict("not run", str(error)))
            return None

    def finish(run: _Run) -> None:
        try:
            verdict = run.test.finish(run)
        except EmulationError as error:
            verdict = Verdict("not run", str(error))
        except OSError as error:
            verdict = Verdict("not run", f"{error.filename or run.key}: cannot be used ({error.strerror})")
        each(run.test.number, run.key, verdict)

    with InBpf(files) as bpf:
        bpf.put_in_force(files)
        run_queue(waiting, may_start=lambda _, running: len(running) < jobs, start=start, finish=finish)

# SPDX-License-Identifier: MIT
"""Reads the plan of a fidelity campaign (configs/fidelity.yaml) and derives its cases.

    scenarios:
      - name: 20mbps-rtt50-bdp1
        link: {rate_mbps: 20, rtt_ms: 50, buffer_bdp: 1}
      - name: 4g-slow
        link: {recorded: {dataset: pqsa-4g-validation, recording: hour07/09564, start_s: 840}, rtt_ms: 50}
        flow: {transfers: [{size_bytes: 900000, gap_s: 3, count: 99}]}

A case is a scenario with one algorithm, on the runner on which the plan compares that algorithm. A scenario's link has
the fields of a scenario file's link (emulation/scenario/files.py), and two more:

    buffer_bdp    the buffer in bandwidth-delay products:
                  max(2, round(buffer_bdp x mean rate x rtt_ms / 1500 bytes)) packets
    recorded      a piece of a recording that is not in the repository: the dataset, a part of the recording's name, and
                  where the piece begins. The piece is longer than the run by PIECE_MARGIN_S
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from emulation.errors import EmulationError, TraceError
from emulation.scenario.files import build_scenario, first_fault, read_document
from emulation.scenario.model import Cca, Scenario
from emulation.scenario.path import Frozen
from emulation.traces import OPPORTUNITY_BYTES, Recording, Trace, read

RunnerName = Literal["mahimahi", "vm"]
MetricName = Literal["throughput", "queueing_delay", "retransmissions"]
DEFAULT_PLAN = Path(__file__).resolve().parents[2] / "configs" / "fidelity.yaml"
PIECE_MARGIN_S = 5.0
LEAST_BUFFER_PKTS = 2


class Piece(Frozen):
    """A piece of a recording. recording: a part of its name that no other recording of the dataset has in its name."""

    dataset: str = Field(min_length=1)
    recording: str = Field(min_length=1)
    start_s: float = Field(0.0, ge=0)


class Pieces:
    """Finds pieces in the recordings below `source`, whose datasets are read when they are needed.

    source: None if there are no recorded traces. progress: called with the name of a dataset before it is read.
    """

    def __init__(self, source: Path | None, *, progress: Callable[[str], None] = lambda _name: None) -> None:
        self._source = source
        self._progress = progress
        self._read: dict[str, list[Recording]] = {}

    def find(self, piece: Piece, *, duration_s: float) -> tuple[Trace | None, str]:
        """Return the piece as a trace that starts at 0, and ""; None and the reason if its dataset is not available.

        Raises:
            TraceError: the dataset does not have exactly one such recording, the piece exceeds the recording, or a file
                is invalid.
        """
        if self._source is None or not self._source.exists():
            where = "none in $CCATUNE_TRACES" if self._source is None else f"nothing at {self._source}"
            return None, f"no recorded traces ({where}); give --traces"
        if piece.dataset not in self._read:
            self._progress(piece.dataset)
            found_here = read(self._source, wanted=lambda name: name == piece.dataset).recordings
            self._read[piece.dataset] = [r for r in found_here if r.dataset == piece.dataset]
        recordings = self._read[piece.dataset]
        if not recordings:
            return None, f"no dataset {piece.dataset} at {self._source}"
        found = [recording for recording in recordings if piece.recording in recording.name]
        if len(found) != 1:
            names = ", ".join(recording.name for recording in found or recordings)
            raise TraceError(f"{piece.dataset}: expected one recording {piece.recording}, got {len(found)} ({names})")
        start_ms = round(piece.start_s * 1000)
        return found[0].trace.slice(start_ms, start_ms + round(duration_s * 1000)), ""


class Target(Frozen):
    """The tolerated error of a metric.

    The tolerance is a share of the kernel's figure or a number of the metric's units, whichever allows more.
    """

    within: float = Field(0.0, ge=0, description="share of the real figure")
    within_units: float = Field(0.0, ge=0, description="in the metric's unit")
    at_least: float = Field(gt=0, le=1, description="share of the cases that have to be within")
    never_beyond: float | None = Field(None, gt=0, description="share of the real figure; None: no such line")
    never_beyond_units: float = Field(0.0, ge=0, description="in the metric's unit")


class Targets(Frozen):
    """The target of each metric."""

    throughput: Target
    queueing_delay: Target
    retransmissions: Target


class Explanation(Frozen):
    """Why these metrics of a case are outside their targets: the side at fault and the mechanism."""

    metrics: tuple[MetricName, ...] = Field(min_length=1, description="what it explains; other figures it does not")
    at_fault: Literal["simulator", "emulation", "kernel's spread"]
    mechanism: str = Field(min_length=10)


class ScenarioPlan(Frozen):
    """A scenario of the plan.

    algorithms: those that it is run with; None: all algorithms of the plan. runner: where it is run; None: where the
    plan runs each algorithm.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    link: dict[str, Any]
    flow: dict[str, Any] = Field({}, description="what the application sends, as in a scenario's flow")
    duration_s: float | None = Field(None, gt=0, le=600, description="None: the plan's")
    times: int = Field(1, ge=1, le=100, description="so many times the plan's runs and seeds: where chance decides")
    algorithms: tuple[Cca, ...] | None = None
    runner: RunnerName | None = None


class Guest(Frozen):
    """Limits of the cases in the guest, whose clock is slow.

    longest_s bounds the scenario's `duration_s`. times replaces the scenario's `times`.
    """

    longest_s: float = Field(gt=0, le=600, description="no case lasts longer")
    times: int = Field(1, ge=1, le=100, description="so many times the plan's runs and seeds")


class Short(Frozen):
    """The short version of the campaign (`--short`): a few cases, fewer runs, shorter scenarios."""

    cases: tuple[str, ...] = Field(min_length=1, description="SCENARIO/ALGORITHM")
    runs: int = Field(ge=1)
    duration_s: float = Field(gt=0)


class Plan(Frozen):
    """The plan of a campaign. configs/fidelity.yaml is an example."""

    runs: int = Field(3, ge=1, le=100, description="real runs of each case")
    seeds: int = Field(9, ge=1, le=1000, description="simulated runs of each case")
    duration_s: float = Field(gt=0, le=600)
    algorithms: dict[RunnerName, tuple[Cca, ...]] = Field(description="by the runner that they are compared on")
    targets: Targets
    guest: Guest | None = Field(None, description="None: as the scenarios say")
    scenarios: tuple[ScenarioPlan, ...] = Field(min_length=1)
    short: Short
    explanations: dict[str, Explanation] = Field({}, description="by SCENARIO/ALGORITHM")
    reductions: dict[Cca, Cca] = Field(
        {}, description="algorithm: the one than which it retransmits less, by as much on both sides"
    )

    @model_validator(mode="after")
    def _names_are_known(self) -> Plan:
        names = [scenario.name for scenario in self.scenarios]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"expected each scenario once, got {', '.join(twice)} several times")
        both = sorted(set(self.algorithms.get("mahimahi", ())) & set(self.algorithms.get("vm", ())))
        if both:
            raise ValueError(f"algorithms: expected each on one runner, got {', '.join(both)} on both")
        known = {cca for algorithms in self.algorithms.values() for cca in algorithms}
        if strange := sorted({*self.reductions, *self.reductions.values()} - known):
            raise ValueError(f"reductions: expected algorithms of the plan, got {', '.join(strange)}")
        for scenario in self.scenarios:
            if strange := sorted(set(scenario.algorithms or ()) - known):
                raise ValueError(f"{scenario.name}.algorithms: expected those of the plan, got {', '.join(strange)}")
            buffers = sorted(set(scenario.link) & {"buffer_bdp", "buffer_pkts", "buffer_bytes"})
            if len(buffers) > 1:
                raise ValueError(f"{scenario.name}.link: expected one of {' and '.join(buffers)}")
            if {"recorded", "trace"} <= set(scenario.link):
                raise ValueError(f"{scenario.name}.link: expected one of recorded and trace")
        keys = {f"{s.name}/{cca}" for s in self.scenarios for cca in self.algorithms_of(s)}
        for what, given in (("short.cases", self.short.cases), ("explanations", tuple(self.explanations))):
            unknown = sorted(set(given) - keys)
            if unknown:
                raise ValueError(f"{what}: expected SCENARIO/ALGORITHM of this plan, got {', '.join(unknown)}")
        return self

    def algorithms_of(self, scenario: ScenarioPlan) -> dict[Cca, RunnerName]:
        """Return the algorithms of a scenario, and the runner of each."""
        return {
            cca: scenario.runner or runner
            for runner, algorithms in self.algorithms.items()
            for cca in algorithms
            if scenario.algorithms is None or cca in scenario.algorithms
        }


@dataclass(frozen=True)
class Case:
    """A scenario with an algorithm.

    scenario: None if its recording is not available here; `lacks` then gives the reason. times: the factor for the
    numbers of runs and seeds.
    """

    key: str
    name: str
    cca: Cca
    runner: RunnerName
    scenario: Scenario | None
    lacks: str = ""
    times: int = 1


def load_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        EmulationError: the file cannot be read, is no YAML, or has an invalid field. The message names the first one.
    """
    try:
        return Plan.model_validate(read_document(path, what="a plan", holding="scenarios and algorithms"))
    except ValidationError as error:
        raise EmulationError(f"{path}: {first_fault(error)}") from error


def _is_meant(key: str, pattern: str, keys: Collection[str]) -> bool:
    """Whether a pattern selects a case.

    A pattern that is the key of a case selects only that case. Any other pattern selects the keys that contain it, or
    that match it with * and ?.
    """
    return key == pattern if pattern in keys else pattern in key or fnmatchcase(key, pattern)


def cases_of(
    plan: Plan,
    *,
    source: Path,
    pieces: Pieces,
    patterns: Sequence[str] = (),
    runners: Sequence[str] = (),
    short: bool = False,
) -> list[Case]:
    """Return the cases of a plan, in its order.

    source: the plan's file; its relative paths start at the file's folder. patterns: only cases that one of these
    selects. runners: only cases on these runners. short: only the cases of the short version, with its duration and
    with `times` of 1 unless the plan's `guest` sets it.

    Raises:
        EmulationError: a scenario is invalid.
    """
    found = []
    keys = {f"{scenario.name}/{cca}" for scenario in plan.scenarios for cca in plan.algorithms_of(scenario)}
    for scenario in plan.scenarios:
        for cca, runner in plan.algorithms_of(scenario).items():
            key = f"{scenario.name}/{cca}"
            is_left_out = (runners and runner not in runners) or (short and key not in plan.short.cases)
            if is_left_out or (patterns and not any(_is_meant(key, pattern, keys) for pattern in patterns)):
                continue
            duration_s = scenario.duration_s or plan.duration_s
            duration_s = min(duration_s, plan.short.duration_s) if short else duration_s
            times = 1 if short else scenario.times
            if runner == "vm" and plan.guest is not None:
                duration_s, times = min(duration_s, plan.guest.longest_s), plan.guest.times
            limited = scenario.model_copy(update={"duration_s": duration_s, "times": times})
            found.append(_case(limited, cca, runner, source=source, pieces=pieces))
    return found


def _case(plan: ScenarioPlan, cca: Cca, runner: RunnerName, *, source: Path, pieces: Pieces) -> Case:
    assert plan.duration_s is not None  # noqa: S101 (cases_of filled it in)
    key = f"{plan.name}/{cca}"
    duration_s = plan.duration_s
    link = dict(plan.link)
    bdp = link.pop("buffer_bdp", None)
    recorded = link.pop("recorded", None)
    if recorded is not None:
        try:
            piece = Piece.model_validate(recorded)
        except ValidationError as error:
            raise EmulationError(f"{source}: {plan.name}.link.recorded: {first_fault(error)}") from error
        trace, lacks = pieces.find(piece, duration_s=duration_s + PIECE_MARGIN_S)
        if trace is None:
            return Case(key, plan.name, cca, runner, None, lacks, plan.times)
        link["trace"] = trace
    document = {"name": key, "link": link, "flows": [{"cca": cca, **plan.flow}], "duration_s": duration_s}
    scenario = build_scenario(document, source=f"{source}: {plan.name}", folder=source.parent)
    if bdp is not None:
        scenario = _with_buffer(scenario, bdp, source=f"{source}: {plan.name}")
    return Case(key, plan.name, cca, runner, scenario, times=plan.times)


def _with_buffer(scenario: Scenario, bdp: object, *, source: str) -> Scenario:
    """Return the scenario with a buffer of `bdp` bandwidth-delay products."""
    if not isinstance(bdp, int | float) or isinstance(bdp, bool) or not 0 < bdp <= 1000:
        raise EmulationError(f"{source}: link.buffer_bdp: expected a number above 0 and at most 1000, got {bdp!r}")
    link = scenario.link
    rate_mbps = link.rate_mbps if link.trace is None else link.trace.mean_rate_mbps
    if rate_mbps is None:
        raise EmulationError(f"{source}: link.buffer_bdp: expected rate_mbps or a trace beside it, got steps")
    bdp_pkts = rate_mbps * 125 * link.rtt_ms / OPPORTUNITY_BYTES
    buffer_pkts = max(round(bdp * bdp_pkts), LEAST_BUFFER_PKTS)
    return scenario.model_copy(update={"link": link.model_copy(update={"buffer_pkts": buffer_pkts})})

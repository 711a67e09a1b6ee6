# SPDX-License-Identifier: MIT
"""What a fidelity campaign compares: scenarios and algorithms from YAML (configs/fidelity.yaml), to cases.

    scenarios:
      - name: 20mbps-rtt50-bdp1
        link: {rate_mbps: 20, rtt_ms: 50, buffer_bdp: 1}
      - name: 4g-slow
        link: {recorded: {dataset: pqsa-4g-validation, recording: hour07/09564, start_s: 840}, rtt_ms: 50}
        flow: {transfers: [{size_bytes: 900000, gap_s: 3, count: 99}]}

A case is a scenario with one algorithm, on the runner that the algorithm is compared on. A scenario's link is that of a
scenario file (emulation/files.py) and two words more:

    buffer_bdp    the buffer in bandwidth-delay products: round(it x mean rate x rtt_ms / 1500 bytes) packets, 2 or more
    recorded      a piece of a recording that lies in no file of the repository: dataset, part of the recording's name,
                  where the piece begins; as long as the run and PIECE_MARGIN_S more
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from emulation.errors import EmulationError
from emulation.fidelity.pieces import Piece, Pieces
from emulation.files import build_scenario, first_fault, read_document
from emulation.scenario import Cca, Scenario
from emulation.traces import OPPORTUNITY_BYTES

__all__ = [
    "DEFAULT_PLAN",
    "Case",
    "Explanation",
    "MetricName",
    "Plan",
    "ScenarioPlan",
    "Target",
    "cases_of",
    "load_plan",
]

RunnerName = Literal["mahimahi", "vm"]
MetricName = Literal["throughput", "queueing_delay", "retransmissions"]
DEFAULT_PLAN = Path(__file__).resolve().parents[2] / "configs" / "fidelity.yaml"
PIECE_MARGIN_S = 5.0
LEAST_BUFFER_PKTS = 2


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Target(_Frozen):
    """How near is near enough: by a share of the kernel's figure or by so many of its units, whichever is more."""

    within: float = Field(0.0, ge=0, description="share of the real figure")
    within_units: float = Field(0.0, ge=0, description="in the metric's unit")
    at_least: float = Field(gt=0, le=1, description="share of the cases that have to be within")
    never_beyond: float | None = Field(None, gt=0, description="share of the real figure; None: no such line")
    never_beyond_units: float = Field(0.0, ge=0, description="in the metric's unit")


class Targets(_Frozen):
    """One for each metric."""

    throughput: Target
    queueing_delay: Target
    retransmissions: Target


class Explanation(_Frozen):
    """Why a case is outside with these figures: by which mechanism, and which side is at fault."""

    metrics: tuple[MetricName, ...] = Field(min_length=1, description="what it explains; other figures it does not")
    at_fault: Literal["simulator", "emulation", "kernel's spread"]
    mechanism: str = Field(min_length=10)


class ScenarioPlan(_Frozen):
    """A scenario for all the algorithms; algorithms: only these (None: all of the plan)."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    link: dict[str, Any]
    flow: dict[str, Any] = Field({}, description="what the application sends, as in a scenario's flow")
    duration_s: float | None = Field(None, gt=0, le=600, description="None: the plan's")
    times: int = Field(1, ge=1, le=100, description="so many times the plan's runs and seeds: where chance decides")
    algorithms: tuple[Cca, ...] | None = None


class Guest(_Frozen):
    """What cases in the guest have instead of their scenario's `duration_s` and `times`: its clock is slow."""

    longest_s: float = Field(gt=0, le=600, description="no case lasts longer")
    times: int = Field(1, ge=1, le=100, description="so many times the plan's runs and seeds")


class Short(_Frozen):
    """The version for every test: some of the cases, fewer runs, less time."""

    cases: tuple[str, ...] = Field(min_length=1, description="SCENARIO/ALGORITHM")
    runs: int = Field(ge=1)
    duration_s: float = Field(gt=0)


class Plan(_Frozen):
    """A campaign; see configs/fidelity.yaml."""

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
        {}, description="algorithm: the one that it resends less than, by as much on both sides"
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
        """The algorithms of a scenario, and the runner of each."""
        return {
            cca: runner
            for runner, algorithms in self.algorithms.items()
            for cca in algorithms
            if scenario.algorithms is None or cca in scenario.algorithms
        }


@dataclass(frozen=True)
class Case:
    """A scenario with an algorithm. scenario: None where it cannot be had here, and lacks says why.

    times: of the runs and of the seeds that other cases have.
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
        EmulationError: no such file, no YAML, or the first field that is not as it should be.
    """
    try:
        return Plan.model_validate(read_document(path, what="a plan", holding="scenarios and algorithms"))
    except ValidationError as error:
        raise EmulationError(f"{path}: {first_fault(error)}") from error


def _is_meant(key: str, pattern: str, keys: Collection[str]) -> bool:
    """By its key, by a part of it where no case has that key, or by a pattern with * and ?."""
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
    """The cases of a plan, in its order.

    source: the plan's file, which paths in it count from. patterns: only cases that one of these means. runners: only
    those of these runners. short: only those of the short version, each with as many runs as that has.

    Raises:
        EmulationError: a scenario that is none.
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
    """The scenario with a buffer of so many bandwidth-delay products."""
    if not isinstance(bdp, int | float) or isinstance(bdp, bool) or not 0 < bdp <= 1000:
        raise EmulationError(f"{source}: link.buffer_bdp: expected a number above 0 and at most 1000, got {bdp!r}")
    link = scenario.link
    rate_mbps = link.rate_mbps if link.trace is None else link.trace.mean_rate_mbps
    if rate_mbps is None:
        raise EmulationError(f"{source}: link.buffer_bdp: expected rate_mbps or a trace beside it, got steps")
    bdp_pkts = rate_mbps * 125 * link.rtt_ms / OPPORTUNITY_BYTES
    buffer_pkts = max(round(bdp * bdp_pkts), LEAST_BUFFER_PKTS)
    return scenario.model_copy(update={"link": link.model_copy(update={"buffer_pkts": buffer_pkts})})

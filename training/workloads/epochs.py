# SPDX-License-Identifier: MIT
"""The workload `epochs`: epochs of recorded links, each in the network state that a flow measured when it began.

A point runs on an epoch from `warmup_s` before it (if the recording has so much), with its own parameters throughout,
and is measured over the epoch. Slow start and the filling of the queue fall into the warm-up, because a flow that
enters an epoch online has already passed them.

With `paths` the recordings are cut into pieces, and each piece is the bottleneck of a path of its own, which is drawn
from that distribution (training/workloads/paths.py). Its epochs are measured and run over that path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, model_validator

from emulation.run.qos import QoS
from emulation.run.simulator import simulate_many
from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.traces import Recording
from kmod.abi import ALGORITHMS
from kmod.ensemble import Axis, Deployment, Ensemble, table_text
from training.fields import StudyPart
from training.workloads.axes import level_bounds
from training.workloads.case import Case, Purpose, Sample, Setting, State, Workload
from training.workloads.levels import (
    Confusion,
    LevelPlan,
    StateEpoch,
    Turn,
    by_level,
    choose,
    confusion,
    epochs_of,
    gather,
    plan_levels,
)  # fmt: skip
from training.workloads.paths import Paths

DIGITS = 6


class LinkSettings(StudyPart):
    """The emulated path around the recorded link."""

    rtt_ms: float = Field(100.0, gt=0, description="propagation delay, both ways together; not used with an RTT axis")
    buffer_pkts: int = Field(1000, ge=1, description="drop-tail buffer")
    loss: float = Field(0.0, ge=0, lt=1, description="share of packets lost at random")


class EpochsSettings(StudyPart):
    """How epochs are measured, and how many a state trains on."""

    kind: Literal["epochs"]
    warmup_s: float = Field(3.0, ge=0, description="a flow runs this long before an epoch is measured")
    shortest_s: float = Field(10.0, gt=0, description="the rest of a recording is an epoch if it lasts so long")
    least_capacity_kbps: float = Field(20.0, ge=0, description="an epoch with less capacity is an outage, and left out")
    minimum: int = Field(5, ge=1, description="a state with fewer epochs borrows from its neighbours")
    maximum: int = Field(24, ge=1, description="at most so many are chosen, spread over time")
    borrow_levels: int = Field(3, ge=0, description="how far neighbours may be; beyond, a row is copied")
    link: LinkSettings = LinkSettings()
    paths: Paths | None = Field(
        None, description="distribution of paths, by its file or name in configs/paths, instead of `link`"
    )
    piece_s: float = Field(120.0, ge=30, le=3600, description="paths: a path for each piece of so long")

    @model_validator(mode="after")
    def _consistent(self) -> EpochsSettings:
        if self.minimum > self.maximum:
            raise ValueError("expected a minimum of at most the maximum")
        if self.paths is not None and self.link != LinkSettings():
            raise ValueError("expected either link or paths, got both")
        return self

    def check(self, axes: Mapping[str, Axis]) -> None:
        """Refuse axes whose values recorded links do not tell.

        Raises:
            ValueError: the first axis is not throughput, or the second one not the minimum RTT.
        """
        if list(axes) not in (["throughput"], ["throughput", "min_rtt"]):
            raise ValueError(
                f"expected the axes throughput and min_rtt with the workload epochs, got {', '.join(axes)}"
            )

    @property
    def needs_recordings(self) -> bool:
        """There is no workload without recorded links."""
        return True

    def open(self, setting: Setting) -> Epochs:
        """The workload."""
        return Epochs(self, setting)


def simulate_with_progress(
    scenarios: Sequence[Scenario], *, threads: int | None, advance: Callable[[float], None]
) -> list[QoS]:
    """Run the scenarios. advance: called with the seconds of scenarios that were simulated since the previous call."""
    done_s = 0.0

    def progress(done: int) -> None:
        nonlocal done_s
        seconds = sum(scenario.duration_s for scenario in scenarios[:done])
        advance(seconds - done_s)
        done_s = seconds

    return simulate_many(scenarios, threads=threads, progress=progress)


def default_values(cca: str) -> dict[str, int]:
    """The tuned parameters of an algorithm at their defaults."""
    return {spec.name: spec.default for spec in ALGORITHMS[cca].tuned}


def default_table(cca: str, *, epoch_ms: int, estimate_ms: int, axis: Axis) -> str:
    """A table with the defaults in every row: its flows measure their states, and adapt nothing."""
    values = default_values(cca)
    table = Ensemble(
        cca, epoch_ms, estimate_ms, None, (), (axis,), tuple(values), (tuple(values.values()),) * axis.count
    )
    return table_text(table, Deployment("training", "reference", 1))


class Epochs(Workload):
    """Epochs of recorded links. A state is a level of throughput and, if there is one, of minimum RTT."""

    def __init__(self, settings: EpochsSettings, setting: Setting) -> None:
        self._settings = settings
        self._setting = setting
        axes = list(setting.axes.values())
        self._axis = axes[0]
        self.paths_ms = [settings.link.rtt_ms] if len(axes) == 1 else [
            math.sqrt(math.prod(level_bounds(axes[1], level))) / 1000 for level in range(axes[1].count)
        ]  # fmt: skip

    @cached_property
    def epochs(self) -> list[StateEpoch]:
        """The training epochs."""
        return self._measure("measuring levels", self._setting.recordings)

    @cached_property
    def unseen(self) -> list[StateEpoch]:
        """The validation epochs."""
        return self._measure("measuring unseen levels", self._setting.unseen)

    @cached_property
    def confusion(self) -> Confusion:
        """Of the training epochs."""
        return confusion(self.epochs, self._axis)

    @cached_property
    def plans(self) -> dict[State, LevelPlan]:
        """The training data of each state."""
        s = self._settings
        found = {}
        for rtt in range(len(self.paths_ms)):
            its = [epoch for epoch in self.epochs if epoch.rtt == rtt]
            plans = plan_levels(
                its, count=self._axis.count, minimum=s.minimum, maximum=s.maximum, reach=s.borrow_levels
            )
            found.update({self._state(level, rtt): plan for level, plan in enumerate(plans)})
        return found

    def source(self, state: State) -> State:
        """See Workload."""
        return self._state(self.plans[state].source, *state[1:])

    def cases(self, states: Sequence[State], purpose: Purpose, sample: Sample) -> list[Case]:
        """See Workload. Epochs confirm that are of the state but not among its training data."""
        chosen = {epoch.key: epoch for state in states for epoch in self._epochs(state, purpose, sample)}
        return [self.case(epoch) for epoch in chosen.values()]

    def of_state(self, state: State) -> dict[str, Any]:
        """See Workload."""
        plan = self.plans[state]
        copied = None if plan.epochs else list(self.source(state))
        return {"own_epochs": plan.own, "borrowed_from": list(plan.borrowed_from), "copied_from": copied}

    def provenance(self) -> dict[str, Any]:
        """How far measured levels are from those of the epochs' mean rates."""
        found = self.confusion
        return {
            "confusion": {
                "epochs": int(found.counts.sum()),
                "within_levels": {str(d): round(share, DIGITS) for d, share in found.within.items()},
                "mean_error_levels": round(found.mean_error_levels, DIGITS),
            }
        }

    def state_of(self, epoch: StateEpoch) -> State:
        """The state of an epoch."""
        return self._state(epoch.level, epoch.rtt)

    def case(self, epoch: StateEpoch) -> Case:
        """An epoch with its warm-up, cut out of its recording. Its seed comes from its key: all points lose alike."""
        begin_ms = max(epoch.start_ms - round(self._settings.warmup_s * 1000), 0)
        piece = epoch.recording.cut(begin_ms, epoch.end_ms)
        scenario = Scenario(
            name=piece.name,
            link=self._link(piece, epoch.rtt, of=epoch.recording, from_s=begin_ms / 1000),
            flows=(FlowSpec(cca=self._setting.cca),),
            duration_s=(epoch.end_ms - begin_ms) / 1000,
            warmup_s=(epoch.start_ms - begin_ms) / 1000,
            seed=int(epoch.key[:12], 16),
        )
        return Case(epoch.key, scenario, self.state_of(epoch), "epoch", epoch.capacity_bytes)

    def _state(self, level: int, rtt: int = 0) -> State:
        return (level, rtt)[: len(self._setting.axes)]

    def _epochs(self, state: State, purpose: Purpose, sample: Sample) -> Sequence[StateEpoch]:
        maximum = sample.maximum or self._settings.maximum
        if purpose == "validation":
            return choose([epoch for epoch in self.unseen if self.state_of(epoch) == state], maximum)
        plan = self.plans[state]
        its = [epoch for epoch in self.epochs if self._state(0, epoch.rtt)[1:] == state[1:]]
        if purpose == "confirming":
            known = {epoch.key for epoch in plan.epochs}
            return choose([e for e in its if self.state_of(e) == state and e.key not in known], maximum)
        if sample.maximum is None or not plan.epochs:
            return plan.epochs
        minimum = max(sample.minimum, self._settings.minimum)
        return gather(state[0], by_level(its), minimum=minimum, maximum=maximum, reach=sample.borrow_levels)

    def _link(self, piece: Recording, rtt: int, *, of: Recording, from_s: float = 0.0) -> LinkSpec:
        """The path of a recording with its part from from_s on, `piece`, as the bottleneck."""
        link, paths = self._settings.link, self._settings.paths
        if paths is None:
            return LinkSpec(trace=piece.trace, rtt_ms=self.paths_ms[rtt], buffer_pkts=link.buffer_pkts, loss=link.loss)
        fields = paths.draw(
            f"{of.trace.digest} {rtt}", seed=self._setting.seed, duration_s=of.duration_s, from_s=from_s
        )
        if len(self._setting.axes) > 1:
            fields["rtt_ms"] = self.paths_ms[rtt]
        return LinkSpec(trace=piece.trace, **fields)

    def _pieces(self, recordings: Sequence[Recording]) -> list[Recording]:
        """What has a path of its own: the recordings, or pieces of them."""
        if self._settings.paths is None:
            return list(recordings)
        piece_ms = round(self._settings.piece_s * 1000)
        return [piece for recording in recordings for piece in recording.pieces(piece_ms)]

    def _measure(self, text: str, recordings: Sequence[Recording]) -> list[StateEpoch]:
        s, setting = self._settings, self._setting
        if not recordings:
            return []
        setting.progress.phase(text, total=sum(r.duration_s for r in recordings) * len(self.paths_ms))
        found = []
        pieces = self._pieces(recordings)
        for rtt in range(len(self.paths_ms)):
            for recording, turns in zip(pieces, self.turns(pieces, rtt), strict=True):
                found += epochs_of(recording, turns, self._axis, rtt=rtt, shortest_s=s.shortest_s,
                                   least_bytes_per_s=s.least_capacity_kbps * 125)  # fmt: skip
        return found

    def turns(self, recordings: Sequence[Recording], rtt: int = 0) -> list[list[Turn]]:
        """The ends of the epochs of a default flow on each recording, and what it measured, by the core's own clock."""
        setting = self._setting
        text = default_table(setting.cca, epoch_ms=setting.clock.epoch_s * 1000, estimate_ms=setting.clock.estimate_ms,
                             axis=self._axis)  # fmt: skip
        flow = FlowSpec(cca=setting.cca, ensemble_text=text)
        scenarios = [
            Scenario(
                name=r.name, link=self._link(r, rtt, of=r), flows=(flow,), duration_s=r.duration_s, seed=setting.seed
            )
            for r in recordings
        ]
        results = simulate_with_progress(scenarios, threads=setting.threads, advance=setting.progress.advance)
        return [
            [Turn(round(turn.at_ms), turn.measured_bytes_per_s) for turn in result.flows[0].epoch_ends]
            for result in results
        ]

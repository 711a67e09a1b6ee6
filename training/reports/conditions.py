# SPDX-License-Identifier: MIT
"""Conditions of a path, each of which disturbs one thing, and places in recordings where flows meet them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from emulation.scenario.model import FlowSpec, LinkSpec, Scenario
from emulation.traces import Recording
from training.workloads.paths import PathsSettings, load_paths

FLOW_S = 120.0


def _paths(**changes: Any) -> PathsSettings:
    """The undisturbed path with changes, as a distribution whose ranges are mostly single values."""
    path = {"name": "condition", "rtt_ms": (100, 100), "buffer_pkts": (1000, 1000)}
    return PathsSettings.model_validate(path | changes)


def _always(low: float, high: float | None = None, **more: Any) -> dict[str, Any]:
    return {"share": 1, "between": (low, high or low), **more}


@dataclass(frozen=True)
class Condition:
    """A row. beside: a second flow's algorithm, in the middle third of the time; `own`: the first one's, throughout."""

    name: str
    paths: PathsSettings = field(default_factory=_paths)
    beside: str | None = None
    has_criterion: bool = True


CONDITIONS = (
    Condition("undisturbed"),
    *(Condition(f"RTT {ms} ms", _paths(rtt_ms=(ms, ms))) for ms in (20, 50, 200, 250)),
    *(Condition(f"buffer {pkts} pkts", _paths(buffer_pkts=(pkts, pkts))) for pkts in (50, 200)),
    Condition("CoDel", _paths(codel=1)),
    Condition("loss 0.1 %", _paths(loss=_always(0.001))),
    Condition("loss 1 %", _paths(loss=_always(0.01)), has_criterion=False),
    *(Condition(f"ACKs every {ms} ms", _paths(ack_interval_ms=[_always(ms)])) for ms in (5, 20, 40)),
    *(Condition(f"jitter {ms} ms", _paths(jitter_ms=_always(ms))) for ms in (10, 30)),
    Condition("holds 10-40 ms", _paths(hold_ms=_always(40))),
    Condition("stalls 5-50 ms", _paths(stall_ms=_always(5, 50, every_s=(0.5, 5)))),
    Condition("outages of 1 s", _paths(outage_s=_always(1, every_s=(30, 30)))),
    Condition("drawn: cellular", PathsSettings.model_validate(load_paths("cellular"))),
    Condition("CUBIC beside it", beside="cubic", has_criterion=False),
    Condition("BBR beside it", beside="bbr", has_criterion=False),
    Condition("two flows", beside="own", has_criterion=False),
)


class Place(NamedTuple):
    """Where and how long a flow runs."""

    recording: Recording
    start_s: float
    duration_s: float


def places_of(recordings: Sequence[Recording], flows: int) -> list[Place]:
    """Places of flows of FLOW_S, or of a whole shorter recording: so many in each dataset, spread evenly over it."""
    found = []
    for dataset in sorted({r.dataset for r in recordings}):
        starts = [
            Place(r, start_s, min(FLOW_S, r.duration_s))
            for r in recordings
            if r.dataset == dataset
            for start_s in range(0, max(int(r.duration_s - FLOW_S), 0) + 1, 30)
        ]
        count = min(len(starts), flows)
        found += [starts[(2 * i + 1) * len(starts) // (2 * count)] for i in range(count)]
    return found


def scenarios_of(condition: Condition, places: Sequence[Place], flow: FlowSpec) -> list[Scenario]:
    found = []
    for seed, (recording, start_s, duration_s) in enumerate(places, 1):
        link = condition.paths.draw(f"{recording.name} {start_s}", seed=1, duration_s=duration_s)
        flows = [flow] * (2 if condition.beside == "own" else 1)
        if condition.beside not in (None, "own"):
            flows.append(FlowSpec(cca=condition.beside, start_s=duration_s / 3, stop_s=2 * duration_s / 3))
        spec = LinkSpec(trace=recording.trace, start_ms=round(start_s * 1000), **link)
        name = f"{condition.name} on {recording.name}"
        found.append(Scenario(name=name, link=spec, flows=tuple(flows), duration_s=duration_s, seed=seed))
    return found

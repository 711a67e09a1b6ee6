# SPDX-License-Identifier: MIT
"""Validates a deployed ensemble: flows adapt online over whole recordings.

    ensemble   flows that look up their row in the ensemble epoch by epoch, at the
               throughput level that they measure and on the core's own clock
    single     the best single parameter set of each class, which the same search
               found on the same training epochs (the ensemble's provenance)
    default    the algorithm's defaults

All three run over the same recordings from their first millisecond on, slow start included. They are compared window by
window, and a window is as long as an epoch. The level of a window is the one that a flow with the defaults measures at
the window's beginning, so that it is the same for every scheme. Confidence intervals are 95 % percentile bootstraps
over windows (Efron, Tibshirani 1993, chapter 13).

A user has a flow, not a pool of windows. So flows of ten minutes run as well, each from slow start on, and those whose
own percentile of the queueing delay is within the target are counted. With `paths` each of these flows has a path of
its own, and so has each ten minutes of a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from emulation import Delays, FlowSpec, LinkSpec, QoS, Scenario
from emulation.scenario.files import first_fault
from emulation.traces import Recording
from kmod.ensemble import DelayClass, Deployment, Ensemble, table_text
from training.errors import TrainingError
from training.intervals import drawn_percentiles, drawn_weights, interval_95
from training.study.ensemble import require_singles
from training.study.settings import study_of
from training.workloads.epochs import default_table, simulate_with_progress
from training.workloads.paths import PathsSettings

LEAST_WINDOWS = 5
LEAST_CAPACITY_BYTES_PER_S = 2500
SCHEMES = ("ensemble", "single", "default")
FLOW_S = 600
FLOW_STARTS_S = (60, 30)  # the second where a dataset has too few flows with the first
FLOWS = 100  # of a dataset, at most, by default
WITHIN = 1.02  # of the target
ROWS = ("dataset", "level", "capacity", "delivered", "seconds", "counts")  # of Windows


@dataclass(frozen=True)
class Path:
    """The path around the recorded link. paths: each flow has one that is drawn from this distribution instead."""

    rtt_ms: float = 100.0
    buffer_pkts: int = 1000
    loss: float = 0.0
    seed: int = 1
    paths: PathsSettings | None = None

    def __post_init__(self) -> None:
        """Raises TrainingError for values that no link has."""
        try:
            LinkSpec(rate_mbps=1.0, rtt_ms=self.rtt_ms, buffer_pkts=self.buffer_pkts, loss=self.loss)
        except ValidationError as error:
            raise TrainingError(f"path: {first_fault(error)}") from error

    def as_json(self) -> dict[str, Any]:
        """The values, or the distribution."""
        if self.paths is not None:
            return {"paths": self.paths.model_dump(mode="json", exclude_defaults=True), "seed": self.seed}
        return {"rtt_ms": self.rtt_ms, "buffer_pkts": self.buffer_pkts, "loss": self.loss, "seed": self.seed}

    def link(self, recording: Recording, *, start_ms: int = 0, duration_s: float | None = None) -> LinkSpec:
        """The path of a flow from start_ms on, with this recording as its bottleneck."""
        if self.paths is not None:
            fields = self.paths.draw(f"{recording.trace.digest} {start_ms}", seed=self.seed,
                                     duration_s=duration_s or recording.duration_s)  # fmt: skip
            return LinkSpec(trace=recording.trace, start_ms=start_ms, **fields)
        return LinkSpec(
            trace=recording.trace,
            start_ms=start_ms,
            rtt_ms=self.rtt_ms,
            buffer_pkts=self.buffer_pkts,
            loss=self.loss,
        )


@dataclass(frozen=True, eq=False)
class Windows:
    """The n windows of all recordings, for one scheme and class.

    dataset: object [n]; level: int [n]; capacity and delivered: bytes, float [n]; seconds: float [n]; counts: packets
    by queueing delay, uint32 [n, n_bins], in bins that end at edges_us.
    """

    dataset: NDArray[Any]
    level: NDArray[np.int64]
    capacity: NDArray[np.float64]
    delivered: NDArray[np.float64]
    seconds: NDArray[np.float64]
    counts: NDArray[np.uint32]
    edges_us: NDArray[np.float64]


def validate(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    path: Path | None = None,
    flows: int = FLOWS,
    threads: int | None = None,
    progress: Callable[[float], None] = lambda _seconds: None,
) -> dict[str, Any]:
    """Run all schemes and compare them; all figures are JSON data.

    `targets` has the ensemble's pooled figures, `single` and `default` those of the other schemes. `datasets` and
    `levels` split the figures. `levels_met` counts the levels that meet each target. `by_single` separates the levels
    where the single set meets its target from the others.

    flows: at most so many flows of ten minutes of each dataset.
    progress: called with the seconds that were simulated since the previous call. They add up to seconds_of().

    Raises:
        TrainingError: there are no recordings, or the ensemble has no single sets.
    """
    if not recordings:
        raise TrainingError("evaluate: expected validation recordings, got none")
    path = path or Path()
    places = flow_places(recordings, most=flows)
    count, hours = len(recordings), sum(r.duration_s for r in recordings) / 3600
    if path.paths is not None:
        recordings = [piece for r in recordings for piece in r.pieces(FLOW_S * 1000)]
    results = _run_schemes(ensemble, recordings, path=path, threads=threads, progress=progress)
    its_flows = _run_flows(ensemble, places, path=path, threads=threads, progress=progress)
    levels = _levels(ensemble, results["default", 0])
    windows = {key: windows_of(ensemble, recordings, runs, levels) for key, runs in results.items()}
    chosen = {
        scheme: [windows[scheme, 0 if scheme == "default" else c] for c in range(len(ensemble.classes))]
        for scheme in SCHEMES
    }

    def figures_of(scheme: str, dataset: str | None = None) -> list[dict[str, Any]]:
        its = [w if dataset is None else _select(w, w.dataset == dataset) for w in chosen[scheme]]
        return [
            {**row, **_flow_figures(places, its_flows[scheme, c], row["target_ms"], dataset)}
            for c, row in enumerate(_pooled(ensemble, its))
        ]

    pooled = {scheme: figures_of(scheme) for scheme in SCHEMES}
    by_level = [_by_level(c, {s: its[i] for s, its in chosen.items()}) for i, c in enumerate(ensemble.classes)]
    return {
        "ensemble_digest": ensemble.digest,
        "cca": ensemble.cca,
        "recordings": count,
        "hours": hours,
        "path": path.as_json(),
        "targets": pooled["ensemble"],
        "single": pooled["single"],
        "default": pooled["default"],
        "datasets": {
            str(name): {scheme: figures_of(scheme, name) for scheme in SCHEMES}
            for name in sorted({r.dataset for r in recordings})
        },
        "levels": [row for its in by_level for row, _ in its],
        "levels_met": [
            {
                "target_ms": c.queueing_delay_us / 1000,
                "levels": len(its),
                **{s: sum(row[s]["meets"] for row, _ in its) for s in SCHEMES},
            }
            for c, its in zip(ensemble.classes, by_level, strict=True)
        ],
        "by_single": [
            row
            for i, (c, its) in enumerate(zip(ensemble.classes, by_level, strict=True))
            for row in _by_single(c, {s: chosen[s][i] for s in SCHEMES}, its)
        ],
    }


def _run_schemes(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    path: Path,
    threads: int | None,
    progress: Callable[[float], None] = lambda _seconds: None,
) -> dict[tuple[str, int], list[QoS]]:
    """Run every (scheme, class). Each list of runs is in the order of the recordings."""
    flows = _flows(ensemble)
    scenarios = [
        Scenario(
            name=f"{r.name} {scheme} {c}",
            link=path.link(r),
            flows=(flow,),
            duration_s=r.duration_s,
            window_s=ensemble.epoch_ms / 1000,
            seed=path.seed,
        )
        for (scheme, c), flow in flows.items()
        for r in recordings
    ]
    results = simulate_with_progress(scenarios, threads=threads, advance=progress)
    n = len(recordings)
    return {key: results[i * n : (i + 1) * n] for i, key in enumerate(flows)}


def flow_places(recordings: Sequence[Recording], *, most: int) -> list[tuple[Recording, int]]:
    """The recordings and starts (s) of flows of ten minutes: `most` of each dataset, or fewer, spread over its time."""
    found = []
    for dataset in sorted({r.dataset for r in recordings}):
        places: list[tuple[Recording, int]] = []
        for step_s in FLOW_STARTS_S:
            if len(places) < most:
                places = [
                    (r, start_s)
                    for r in recordings
                    if r.dataset == dataset
                    for start_s in range(0, int(r.duration_s) - FLOW_S + 1, step_s)
                ]
        count = min(len(places), most)
        found += [places[(2 * i + 1) * len(places) // (2 * count)] for i in range(count)]
    return found


def seconds_of(ensemble: Ensemble, recordings: Sequence[Recording], *, flows: int = FLOWS) -> float:
    """The time that validate() simulates."""
    runs = 2 * len(ensemble.classes) + 1
    return runs * (sum(r.duration_s for r in recordings) + len(flow_places(recordings, most=flows)) * FLOW_S)


@dataclass(frozen=True, eq=False)
class FlowRuns:
    """The n flows of ten minutes of a scheme: percentile of the queueing delay, and bytes, each [n]."""

    delay_ms: NDArray[np.float64]
    capacity: NDArray[np.float64]
    delivered: NDArray[np.float64]


def _run_flows(
    ensemble: Ensemble,
    places: Sequence[tuple[Recording, int]],
    *,
    path: Path,
    threads: int | None,
    progress: Callable[[float], None],
) -> dict[tuple[str, int], FlowRuns]:
    """The flows of each scheme and class. The defaults are the same for all classes, and run once."""
    flows = _flows(ensemble)
    scenarios = [
        Scenario(
            name=f"{scheme} {c} from {start_s} s of {r.name}",
            link=path.link(r, start_ms=start_s * 1000, duration_s=FLOW_S),
            flows=(flow,),
            duration_s=FLOW_S,
            seed=path.seed,
        )
        for (scheme, c), flow in flows.items()
        for r, start_s in places
    ]
    runs = simulate_with_progress(scenarios, threads=threads, advance=progress) if scenarios else []
    found = {}
    for at, (scheme, c) in enumerate(flows):
        its = runs[at * len(places) : (at + 1) * len(places)]
        for to in range(len(ensemble.classes)) if scheme == "default" else (c,):
            percentile = ensemble.classes[to].percentile
            found[scheme, to] = FlowRuns(
                np.array([run.queueing_delay.percentile_ms(percentile) for run in its]),
                np.array([run.capacity_mbps for run in its]) * (FLOW_S * 1e6 / 8),
                np.array([run.throughput_mbps for run in its]) * (FLOW_S * 1e6 / 8),
            )
    return found


def _flow_figures(
    places: Sequence[tuple[Recording, int]], runs: FlowRuns, target_ms: float, dataset: str | None
) -> dict[str, Any]:
    """The flows of ten minutes of a dataset, or of all; None where there are none."""
    chosen = np.array([dataset in (None, r.dataset) for r, _ in places], dtype=np.bool_)
    delay_ms, count = runs.delay_ms[chosen], int(chosen.sum())
    return {
        "flows": count,
        "flows_within": float((delay_ms <= WITHIN * target_ms).mean()) if count else None,
        "flows_utilization": float(runs.delivered[chosen].sum() / max(runs.capacity[chosen].sum(), 1.0))
        if count
        else None,
        "flows_p95_ms": [round(float(one), 3) for one in np.sort(delay_ms)],
    }


def has_targets(ensemble: Ensemble) -> bool:
    """Whether all classes of the ensemble have a delay target, and its levels are of throughput.

    Raises:
        TrainingError: the ensemble has no study.
    """
    study = study_of(ensemble)
    return study.objective.has_boundary and "throughput" in study.levels


def require_targets(ensemble: Ensemble) -> None:
    """Refuse an ensemble whose classes do not all have a delay target.

    Raises:
        TrainingError: the ensemble has no study, or its study has another objective or no axis of throughput.
    """
    if not has_targets(ensemble):
        raise TrainingError(
            f"ensemble {ensemble.digest}: expected one whose classes all have a delay target, got one of "
            f"{ensemble.cca} with another objective; `ccatune report states` validates it"
        )


def _flows(ensemble: Ensemble) -> dict[tuple[str, int], FlowSpec]:
    singles = require_singles(ensemble)
    text = table_text(ensemble, Deployment("evaluation", "validated", 1))
    # With the defaults, and yet with epochs, so that it measures its level as the ensemble's flows do.
    defaults = default_table(ensemble.cca, epoch_ms=ensemble.epoch_ms, estimate_ms=ensemble.estimate_ms,
                             axis=ensemble.axes[0])  # fmt: skip
    flows = {("default", 0): FlowSpec(cca=ensemble.cca, ensemble_text=defaults)}
    for c, values in enumerate(singles):
        flows["ensemble", c] = FlowSpec(cca=ensemble.cca, ensemble_text=text, delay_class=c)
        flows["single", c] = FlowSpec(cca=ensemble.cca, params=values)
    return flows


def _levels(ensemble: Ensemble, runs: Sequence[QoS]) -> list[NDArray[np.int64]]:
    """The level of each window, for each recording.

    It is the level that the default flow measured at the end of epoch nearest the window's start. A run without an end
    of epoch has level 0.
    """
    found = []
    for run in runs:
        starts_ms, turns = run.windows.start_ms, run.flows[0].epoch_ends
        level = np.array([ensemble.axes[0].level(turn.measured_bytes_per_s) for turn in turns] or [0], dtype=np.int64)
        at_ms = np.array([turn.at_ms for turn in turns] or [0.0])
        found.append(level[np.abs(at_ms[None, :] - starts_ms[:, None]).argmin(axis=1)])
    return found


def windows_of(
    ensemble: Ensemble, recordings: Sequence[Recording], runs: Sequence[QoS], levels: Sequence[NDArray[np.int64]]
) -> Windows:
    """The windows of all recordings, in the order of the recordings."""
    epoch_s = ensemble.epoch_ms / 1000
    parts = [run.windows for run in runs]
    return Windows(
        dataset=np.concatenate(
            [np.full(len(w.start_ms), r.dataset, dtype=object) for r, w in zip(recordings, parts, strict=True)]
        ),
        level=np.concatenate(levels),
        capacity=np.concatenate([w.capacity_bytes.astype(np.float64) for w in parts]),
        delivered=np.concatenate([w.delivered_bytes.astype(np.float64) for w in parts]),
        seconds=np.concatenate(
            [np.minimum(epoch_s, r.duration_s - w.start_ms / 1000) for r, w in zip(recordings, parts, strict=True)]
        ),
        counts=np.concatenate([w.delay_counts for w in parts]),
        edges_us=parts[0].edges_us,
    )


def _select(w: Windows, chosen: NDArray[np.bool_]) -> Windows:
    rows = {name: getattr(w, name)[chosen] for name in ROWS}
    return replace(w, **rows)


def _figures(w: Windows, delay_class: DelayClass) -> dict[str, Any]:
    delays = Delays(w.edges_us, w.counts.sum(axis=0, dtype=np.int64))
    delay_ms = delays.percentile_ms(delay_class.percentile)
    target_ms = delay_class.queueing_delay_us / 1000
    return {
        "target_ms": target_ms,
        "p95_queueing_delay_ms": delay_ms,
        "p50_queueing_delay_ms": delays.percentile_ms(50),
        "utilization": float(w.delivered.sum() / max(w.capacity.sum(), 1.0)),
        "throughput_mbps": float(w.delivered.sum() * 8e-6 / max(w.seconds.sum(), 1e-9)),
        "meets": delay_ms <= target_ms,
    }


def _pooled(ensemble: Ensemble, by_class: Sequence[Windows]) -> list[dict[str, Any]]:
    return [_figures(w, c) for w, c in zip(by_class, ensemble.classes, strict=True)]


def _levels_with_windows(w: Windows) -> list[tuple[int, NDArray[np.bool_]]]:
    """The levels with enough windows, each with a mask of its windows. Windows in an outage are left out."""
    alive = w.capacity >= LEAST_CAPACITY_BYTES_PER_S * w.seconds
    found = [(int(level), (w.level == level) & alive) for level in np.unique(w.level)]
    return [(level, chosen) for level, chosen in found if int(chosen.sum()) >= LEAST_WINDOWS]


def _bootstrapped(w: Windows, delay_class: DelayClass, seed: int) -> dict[str, Any]:
    """The figures of some windows, with bootstrap intervals over these windows."""
    weights = drawn_weights(len(w.capacity), seed=seed)
    delays_ms = drawn_percentiles(weights, w.counts, w.edges_us / 1000, share=delay_class.percentile / 100)
    utilization = (weights @ w.delivered) / np.maximum(weights @ w.capacity, 1.0)
    return {
        **_figures(w, delay_class),
        "p95_queueing_delay_ms_interval": list(interval_95(delays_ms)),
        "utilization_interval": list(interval_95(utilization)),
    }


def _by_level(delay_class: DelayClass, its: Mapping[str, Windows]) -> list[tuple[dict[str, Any], NDArray[np.bool_]]]:
    """A row for each level of a class, and a mask of its windows. its: the windows of each scheme."""
    return [
        ({"target_ms": delay_class.queueing_delay_us / 1000, "level": level, "windows": int(here.sum()),
          **{s: _bootstrapped(_select(its[s], here), delay_class, seed=level) for s in SCHEMES}}, here)
        for level, here in _levels_with_windows(its["default"])
    ]  # fmt: skip


def _by_single(delay_class: DelayClass, its: Mapping[str, Windows],
               levels: Sequence[tuple[dict[str, Any], NDArray[np.bool_]]]) -> list[dict[str, Any]]:  # fmt: skip
    """The figures of ensemble and single set, where the single set meets its target and where it misses it.

    A single set can use more of the link in levels where it exceeds its target. Pooled figures hide this, because
    packets of other levels compensate for it. These figures therefore separate the two groups of levels.
    """
    capacity = its["default"].capacity
    found = []
    for single_meets in (True, False):
        masks = [here for row, here in levels if row["single"]["meets"] == single_meets]
        if masks:
            here = np.logical_or.reduce(masks)
            found.append({
                "target_ms": delay_class.queueing_delay_us / 1000,
                "single_meets": single_meets,
                "levels": len(masks),
                "share_of_capacity": float(capacity[here].sum() / max(capacity.sum(), 1.0)),
                **{s: _figures(_select(its[s], here), delay_class) for s in ("ensemble", "single")},
            })  # fmt: skip
    return found

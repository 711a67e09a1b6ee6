# SPDX-License-Identifier: MIT
"""`ccatune report robustness`: an ensemble over disturbed paths, compared with other schemes and perfect knowledge.

Each condition changes one thing of an undisturbed path: RTT 100 ms, a buffer of 1000 packets, no loss, one flow. With
`drawn` each flow has a path of its own from a distribution (training/workloads/paths.py). Flows begin with slow start
at places that are spread evenly over the recordings, the same in every cell. The schemes are:

    ensemble   flows that follow the ensemble's table
    single     the best single parameter set of each target, from the ensemble's provenance
    default    the algorithm's defaults; then other algorithms, and ensembles of them by their files
    matched    the defaults, but with the tracked parameter (GR's T, for example) that gives the ensemble's delay in
               this cell. It is interpolated between THRESHOLD_COUNT values
    perfect    the fixed parameters of GR with most use of the cell's own flows within WITHIN x the target, or else with
               the least delay

A cell has the pooled percentile of the queueing delay at the bottleneck, and the used share of the link: of all flows
on it. Fairness is Jain's index of the throughputs of two flows with the same parameters.

The criterion needs perfect knowledge. The ensemble uses at least LEAST_USED of the link wherever perfect knowledge uses
more than ENOUGH_USED. Its delay is at most MOST_EXCESS x the target wherever perfect knowledge keeps the target. Loss
of 1 % and company have no criterion: no parameter of a delay-based algorithm keeps a target beside CUBIC.

Perfect knowledge is searched in two stages, because its grid is large. First, all sets of the grid run on every
STRIDE-th flow. For each of several limits of the delay (STAGE_LIMITS), the best of these sets then runs on all flows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import click
import numpy as np

from emulation.errors import EmulationError
from emulation.mahimahi.clock import with_clock_of_mahimahi
from emulation.mahimahi.runner import emulate_many, host_runner
from emulation.mahimahi.translate import to_job
from emulation.options import words_of
from emulation.run.measures import Trial, measure
from emulation.run.qos import Delays
from emulation.run.simulator import compact_edges_us, simulate_many
from emulation.scenario.model import FlowSpec, Scenario
from kmod import abi
from kmod.ensemble import DelayClass, Deployment, Ensemble, table_text
from kmod.tables import Column, table_lines
from kmod.terminal import echo
from training.errors import TrainingError
from training.reports.arguments import ReportArguments, finish, of_ensemble
from training.reports.conditions import CONDITIONS, Condition, Place, places_of, scenarios_of
from training.study.ensemble import require_singles
from training.validation.recordings import WITHIN

MOST_EXCESS = 1.25
LEAST_USED, ENOUGH_USED = 0.75, 0.85
STRIDE = 4
STAGE_LIMITS = (0.5, 0.7, 0.85, 0.95, WITHIN, 1.1, 1.25)  # x target
WINDOWS_MS, INTERVALS_MS = (15, 60, 150, 400), (3, 20)
THRESHOLDS = (0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.2)  # x target
KERNEL, KERNEL_CELLS, KERNEL_S = ("kernel", "simulator"), 12, 60.0
OWN = ("ensemble", "single")  # schemes that differ by target, as ensembles by their files do
THRESHOLD_COUNT = 14
SCHEMES = (*OWN, "default", "cubic", "bbr", "bbr3", "vegas")


class Pooled(NamedTuple):
    """All flows of a cell, with the used share of the link."""

    delay: Delays
    used: float
    fairness: float | None = None


def _run(
    condition: Condition, places: Sequence[Place], trials: Sequence[Trial], *, delay_class: int, threads: int | None
) -> list[Pooled]:
    """The pooled figures of each trial."""
    flow = FlowSpec(delay_class=delay_class)
    if condition.beside is None:
        out = measure(scenarios_of(condition, places, flow), trials, threads=threads)
        counts = out.delay_counts.sum(axis=0, dtype=np.int64)
        used = out.delivered_bytes.sum(axis=0) / np.maximum(out.capacity_bytes.sum(axis=0), 1)
        return [Pooled(Delays(compact_edges_us(), c), float(u)) for c, u in zip(counts, used, strict=True)]
    flows = [flow.model_copy(update=vars(trial)) for trial in trials]
    every = simulate_many([s for flow in flows for s in scenarios_of(condition, places, flow)], threads=threads)
    seconds, found = [place.duration_s for place in places], []
    for at in range(0, len(every), len(places)):
        runs = every[at : at + len(places)]
        delay = reduce(lambda a, b: a + b, (run.queueing_delay for run in runs))
        carried, most, fairness = (
            float(np.average([getattr(run, name) for run in runs], weights=seconds))
            for name in ("throughput_mbps", "capacity_mbps", "fairness")
        )
        # A flow that runs for a third of the time cannot have the throughput of the other one.
        found.append(Pooled(delay, carried / max(most, 1e-9), fairness if condition.beside == "own" else None))
    return found


def cell_of(pooled: Pooled, target: DelayClass) -> dict[str, Any]:
    return {
        "p95_queueing_delay_ms": round(pooled.delay.percentile_ms(target.percentile), 1),
        "utilization": round(pooled.used, 4),
        **({} if pooled.fairness is None else {"fairness": round(pooled.fairness, 4)}),
    }


def best_within(runs: Sequence[Pooled], target: DelayClass, limit: float) -> int:
    """The run with most use of the link within limit x target, or else the one with the least delay."""
    delays_us = [1000 * run.delay.percentile_ms(target.percentile) for run in runs]
    within = [i for i, delay_us in enumerate(delays_us) if delay_us <= limit * target.queueing_delay_us]
    return max(within, key=lambda i: runs[i].used) if within else int(np.argmin(delays_us))


def grid_of(targets: Sequence[DelayClass]) -> list[dict[str, int]]:
    """The parameter sets of GR among which perfect knowledge of these targets chooses."""
    thresholds_us = sorted({max(round(t.queueing_delay_us * share), 1000) for t in targets for share in THRESHOLDS})
    return [
        {"bandwidth_window_us": 1000 * w, "adaptation_interval_us": 1000 * i, "delay_threshold_us": t}
        for w, i, t in product(WINDOWS_MS, INTERVALS_MS, thresholds_us)
        if i <= w
    ]


def _perfect(
    condition: Condition, places: Sequence[Place], ensemble: Ensemble, *, threads: int | None
) -> list[dict[str, Any]]:
    """The cell of perfect knowledge for each target, with its values. Runs do not depend on the target."""
    targets = ensemble.classes
    points = grid_of(targets)

    def run(its: Sequence[dict[str, int]], at: Sequence[Place]) -> list[Pooled]:
        return _run(condition, at, [Trial("gr", values) for values in its], delay_class=0, threads=threads)

    first = run(points, places[::STRIDE])
    chosen = sorted({best_within(first, target, limit) for target in targets for limit in STAGE_LIMITS})
    points = [*(points[i] for i in chosen), *require_singles(ensemble)]
    runs = run(points, places)
    return [{**cell_of(runs[i], t), "values": points[i]} for t in targets for i in [best_within(runs, t, WITHIN)]]


def matched(runs: Sequence[Pooled], target: DelayClass, delay_ms: float) -> dict[str, Any]:
    """The cell with the most use at this delay, between the runs: those of a parameter set with several thresholds."""
    by_delay = sorted(runs, key=lambda run: run.delay.percentile_ms(target.percentile))
    delays_ms = [run.delay.percentile_ms(target.percentile) for run in by_delay]
    used = np.interp(delay_ms, delays_ms, np.maximum.accumulate([run.used for run in by_delay]))
    reached_ms = float(np.clip(delay_ms, delays_ms[0], delays_ms[-1]))
    return {"p95_queueing_delay_ms": round(reached_ms, 1), "utilization": round(float(used), 4)}


def _thresholds_of(cca: str) -> list[dict[str, int]]:
    """Values of the parameter that tracking moves, over its whole range.

    Raises:
        TrainingError: the algorithm has none.
    """
    tracked = [spec for spec in abi.ALGORITHMS[cca].params if spec.kind == "tracked"]
    if not tracked:
        raise TrainingError(f"--matched: expected an algorithm whose parameter can be tracked, got {cca}")
    [spec] = tracked
    values = np.geomspace(max(spec.minimum, 1), spec.maximum, THRESHOLD_COUNT)
    return [{spec.name: round(value)} for value in values]


def shortfalls(cells: dict[str, Any], target_ms: float) -> list[str]:
    """How the ensemble falls short at a target. Without perfect knowledge, only where its delay is too long."""
    own, perfect = cells["ensemble"], cells.get("perfect")
    kept = perfect is None or perfect["p95_queueing_delay_ms"] <= WITHIN * target_ms
    is_idle = perfect is not None and own["utilization"] < LEAST_USED and perfect["utilization"] > ENOUGH_USED
    return ["delay"] * (kept and own["p95_queueing_delay_ms"] > MOST_EXCESS * target_ms) + ["use"] * is_idle


def _trials_of(ensemble: Ensemble, others: Mapping[str, Ensemble]) -> dict[str, list[Trial]]:
    """The trials of `ensemble`, and of the others by name: one for each of its classes, or one for all.

    Raises:
        TrainingError: one of the others has several classes, which are not those of `ensemble`.
    """
    found = {}
    for name, one in {"ensemble": ensemble, **others}.items():
        if one.classes != ensemble.classes and len(one.classes) > 1:
            raise TrainingError(f"{name}: expected the targets of the ensemble, or a single one; it has other ones")
        text = table_text(one, Deployment("evaluation", "validated", 1))
        found[name] = [Trial(one.cca, ensemble_text=text)] * (1 if len(one.classes) == 1 else len(ensemble.classes))
    return found


def run_conditions(
    ensemble: Ensemble,
    places: Sequence[Place],
    *,
    conditions: Sequence[Condition] = CONDITIONS,
    schemes: Sequence[str] = SCHEMES,
    others: Mapping[str, Ensemble] | None = None,
    perfect: bool = False,
    with_matched: bool = False,
    threads: int | None = None,
    advance: Callable[[str], None] = lambda _name: None,
) -> list[dict[str, Any]]:
    """A row for each condition, with the cells of each target by scheme. advance: called after each, with its name.

    others: the ensembles of those schemes that are neither OWN nor algorithms. An ensemble with a single class runs
    with it for all targets.

    Raises:
        TrainingError: perfect knowledge of an algorithm other than GR, an ensemble with other classes, or
            `with_matched` for an algorithm without a parameter that tracking moves.
    """
    if perfect and ensemble.cca != "gr":
        raise TrainingError(f"--perfect: expected an ensemble of gr, got one of {ensemble.cca}")
    own = _trials_of(ensemble, others or {})
    if "single" in schemes:
        own["single"] = [Trial(ensemble.cca, values) for values in require_singles(ensemble)]
    thresholds = [Trial(ensemble.cca, values) for values in _thresholds_of(ensemble.cca)] if with_matched else []
    rows = []
    for condition in conditions:
        known = _perfect(condition, places, ensemble, threads=threads) if perfect and not condition.beside else []
        targets, runs = [], dict[str, Pooled]()
        varied = _run(condition, places, thresholds, delay_class=0, threads=threads) if thresholds else []
        for c, target in enumerate(ensemble.classes):
            names = [scheme for scheme in schemes if c == 0 or len(own.get(scheme, ())) > 1]
            trials = [own[s][c] if s in own else Trial(ensemble.cca if s == "default" else s) for s in names]
            runs |= zip(names, _run(condition, places, trials, delay_class=c, threads=threads), strict=True)
            cells = {s: cell_of(runs[s], target) for s in schemes} | ({"perfect": known[c]} if known else {})
            if varied:
                cells["matched"] = matched(varied, target, cells["ensemble"]["p95_queueing_delay_ms"])
            target_ms = target.queueing_delay_us / 1000
            short_of = shortfalls(cells, target_ms) if condition.has_criterion else []
            targets.append({"target_ms": target_ms, **cells, "short_of": short_of})
        holds = not any(its["short_of"] for its in targets)
        rows.append({"condition": condition.name, "targets": targets, "holds": holds})
        advance(condition.name)
    return rows


def on_kernel(
    ensemble: Ensemble,
    places: Sequence[Place],
    *,
    conditions: Sequence[Condition] = CONDITIONS,
    advance: Callable[[int], None] = lambda _flows: None,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """One flow in each of the first KERNEL_CELLS conditions that Mahimahi has, on this machine's kernel and simulated.

    Targets and places alternate. Returns the rows, and for each of the other conditions the reason why it is left out.
    advance: called with the number of flows that finished since the previous call.
    """
    runner, text = host_runner(), table_text(ensemble, Deployment("evaluation", "validated", 1))
    chosen: list[tuple[str, DelayClass, Scenario]] = []
    left_out: dict[str, str] = {}
    for condition in conditions:
        at, c = len(chosen), len(chosen) % len(ensemble.classes)
        recording, start_s, duration_s = places[at * len(places) // KERNEL_CELLS % len(places)]
        flow = FlowSpec(cca=ensemble.cca, ensemble_text=text, delay_class=c)
        [scenario] = scenarios_of(condition, [Place(recording, start_s, min(duration_s, KERNEL_S))], flow)
        try:
            to_job(scenario, runner)
        except EmulationError as error:
            left_out[condition.name] = str(error).removeprefix(f"{scenario.name}: ")
            continue
        if at < KERNEL_CELLS:
            chosen.append((condition.name, ensemble.classes[c], scenario))
        else:
            left_out[condition.name] = f"enough cells, {KERNEL_CELLS} of conditions before it"
    scenarios = [scenario for _, _, scenario in chosen]
    emulated = emulate_many(scenarios, progress=lambda _done: advance(1))
    pairs = zip(emulated, simulate_many([*map(with_clock_of_mahimahi, scenarios)]), strict=True)
    rows = [
        {"condition": name, "target_ms": target.queueing_delay_us / 1000}
        | {k: cell_of(Pooled(r.queueing_delay, r.utilization), target) for k, r in zip(KERNEL, pair, strict=True)}
        for (name, target, _), pair in zip(chosen, pairs, strict=True)
    ]
    return rows, left_out


def text_of(cell: dict[str, Any]) -> str:
    return f"{cell['p95_queueing_delay_ms']:.0f} {100 * cell['utilization']:3.0f}"


def _lines(rows: Sequence[dict[str, Any]], schemes: Sequence[str]) -> list[str]:
    """A table for each target."""

    def texts(condition: str, target: dict[str, Any]) -> list[str]:
        cells = (text_of(target[scheme]) if scheme in target else "" for scheme in schemes)
        return [condition, *cells, "*" * bool(target["short_of"])]

    lines = []
    for c, target in enumerate(rows[0]["targets"]):
        columns = [Column(f"{target['target_ms']:g} ms"), *(Column(scheme, "right") for scheme in schemes), Column("")]
        lines += [*table_lines(columns, [texts(row["condition"], row["targets"][c]) for row in rows]), ""]
    for row in rows:
        fairness = [f"{t['ensemble']['fairness']:.2f}" for t in row["targets"] if "fairness" in t["ensemble"]]
        lines += [f"{row['condition']}: Jain's index {', '.join(fairness)}"] * bool(fairness)
    return lines


@click.command()
@of_ensemble
@click.option("--flows", type=click.IntRange(1), default=12, show_default=True, help="Flows of each dataset")
@click.option("--schemes", metavar='"SCHEME1 SCHEME2..."', default=" ".join(SCHEMES[len(OWN) + 1 :]),
              show_default=True, help="Other algorithms, and ensembles by their files (FILE.json)")  # fmt: skip
@click.option("--perfect", is_flag=True, help="Search the best parameters of each cell, and apply the criterion")
@click.option("--matched", "with_matched", is_flag=True, help="Add the defaults at the ensemble's delay")
@click.option("--runner", type=click.Choice(["simulator", "mahimahi"]), default="simulator", show_default=True,
              help=f"mahimahi: {KERNEL_CELLS} cells on this machine's kernel, beside the simulator")  # fmt: skip
def robustness(*, given: ReportArguments, flows: int, schemes: str, perfect: bool, with_matched: bool,
               runner: str) -> None:  # fmt: skip
    """Run an ensemble over disturbed paths, and beside other flows.

    A cell has the 95th percentile of the queueing delay in ms, and the used share of the link in %.

    \b
    Example:
      ccatune report robustness gr.json --dataset pqsa-4g --perfect
      ccatune report robustness sira.json --matched --schemes "gr.json cubic bbr"
    """
    if runner == "mahimahi" and perfect:
        raise click.UsageError("--perfect: expected it without --runner mahimahi, which searches nothing")
    names = (*OWN, "default", *words_of(schemes))
    others = {name: Ensemble.load(name) for name in names if name.endswith(".json")}
    with given.read() as (ensemble, _, recordings, terminal):
        terminal.phase("running flows", total=len(CONDITIONS) if runner == "simulator" else KERNEL_CELLS)
        places = places_of(recordings, flows)
        if runner == "mahimahi":
            rows, left_out = on_kernel(ensemble, places, advance=terminal.advance)
            texts = [[row["condition"], f"{row['target_ms']:g} ms", *(text_of(row[k]) for k in KERNEL)] for row in rows]
            columns = (Column(heading, "right") for heading in ("target", *KERNEL))
            lines = table_lines([Column("condition"), *columns], texts)
            lines += [f"left out: {name}: {reason}" for name, reason in left_out.items()]
            echo(json.dumps({"rows": rows, "left_out": left_out}, indent=1) if given.as_json else "\n".join(lines))
            return
        rows = run_conditions(ensemble, places, schemes=names, others=others, perfect=perfect,
                              with_matched=with_matched, threads=given.threads,
                              advance=lambda _name: terminal.advance(1))  # fmt: skip
    lines = _lines(rows, (*names, *["matched"] * with_matched, *["perfect"] * perfect))
    line = f"delay within {MOST_EXCESS} x target, {LEAST_USED:.0%} of the link used, where perfect knowledge does"
    if perfect:
        finish(rows, lines, line=line, as_json=given.as_json)
    elif given.as_json:
        echo(json.dumps({"rows": rows}, indent=1))
    else:
        echo("\n".join([*lines, f"* delay above {MOST_EXCESS} x target; --perfect tells whether it can be kept"]))

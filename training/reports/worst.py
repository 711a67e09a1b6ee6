# SPDX-License-Identifier: MIT
"""`ccatune report worst`: the paths of a distribution on which an ensemble of GR falls furthest short.

A path is a place from 0 to 1 in each quantity of the distribution (PathRanges.at) and in the recordings. A flow of
FLOW_S follows the ensemble's table there, from slow start on. For a target, with D its percentile of the queueing delay
and U the used share of the link:

    regret = max(U_perfect - U_ensemble, 0) + penalty
    penalty = min(max(D_ensemble / (MOST_EXCESS x target) - 1, 0), 1), where D_perfect <= WITHIN x target; otherwise 0

Perfect knowledge is the fixed parameters of GR with most use of this very flow's link within WITHIN x the target, or
else with the least delay (robustness.py). Delay that is twice as long as it may be counts as much as an unused link.

    draw     so many paths. Perfect use of the link bounds their regrets from above, and only the regrets that may be
             among the worst 1 %, or belong to the ROWS worst paths, are computed
    search   simulated annealing over the places (searches/dds.py) from each of these paths, for its worst target. An
             even place is a draw from the distribution, so the annealing keeps to paths that do occur
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import yaml

from emulation.options import FiniteRange
from emulation.run.measures import Trial, measure
from emulation.run.qos import Delays
from emulation.run.simulator import compact_edges_us
from emulation.scenario.files import link_document
from emulation.scenario.model import FlowSpec, Scenario
from emulation.traces import Recording, place_of
from emulation.traces.files import write_file
from kmod.ensemble import DelayClass, Deployment, Ensemble, table_text
from kmod.tables import Column, table_lines
from kmod.terminal import echo
from training.errors import TrainingError
from training.progress import Progress
from training.reports import conditions, robustness
from training.reports.arguments import ReportArguments, of_ensemble
from training.reports.conditions import FLOW_S, Condition, Place
from training.reports.robustness import MOST_EXCESS, Pooled
from training.searches.dds import AnnealingSettings, DdsSearch
from training.searches.search import Score
from training.searches.space import Dimension, Space
from training.study.ensemble import require_singles
from training.validation.recordings import WITHIN
from training.workloads.paths import QUANTITIES, Cases, PathRanges, PathsSettings, read_paths

ROWS = 5
SCALE = 1_000_000  # a search's integers for places from 0 to 1
SPACE = Space(tuple(Dimension(name, SCALE, 2 * SCALE) for name in (*QUANTITIES, "recording")))
REACH = 0.5  # the annealing's box is the whole range
SPILL_MS = 10_000  # of a trace after the end of its run, so that a silence there stays one


def regret(own: Pooled, perfect: Pooled | None, target: DelayClass) -> float:
    """See above. perfect: None: the most that the regret can be, whatever perfect knowledge reaches."""
    own_us, perfect_us = (1000 * run.delay.percentile_ms(target.percentile) if run else 0.0 for run in (own, perfect))
    kept = perfect_us <= WITHIN * target.queueing_delay_us
    excess = kept * (own_us / (MOST_EXCESS * target.queueing_delay_us) - 1)
    return max((perfect.used if perfect else 1.0) - own.used, 0.0) + min(max(excess, 0.0), 1.0)


class Judged(NamedTuple):
    """A path with its regret for the target of a class."""

    regret: float
    at: tuple[float, ...]
    target: int
    own: Pooled
    perfect: Pooled
    values: dict[str, int]


@dataclass(frozen=True)
class Judge:
    """Judges the paths of a distribution."""

    ensemble: Ensemble
    paths: PathsSettings
    recordings: Sequence[Recording]
    threads: int | None = None

    def place(self, at: Sequence[float]) -> tuple[PathRanges, Place]:
        """The path at these places, and where in the recordings its flow runs."""
        recording, start_ms = place_of(self.recordings, share=at[-1])
        duration_s = min(FLOW_S, recording.duration_s)
        start_s = min(start_ms // 1000, int(recording.duration_s - duration_s))
        return self.paths.at(at[:-1]), Place(recording, start_s, duration_s)

    def scenario(self, at: Sequence[float], target: int) -> Scenario:
        """The run."""
        path, place = self.place(at)
        condition = Condition("worst", PathsSettings(name="worst", **dict(path)))
        return conditions.scenarios_of(condition, [place], FlowSpec(delay_class=target))[0]

    def owns(self, every: Sequence[Sequence[float]], target: int) -> list[Pooled]:
        """The ensemble's run on each path."""
        trial = Trial("gr", ensemble_text=table_text(self.ensemble, Deployment("evaluation", "validated", 1)))
        return [runs[0] for runs in self._runs([self.scenario(at, target) for at in every], [trial])]

    def judge(self, at: Sequence[float], target: int, own: Pooled) -> Judged:
        """Find perfect knowledge of a path, and the regret of the ensemble's run."""
        its = self.ensemble.classes[target]
        points = [*robustness.grid_of([its]), require_singles(self.ensemble)[target]]
        [runs] = self._runs([self.scenario(at, target)], [Trial("gr", values) for values in points])
        best = robustness.best_within(runs, its, WITHIN)
        return Judged(regret(own, runs[best], its), tuple(at), target, own, runs[best], dict(points[best]))

    def _runs(self, scenarios: Sequence[Scenario], trials: Sequence[Trial]) -> list[list[Pooled]]:
        out = measure(scenarios, trials, threads=self.threads)
        used = out.delivered_bytes / np.maximum(out.capacity_bytes, 1)
        return [
            [Pooled(Delays(compact_edges_us(), c.astype(np.int64)), float(u)) for c, u in zip(*row, strict=True)]
            for row in zip(out.delay_counts, used, strict=True)
        ]


def one_of_each_path(found: Sequence[Judged]) -> list[Judged]:
    """The ROWS worst paths, each with its worst target. found: the worst one first."""
    by_path = {one.at: one for one in reversed(found)}
    return sorted(by_path.values(), key=lambda one: -one.regret)[:ROWS]


def draw_worst(judge: Judge, *, draws: int, seed: int, progress: Progress) -> tuple[list[Judged], float]:
    """The ROWS worst of so many drawn paths, and the mean regret of the worst 1 % of their regrets for all targets."""
    every = np.random.default_rng([seed, 0]).random((draws, len(SPACE.names))).tolist()
    classes = judge.ensemble.classes
    count = math.ceil(draws * len(classes) / 100)
    progress.phase("drawing paths", total=draws * len(classes))
    runs = [(c, at, own) for c in range(len(classes)) for at, own in zip(every, judge.owns(every, c), strict=True)]
    bounds = [(regret(own, None, classes[c]), at, c, own) for c, at, own in runs]
    found: list[Judged] = []
    for bound, at, c, own in sorted(bounds, key=lambda one: -one[0]):
        paths = one_of_each_path(found)
        if len(paths) == ROWS and len(found) >= count and bound <= min(found[count - 1].regret, paths[-1].regret):
            break
        found = sorted([*found, judge.judge(at, c, own)], key=lambda one: -one.regret)
        progress.advance(1)
    return one_of_each_path(found), float(np.mean([one.regret for one in found[:count]]))


def search_from(judge: Judge, start: Judged, *, steps: int, seed: Sequence[int], progress: Progress) -> Judged:
    """The worst path that the annealing from a path finds, for the same target."""
    search = DdsSearch(SPACE, settings=AnnealingSettings(steps=steps), samples=[start.at], seed=seed, reach=REACH)
    worst, target = start, judge.ensemble.classes[start.target]
    search.tell(search.ask(1)[0].number, Score(0.0, -start.regret, cases=1))
    while not search.done:
        [proposal] = search.ask(1)
        at = [min(place, 1 - 1 / SCALE) for place in SPACE.positions(proposal.point)]
        [own] = judge.owns([at], start.target)
        score = Score(0.0, -regret(own, None, target), cases=1, complete=False)
        if not search.hopeless(proposal.number, score):
            judged = judge.judge(at, start.target, own)
            worst = max(worst, judged, key=lambda one: one.regret)
            score = Score(0.0, -judged.regret, cases=1)
        search.tell(proposal.number, score)
        progress.advance(1)
    return worst


def row_of(judge: Judge, one: Judged) -> dict[str, Any]:
    """The figures of a path."""
    target, (path, place) = judge.ensemble.classes[one.target], judge.place(one.at)
    start_ms, duration_ms = round(1000 * place.start_s), round(1000 * place.duration_s)
    rate_mbps = place.recording.trace.capacity_bytes(start_ms, start_ms + duration_ms) * 8e-3 / duration_ms
    return {
        "regret": round(one.regret, 4),
        "target_ms": target.queueing_delay_us / 1000,
        "ensemble": robustness.cell_of(one.own, target),
        "perfect": {**robustness.cell_of(one.perfect, target), "values": one.values},
        "path": path.model_dump(mode="json", exclude_defaults=True),
        "words": f"{path.in_words()}, {place.recording.dataset} at {rate_mbps:.2g} Mbit/s",
        "recording": place.recording.name,
        "start_s": place.start_s,
    }


def write_worst(judge: Judge, found: Sequence[Judged], folder: Path, *, share: float) -> None:
    """Write the ensemble, a scenario file with its trace for each path, and paths.yaml for training."""

    def write(name: str, document: dict[str, Any]) -> None:
        write_file(folder / name, yaml.safe_dump(document, sort_keys=False, default_flow_style=None).encode())

    judge.ensemble.save(folder / "ensemble.json")
    for number, one in enumerate(found, 1):
        scenario, trace = judge.scenario(one.at, one.target), judge.place(one.at)[1].recording.trace
        end_ms = scenario.link.start_ms + round(1000 * scenario.duration_s) + SPILL_MS
        piece = trace.slice(scenario.link.start_ms, min(end_ms, trace.period_ms))
        write_file(folder / f"worst-{number}.down", piece.as_file())
        link = link_document(scenario.link, trace=f"worst-{number}.down")
        flows = [{"ensemble": "ensemble.json", "delay_class": one.target}]
        times = {"duration_s": scenario.duration_s, "seed": scenario.seed}
        write(f"worst-{number}.yaml", {"link": link, "flows": flows, **times})
    before = judge.paths.cases.paths if judge.paths.cases else ()
    cases = Cases(share=share, paths=(*before, *(judge.place(one.at)[0] for one in found)))
    write("paths.yaml", judge.paths.model_copy(update={"cases": cases}).model_dump(mode="json", exclude_defaults=True))


def _lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    columns = [Column(name, "right") for name in ("regret", "target", "ensemble", "perfect")]
    pairs = [[robustness.text_of(row[scheme]) for scheme in ("ensemble", "perfect")] for row in rows]
    its = zip(rows, pairs, strict=True)
    cells = [[f"{r['regret']:.3f}", f"{r['target_ms']:g} ms", *pair, r["words"]] for r, pair in its]
    return table_lines([*columns, Column("path", least=30, cut="end")], cells)


@click.command()
@of_ensemble
@click.option("--paths", "paths_name", metavar="NAME", help="File, or name in configs/paths  [the study's own]")
@click.option("--draws", type=click.IntRange(1), default=64, show_default=True, help="Paths drawn at first")
@click.option("--evaluations", type=click.IntRange(0), default=200, show_default=True, help="Paths of the search")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the draws and the search")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Write the worst paths as scenario files, and paths.yaml for a study's workload.paths")  # fmt: skip
@click.option("--share", type=FiniteRange(0, 1), default=0.2, show_default=True,
              help="Share of the training pieces that take one of these paths, in paths.yaml")  # fmt: skip
def worst(*, given: ReportArguments, paths_name: str | None, draws: int, evaluations: int, seed: int,
          out: Path | None, share: float) -> None:  # fmt: skip
    """Search the paths on which an ensemble of GR falls furthest short of the best fixed parameters.

    Each row has the 95th percentile of the queueing delay in ms, and the used share of the link in %. A regret of 0.2:
    the ensemble leaves 20 % more of the link unused, or its delay is 1.2 times as long as it may be.

    \b
    Example:
      ccatune report worst gr.json --part train --out worst
      ccatune report worst gr.json --draws 300 --evaluations 0
    """
    if out is not None:
        try:
            out.mkdir(parents=True, exist_ok=True)  # before the search, which takes minutes
        except OSError as error:
            raise TrainingError(f"--out {out}: expected a folder to write to, got {error.strerror}") from error
    with given.read() as (ensemble, study, recordings, terminal):
        paths = read_paths(paths_name) if paths_name else getattr(study.workload, "paths", None)
        if ensemble.cca != "gr" or paths is None:
            raise TrainingError(f"report worst: expected gr, and a study with paths or --paths, got {ensemble.cca}")
        # In a shorter flow a single fade of the link decides its percentile.
        long = [recording for recording in recordings if recording.duration_s >= FLOW_S]
        judge = Judge(ensemble, paths, long or recordings, given.threads)
        starts, mean = draw_worst(judge, draws=draws, seed=seed, progress=terminal)
        terminal.phase("searching from the worst", total=evaluations)
        found = [search_from(judge, start, steps=evaluations // len(starts), seed=(seed, n), progress=terminal)
                 for n, start in enumerate(starts, 1)]  # fmt: skip
        found.sort(key=lambda one: -one.regret)
    rows = [row_of(judge, one) for one in found]
    if out is not None:
        write_worst(judge, found, out, share=share)
    lines = [*_lines(rows), f"mean regret of the worst 1 % of {draws} drawn paths: {mean:.3f}"]
    lines += [f"written: {out}/worst-1.yaml to worst-{len(rows)}.yaml, paths.yaml"] * (out is not None)
    figures = {"rows": rows, "drawn_worst_1_percent": round(mean, 4)}
    echo(json.dumps(figures, indent=1) if given.as_json else "\n".join(lines))

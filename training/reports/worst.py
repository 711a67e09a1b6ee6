# SPDX-License-Identifier: MIT
"""`ccatune report worst`: the paths of a distribution on which an ensemble of GR falls furthest short.

A path is a place from 0 to 1 in each quantity of the distribution (PathRanges.at), and one in the recordings. A flow
runs there for FLOW_S, from slow start on, and follows the ensemble's table. For a target, with D its percentile of the
queueing delay and U the used share of the link:

    regret = max(U_perfect - U_ensemble, 0) + penalty
    penalty = min(max(D_ensemble / (MOST_EXCESS x target) - 1, 0), 1), where D_perfect <= WITHIN x target; otherwise 0

Perfect knowledge is the set of fixed parameters with most use of this very flow's link within WITHIN x the target, or
else the one with the least delay (robustness.py). Delay that is twice as long as it may be therefore costs as much as
an unused link.

The search has two steps:

    draw      `draws` paths from the distribution. The regret of the worst 1 % of (path, target) is exact: the other
              pairs are those that even perfect use of the link would give less regret
    search    from each of the ROWS worst paths, simulated annealing (searches/dds.py) over the places. An even place is
              a draw from the distribution, so a step reaches paths in proportion to their share of it. A step without
              perfect knowledge's runs is one that could not be taken

Training on the paths that it writes (`--out`) makes the next table better there, and the report finds others.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
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
from emulation.scenario.model import FlowSpec, Scenario
from emulation.traces import Recording, place_of
from emulation.traces.files import write_file
from kmod.ensemble import DelayClass, Deployment, Ensemble, table_text
from kmod.tables import Column, table_lines
from kmod.terminal import echo
from training.errors import TrainingError
from training.progress import Progress
from training.reports import robustness
from training.reports.arguments import ReportArguments, of_ensemble
from training.reports.robustness import FLOW_S, MOST_EXCESS, Condition, Place, Pooled
from training.searches.dds import AnnealingSettings, DdsSearch
from training.searches.search import Score
from training.searches.space import Dimension, Space
from training.study.ensemble import require_singles
from training.validation.recordings import WITHIN
from training.workloads.paths import QUANTITIES, Cases, PathRanges, PathsSettings, read_paths

ROWS = 5
SCALE = 1_000_000  # a search's integers for places from 0 to 1
SPACE = Space(tuple(Dimension(name, SCALE, 2 * SCALE) for name in (*QUANTITIES, "recording")))
REACH = 0.5
SPILL_MS = 10_000  # of a trace after the end of its run, so that a silence there stays one


def regret(own: tuple[float, float], perfect: tuple[float, float], target_ms: float) -> float:
    """See above. own, perfect: percentile of the queueing delay in ms, and used share of the link."""
    excess = own[0] / (MOST_EXCESS * target_ms) - 1 if perfect[0] <= WITHIN * target_ms else 0.0
    return max(perfect[1] - own[1], 0.0) + min(max(excess, 0.0), 1.0)


def _pair(run: Pooled, target: DelayClass) -> tuple[float, float]:
    return run.delay.percentile_ms(target.percentile), run.used


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
    """Judges paths of a distribution."""

    ensemble: Ensemble
    paths: PathsSettings
    recordings: Sequence[Recording]
    threads: int | None = None

    def place(self, at: Sequence[float]) -> tuple[PathRanges, Place]:
        """The path at these places, and where its flow runs."""
        recording, start_ms = place_of(self.recordings, share=at[-1])
        duration_s = min(FLOW_S, recording.duration_s)
        start_s = min(start_ms // 1000, int(recording.duration_s - duration_s))
        return self.paths.at(at[:-1]), Place(recording, start_s, duration_s)

    def scenario(self, at: Sequence[float], target: int) -> Scenario:
        """The run."""
        path, place = self.place(at)
        condition = Condition("worst", PathsSettings(name="worst", **dict(path)))
        return robustness.scenarios_of(condition, [place], FlowSpec(delay_class=target))[0]

    def owns(self, every: Sequence[Sequence[float]], target: int) -> list[Pooled]:
        """The ensemble's run on each path."""
        trial = Trial("gr", ensemble_text=table_text(self.ensemble, Deployment("evaluation", "validated", 1)))
        return [runs[0] for runs in self._runs([self.scenario(at, target) for at in every], [trial])]

    def most(self, own: Pooled, target: int) -> float:
        """The regret if perfect knowledge kept the target and used all of the link."""
        its = self.ensemble.classes[target]
        return regret(_pair(own, its), (0.0, 1.0), its.queueing_delay_us / 1000)

    def judge(self, at: Sequence[float], target: int, own: Pooled) -> Judged:
        """Find perfect knowledge of a path."""
        its = self.ensemble.classes[target]
        points = [*robustness.grid_of([its]), require_singles(self.ensemble)[target]]
        [runs] = self._runs([self.scenario(at, 0)], [Trial("gr", values) for values in points])
        best = robustness.best_within(runs, its, WITHIN)
        found = regret(_pair(own, its), _pair(runs[best], its), its.queueing_delay_us / 1000)
        return Judged(found, tuple(at), target, own, runs[best], dict(points[best]))

    def _runs(self, scenarios: Sequence[Scenario], trials: Sequence[Trial]) -> list[list[Pooled]]:
        out = measure(scenarios, trials, threads=self.threads)
        used = out.delivered_bytes / np.maximum(out.capacity_bytes, 1)
        return [
            [Pooled(Delays(compact_edges_us(), c.astype(np.int64)), float(u)) for c, u in zip(*row, strict=True)]
            for row in zip(out.delay_counts, used, strict=True)
        ]


def draw_worst(judge: Judge, *, draws: int, seed: int, progress: Progress) -> list[Judged]:
    """The worst 1 % of (path, target) of so many drawn paths, but at least ROWS paths; the worst one first."""
    rng = np.random.default_rng([seed, 0])
    every = rng.random((draws, len(SPACE.names))).tolist()
    classes = range(len(judge.ensemble.classes))
    count = math.ceil(draws * len(classes) / 100)
    progress.phase("drawing paths", total=draws * len(classes))
    bounds = [(judge.most(own, c), n, c, own) for c in classes for n, own in enumerate(judge.owns(every, c))]
    found: list[Judged] = []
    for most, n, c, own in sorted(bounds, key=lambda one: -one[0]):
        worst = _one_of_each_path(found)
        if len(found) >= count and len(worst) >= ROWS and most <= min(found[count - 1].regret, worst[-1].regret):
            break
        found = sorted([*found, judge.judge(every[n], c, own)], key=lambda one: -one.regret)
        progress.advance(1)
    return found


def _one_of_each_path(found: Sequence[Judged]) -> list[Judged]:
    """The ROWS worst paths, each with its worst target. found: the worst one first."""
    by_path: dict[tuple[float, ...], Judged] = {}
    for one in found:
        by_path.setdefault(one.at, one)
    return list(by_path.values())[:ROWS]


def search_from(
    judge: Judge, start: Judged, *, steps: int, seed: Sequence[int], advance: Callable[[float], None]
) -> Judged:
    """The worst path that the annealing from a path finds."""
    search = DdsSearch(SPACE, settings=AnnealingSettings(steps=steps), samples=[start.at], seed=seed, reach=REACH)
    worst = start
    while not search.done:
        for proposal in search.ask(1):
            at = [min(place, 1 - 1 / SCALE) for place in SPACE.positions(proposal.point)]
            [own] = judge.owns([at], start.target)
            score = Score(0.0, -judge.most(own, start.target), cases=1, complete=False)
            if proposal.number == 0 or not search.hopeless(proposal.number, score):
                judged = start if proposal.number == 0 else judge.judge(at, start.target, own)
                worst = max(worst, judged, key=lambda one: one.regret)
                score = Score(0.0, -judged.regret, cases=1)
            search.tell(proposal.number, score)
            advance(1 if proposal.number else 0)
    return worst


def find_worst(
    judge: Judge, *, draws: int, evaluations: int, seed: int, progress: Progress
) -> tuple[list[Judged], float]:
    """The ROWS worst paths, the worst one first, and the mean regret of the worst 1 % of the drawn (path, target)."""
    drawn = draw_worst(judge, draws=draws, seed=seed, progress=progress)
    count = math.ceil(draws * len(judge.ensemble.classes) / 100)
    mean = float(np.mean([one.regret for one in drawn[:count]]))
    starts = _one_of_each_path(drawn)
    progress.phase("searching from the worst", total=evaluations)
    steps = evaluations // len(starts)
    found = [
        search_from(judge, start, steps=steps, seed=(seed, 1, n), advance=progress.advance)
        for n, start in enumerate(starts)
    ]
    return sorted(found, key=lambda one: -one.regret), mean


def in_words(path: PathRanges, place: Place) -> str:
    """E.g. `RTT 25 ms, 60 pkts, ACKs every 12 ms, pqsa-4g at 3.4 Mbit/s`."""
    single = {
        "ACKs every {:.3g} ms": path.ack_interval_ms[0] if path.ack_interval_ms else None,
        "holds {:.3g} ms": path.hold_ms,
        "jitter {:.3g} ms": path.jitter_ms,
        "loss {:.2g}": path.loss,
    }
    start_ms = round(place.start_s * 1000)
    capacity = place.recording.trace.capacity_bytes(start_ms, start_ms + round(place.duration_s * 1000))
    parts = [
        f"RTT {path.rtt_ms[0]:.0f} ms",
        f"{path.buffer_pkts[0]:.0f} pkts",
        *(text.format(some.between[0]) for text, some in single.items() if some is not None),
        *["CoDel"] * bool(path.codel),
        *["stalls"] * (path.stall_ms is not None),
        *["outages"] * (path.outage_s is not None),
        f"{place.recording.dataset} at {capacity * 8e-6 / place.duration_s:.2g} Mbit/s",
    ]
    return ", ".join(parts)


def row_of(judge: Judge, one: Judged) -> dict[str, Any]:
    """The figures of a path."""
    target = judge.ensemble.classes[one.target]
    path, place = judge.place(one.at)
    return {
        "regret": round(one.regret, 4),
        "target_ms": target.queueing_delay_us / 1000,
        "ensemble": robustness.cell_of(one.own, target),
        "perfect": {**robustness.cell_of(one.perfect, target), "values": one.values},
        "words": in_words(path, place),
        "path": path.model_dump(mode="json", exclude_defaults=True),
        "recording": place.recording.name,
        "start_s": place.start_s,
    }


def scenario_document(scenario: Scenario, *, trace: str, ensemble: str, delay_class: int) -> dict[str, Any]:
    """The content of a scenario file (emulation/scenario/files.py) with a bulk flow that follows an ensemble."""
    link = scenario.link
    behind = [{"kind": one.kind, **one.model_dump(mode="json", exclude_defaults=True)} for one in link.behind]
    fields = link.model_dump(mode="json", exclude_defaults=True, exclude={"trace", "start_ms", "behind"})
    return {
        "name": scenario.name,
        "link": {"trace": trace, **fields, "behind": behind},
        "flows": [{"ensemble": ensemble, "delay_class": delay_class}],
        "duration_s": scenario.duration_s,
        "seed": scenario.seed,
    }


def write_worst(judge: Judge, found: Sequence[Judged], folder: Path, *, share: float) -> list[str]:
    """Write the ensemble, a scenario file with its trace for each path, and paths.yaml; the scenario files' names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"--out {folder}: expected a folder to write to, got {error.strerror}") from error
    judge.ensemble.save(folder / "ensemble.json")

    def write(name: str, document: dict[str, Any]) -> None:
        write_file(folder / name, yaml.safe_dump(document, sort_keys=False, default_flow_style=None).encode())

    names = []
    for number, one in enumerate(found, 1):
        scenario, (_, place) = judge.scenario(one.at, one.target), judge.place(one.at)
        start_ms, recording = round(place.start_s * 1000), place.recording
        end_ms = min(start_ms + round(1000 * place.duration_s) + SPILL_MS, recording.trace.period_ms)
        write_file(folder / f"worst-{number}.down", recording.trace.slice(start_ms, end_ms).as_file())
        document = scenario_document(
            scenario, trace=f"worst-{number}.down", ensemble="ensemble.json", delay_class=one.target
        )
        names.append(f"worst-{number}.yaml")
        write(names[-1], document)
    new = tuple(judge.place(one.at)[0] for one in found)
    cases = Cases(share=share, paths=(*(judge.paths.cases.paths if judge.paths.cases else ()), *new))
    paths = judge.paths.model_copy(update={"cases": cases}).model_dump(mode="json", exclude_defaults=True)
    write("paths.yaml", paths)
    return names


def _lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    headings = ("regret", "target\nms", "p95\nms", "used\n%", "perfect\np95 ms", "used\n%")
    cells = [
        [f"{row['regret']:.3f}", f"{row['target_ms']:g}"]
        + [text for its in (row["ensemble"], row["perfect"])
           for text in (f"{its['p95_queueing_delay_ms']:.0f}", f"{100 * its['utilization']:.0f}")]
        + [row["words"]]
        for row in rows
    ]  # fmt: skip
    return table_lines(
        [*(Column(heading, "right") for heading in headings), Column("path", least=30, cut="end")], cells
    )


@click.command()
@of_ensemble
@click.option("--paths", "paths_name", metavar="NAME", help="File, or name in configs/paths  [the study's own]")
@click.option("--draws", type=click.IntRange(1), default=64, show_default=True, help="Paths drawn at first")
@click.option("--evaluations", type=click.IntRange(0), default=200, show_default=True,
              help="Paths tried by the search from the worst of them")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the draws and the search")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Write the worst paths as scenario files, and paths.yaml for a study's workload.paths")  # fmt: skip
@click.option("--share", type=FiniteRange(0, 1), default=0.2, show_default=True,
              help="Share of the training pieces that take one of these paths, in paths.yaml")  # fmt: skip
def worst(*, given: ReportArguments, paths_name: str | None, draws: int, evaluations: int, seed: int,
          out: Path | None, share: float) -> None:  # fmt: skip
    """Search the paths on which an ensemble of GR falls furthest short of the best fixed parameters.

    A regret of 0.2: it leaves so much more of the link unused, or its delay is 1.2 times as long as it may be.

    \b
    Example:
      ccatune report worst gr.json --part train --out worst
      ccatune report worst gr.json --draws 300 --evaluations 0
    """
    with given.read() as (ensemble, study, recordings, terminal):
        paths = read_paths(paths_name) if paths_name else getattr(study.workload, "paths", None)
        if ensemble.cca != "gr" or paths is None:
            raise TrainingError(f"report worst: expected an ensemble of gr whose study has paths, or --paths, got one of "
                                f"{ensemble.cca}{' without paths' * (paths is None)}")  # fmt: skip
        judge = Judge(ensemble, paths, recordings, given.threads)
        found, mean = find_worst(judge, draws=draws, evaluations=evaluations, seed=seed, progress=terminal)
    rows = [row_of(judge, one) for one in found]
    if out is not None:
        for row, name in zip(rows, write_worst(judge, found, out, share=share), strict=True):
            row["scenario"] = str(out / name)
    if given.as_json:
        echo(json.dumps({"rows": rows, "drawn_worst_percent_regret": round(mean, 4)}, indent=1))
        return
    last = f"mean regret of the worst 1 % of {draws} drawn paths: {mean:.3f}"
    echo("\n".join([*_lines(rows), *(row["scenario"] for row in rows if out is not None), last]))

# SPDX-License-Identifier: MIT
"""`ccatune report synthetic`: an ensemble on synthetic traces, compared with the recordings that they imitate.

For each dataset a model is fitted to its recordings. The model makes four times as much of each link as was recorded,
so that most of the random error is that of the recordings. Flows run over both with the ensemble. Both leave out the
links that are too short to fit a model, and the row gives their number.

The criterion: on every dataset and target the two utilisations differ by at most 3 points, and the two 95th-percentile
delays by at most 15 %.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import click

from emulation.traces import Recording
from emulation.traces.recording import is_numbered
from emulation.traces.synthetic import MIN_FIT_S, TraceModel, fit, make_recordings
from kmod.ensemble import Ensemble
from kmod.tables import Column, table_lines
from training.errors import TrainingError
from training.reports.arguments import ReportArguments, finish, of_ensemble
from training.reports.conditions import Condition, Place
from training.reports.robustness import run_conditions

MOST_POINTS = 0.03
MOST_DELAY_SHARE = 0.15
PIECE_S = 21600.0
TIMES = 4.0


def run_both(
    ensemble: Ensemble,
    recordings: Sequence[Recording],
    *,
    seed: int,
    threads: int | None = None,
    advance: Callable[[str], None] = lambda _name: None,
) -> list[dict[str, Any]]:
    """A row for each dataset and target. advance: called with the dataset's name when its runs are complete.

    Raises:
        TrainingError: no recording is long enough to fit a model to.
    """
    datasets: defaultdict[str, list[Recording]] = defaultdict(list)
    for recording in recordings:
        datasets[recording.dataset].append(recording)
    rows = []
    for name, every in sorted(datasets.items()):
        recorded = [r for r in every if is_numbered(r) or r.duration_s >= MIN_FIT_S]
        if not recorded:
            continue
        made = _make(fit(recorded), seed)
        both = [
            run_conditions(ensemble, [Place(r, 0, r.duration_s) for r in traces], conditions=[Condition(what)],
                           schemes=["ensemble"], threads=threads)[0]["targets"]
            for what, traces in (("recorded", recorded), ("made", made))
        ]  # fmt: skip
        left_out = len(every) - len(recorded)
        rows += [{**_row(name, *pair), "links_left_out": left_out} for pair in zip(*both, strict=True)]
        advance(name)
    if not rows:
        raise TrainingError(f"report: expected a recording of at least {MIN_FIT_S} s, got none; give longer traces")
    return rows


def _make(model: TraceModel, seed: int) -> list[Recording]:
    """Make TIMES as much of each link as was recorded, in pieces of about PIECE_S."""
    made = []
    for i, link in enumerate(model.links):
        wanted_s = TIMES * link.recorded_s
        count = math.ceil(wanted_s / PIECE_S)
        made += make_recordings(model, duration_s=wanted_s / count, count=count, seed=seed + i, link=link.name)
    return made


def _row(dataset: str, recorded: dict[str, Any], made: dict[str, Any]) -> dict[str, Any]:
    old, new = recorded["ensemble"], made["ensemble"]
    points = new["utilization"] - old["utilization"]
    share = new["p95_queueing_delay_ms"] / max(old["p95_queueing_delay_ms"], 1e-9) - 1
    return {
        "dataset": dataset,
        "target_ms": recorded["target_ms"],
        "recorded": old,
        "made": new,
        "utilization_difference": round(points, 4),
        "delay_difference": round(share, 4),
        "holds": abs(points) <= MOST_POINTS and abs(share) <= MOST_DELAY_SHARE,
    }


@click.command()
@of_ensemble
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the made traces")
def synthetic(*, given: ReportArguments, seed: int) -> None:
    """Compare an ensemble on synthetic traces with the same ensemble on the recordings that they imitate.

    \b
    Example:
      ccatune report synthetic gr.json --dataset pqsa
    """
    with given.read() as (ensemble, _, recordings, terminal):
        terminal.phase("running flows", total=len({r.dataset for r in recordings}))
        rows = run_both(ensemble, recordings, seed=seed, threads=given.threads,
                        advance=lambda _name: terminal.advance(1))  # fmt: skip
    cells = []
    for row in rows:
        left_out = row["links_left_out"]
        pair = (
            text
            for side in (row["recorded"], row["made"])
            for text in (f"{side['p95_queueing_delay_ms']:.1f} ms", f"{100 * side['utilization']:.1f} %")
        )
        notes = [*["short"] * (not row["holds"]), *[f"{left_out} too short to fit"] * bool(left_out)]
        cells.append((row["dataset"], f"{row['target_ms']:.0f} ms", *pair, ", ".join(notes)))
    headings = ("target", "recorded\np95", "used", "made\np95", "used")
    lines = table_lines(
        [Column("dataset", least=12), *(Column(heading, "right") for heading in headings),
         Column("", least=10, cut="end")],
        cells,
    )  # fmt: skip
    line = f"within {100 * MOST_POINTS:.0f} points of utilisation and {100 * MOST_DELAY_SHARE:.0f} % of delay"
    finish(rows, lines, line=line, as_json=given.as_json)

# SPDX-License-Identifier: MIT
"""`ccatune report`: prints the tables that support the claims about training."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click

from kmod.tables import Column, table_lines
from training.options import as_json_option, threads_option, traces_option
from training.reports.judged import Judged, finish, of_ensemble
from training.reports.states_command import bound, states
from training.reports.surrogate_command import surrogate
from training.reports.verify_command import verify

__all__ = ["report"]

STUDIES = Path(__file__).resolve().parents[2] / "configs" / "studies"


@click.group()
def report() -> None:
    """Print the tables that support the claims; exit 1 if a row falls short of its criterion.

    \b
    Example:
      ccatune report robustness gr.json
    """


@report.command()
@click.option("--study", "study_paths", type=click.Path(path_type=Path), multiple=True,
              default=[STUDIES / f"{name}.yaml" for name in ("gr", "roccet", "rtcp")],
              help="May be given several times  [those of gr, roccet and rtcp in configs/studies]")  # fmt: skip
@click.option("--search", "search_paths", type=click.Path(path_type=Path), multiple=True,
              help="Compare the search of this study, too; may be given several times")  # fmt: skip
@traces_option
@click.option(
    "--states", "count", type=click.IntRange(1), default=5, show_default=True, help="So many, spread over all"
)
@click.option("--seeds", type=click.IntRange(1), default=10, show_default=True)
@click.option("--cases", type=click.IntRange(1), default=20, show_default=True, help="Epochs of each half at most")
@click.option("--work", type=click.Path(path_type=Path), default=Path("report-search.parts"), show_default=True,
              help="Finished states are kept here, and not run again")  # fmt: skip
@threads_option
@as_json_option
def search(
    *,
    study_paths: tuple[Path, ...],
    search_paths: tuple[Path, ...],
    paths: tuple[Path, ...],
    count: int,
    seeds: int,
    cases: int,
    work: Path,
    threads: int | None,
    as_json: bool,
) -> None:
    """Compare the search of a study, and others, with a grid search, on states spread over those of the study.

    The column "s" is the mean time of one search in seconds, its evaluations included.

    \b
    Example:
      ccatune report search --seeds 10
      ccatune report search --study configs/studies/gr-demo.yaml --search configs/studies/gr-optuna.yaml
    """
    from emulation.run.simulator import default_threads
    from training.progress import Terminal

    rows: list[dict[str, Any]] = []
    with Terminal(quiet=as_json) as terminal:
        for path in study_paths:
            rows += _search_rows(path, search_paths, paths, count=count, seeds=seeds, cases=cases, work=work,
                                 threads=threads or default_threads(), terminal=terminal)  # fmt: skip
    headings = ("state", "class", "trials", "s", "worst\nseed", "mean", "target\nmet")
    lines = table_lines(
        [
            Column("search", least=8),
            *(Column(heading, "right") for heading in headings),
            Column("", least=6, cut="end"),
        ],
        [
            (
                row["search"],
                "/".join(map(str, row["state"])),
                str(row["class"]),
                str(row["evaluations"]),
                f"{row['seconds']:.2f}",
                f"{100 * row['worst_share']:.2f} %",
                f"{100 * row['mean_share']:.2f} %",
                f"{row['seeds_meeting']} of {row['seeds']}",
                f"{'short ' * (not row['holds'])}{'(not by the grid)' * (row['grid']['violation'] > 0)}".strip(),
            )
            for row in rows
        ],
    )  # fmt: skip
    line = "worst seed at least 98 % of the grid's objective on unseen cases, at no worse a violation"
    finish(rows, lines, as_json=as_json, line=line)


def _search_rows(
    path: Path,
    others: tuple[Path, ...],
    traces: tuple[Path, ...],
    *,
    count: int,
    seeds: int,
    cases: int,
    work: Path,
    threads: int,
    terminal: Any,
) -> list[dict[str, Any]]:
    from training.commands import recordings_of
    from training.reports.search import SearchReport, state_cases
    from training.study import Journal, load_study, require_recordings, setting_of, study_key

    study = load_study(path)
    terminal.phase(f"{study.cca}: reading traces", total=1)
    recordings = require_recordings(recordings_of(traces, part="train"), study)
    setting = setting_of(study, recordings=recordings, threads=threads, progress=terminal)
    by_state = state_cases(study, study.workload.open(setting), count=count, most_cases=cases)
    terminal.phase(f"{study.cca}: searching", total=count)
    searches = {other.stem: load_study(other).search for other in others}
    given = [study_key(study, recordings), count, seeds, cases, searches]
    key = hashlib.sha256(" ".join(map(str, given)).encode()).hexdigest()
    report_of = SearchReport(study, seeds=seeds, threads=threads, others=searches, advance=terminal.advance)
    rows = report_of.run(by_state, journal=Journal(work, key=key))
    return [{**row, "search": row["search"] or path.stem} for row in rows]


@report.command()
@of_ensemble
def robustness(*, judged: Judged) -> None:
    """Run an ensemble on other paths, with loss, beside a second flow, and in shorter flows.

    \b
    Example:
      ccatune report robustness gr.json --dataset pqsa-4g
    """
    from training.reports.robustness import CONDITIONS, MOST_EXCESS
    from training.reports.robustness import robustness as run

    with judged.read() as (ensemble, _, recordings, terminal):
        terminal.phase("running flows", total=len(CONDITIONS))
        rows = run(ensemble, recordings, threads=judged.threads, advance=lambda _name: terminal.advance(1))
    targets = [f"{cell['target_ms']:.0f} ms" for cell in rows[0]["targets"]]
    heads = [heading for target in targets for heading in (f"target\n{target}", "\nused")]
    lines = table_lines(
        [Column("condition", least=12), *(Column(heading, "right") for heading in (*heads, "fairness"))],
        [
            (
                row["condition"],
                *(text for c in row["targets"] for text in (f"{c['p95_queueing_delay_ms']:.1f}",
                                                            f"{100 * c['utilization']:.1f} %")),
                f"{min(c['fairness'] for c in row['targets']):.3f}",
            )
            for row in rows
        ],
    )  # fmt: skip
    line = f"delay within {MOST_EXCESS} x target (not asked of loss, company, 10 s)"
    finish(rows, lines, line=line, as_json=judged.as_json)


@report.command()
@of_ensemble
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the made traces")
def synthetic(*, judged: Judged, seed: int) -> None:
    """Compare an ensemble on synthetic traces with the same ensemble on the recordings that they imitate.

    \b
    Example:
      ccatune report synthetic gr.json --dataset pqsa
    """
    from training.reports.synthetic import MOST_DELAY_SHARE, MOST_POINTS
    from training.reports.synthetic import synthetic as run

    with judged.read() as (ensemble, _, recordings, terminal):
        terminal.phase("running flows", total=len({r.dataset for r in recordings}))
        rows = run(ensemble, recordings, seed=seed, threads=judged.threads, advance=lambda _name: terminal.advance(1))
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
    finish(rows, lines, line=line, as_json=judged.as_json)


report.add_command(bound)
report.add_command(states)
report.add_command(surrogate)
report.add_command(verify)

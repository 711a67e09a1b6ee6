# SPDX-License-Identifier: MIT
"""`ccatune report`: the tables behind the claims about training."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from training.options import as_json_option, threads_option, traces_option
from training.reports.judged import Judged, finish, of_ensemble
from training.reports.policing_command import policing
from training.reports.roccet_command import roccet
from training.reports.rtcp_command import rtcp
from training.reports.states_command import states

if TYPE_CHECKING:
    from training.settings import StudySettings

__all__ = ["report"]

STUDY = Path(__file__).resolve().parents[2] / "configs" / "studies" / "gr.yaml"


def counts_of(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, ...]:
    """ "12,8,12" as numbers."""
    words: list[Any] = text.split(",")
    return tuple(click.IntRange(2).convert(word, param, ctx) for word in words)


@click.group()
def report() -> None:
    """Tables behind the claims: exit 1 where a line falls short; of policing, roccet and rtcp with --enforce alone.

    \b
    Example:
      ccatune report robustness gr.json
    """


@report.command()
@click.option("--study", "study_path", type=click.Path(path_type=Path), default=STUDY, help="[configs/studies/gr.yaml]")
@traces_option
@click.option("--levels", type=click.IntRange(1), default=5, show_default=True, help="So many, spread over all")
@click.option("--seeds", type=click.IntRange(1), default=10, show_default=True)
@click.option("--epochs", type=click.IntRange(1), default=20, show_default=True, help="Of each half at most")
@click.option("--work", type=click.Path(path_type=Path), default=Path("report-search.parts"), show_default=True,
              help="Finished levels are kept here, and not run again")  # fmt: skip
@threads_option
@as_json_option
def search(
    *,
    study_path: Path,
    paths: tuple[Path, ...],
    levels: int,
    seeds: int,
    epochs: int,
    work: Path,
    threads: int | None,
    as_json: bool,
) -> None:
    """DDS against the grid of 12 x 8 x 12, on states spread over the levels.

    \b
    Example:
      ccatune report search --seeds 10
    """
    from training.settings import load_study

    study = load_study(study_path)
    rows = _search_rows(study, paths, levels=levels, seeds=seeds, epochs=epochs, work=work, threads=threads,
                        quiet=as_json)  # fmt: skip
    lines = [f"{'level':>5} {'target':>7} {'grid':>20} {'worst DDS':>10} {'mean':>7} {'its delay':>10} {'meeting':>8}"]
    lines += [
        f"{row['level']:>5} {row['target_ms']:>4} ms {row['grid_mbps']:>7.3f} Mb/s {row['grid_delay_ms']:>5.1f} ms"
        f"{' ' if row['grid_meets'] else '!'}{100 * row['worst_share']:>8.2f} % {100 * row['mean_share']:>6.2f} "
        f"{row['worst_delay_ms']:>7.1f} ms {row['seeds_meeting']:>4}/{row['seeds']}{'' if row['holds'] else '  short'}"
        for row in rows
    ]
    finish(
        rows, lines, as_json=as_json, line="worst seed at least 98 % of the grid on unseen epochs, both meet the target"
    )


def _search_rows(
    study: StudySettings,
    paths: tuple[Path, ...],
    *,
    levels: int,
    seeds: int,
    epochs: int,
    work: Path,
    threads: int | None,
    quiet: bool,
) -> list[dict[str, Any]]:
    from emulation.simulator import default_threads
    from training.commands import recordings_of
    from training.journal import Journal
    from training.progress import Terminal
    from training.reports.search import SearchReport
    from training.study import epochs_for, require_recordings, study_key

    used = threads or default_threads()
    with Terminal(quiet=quiet) as terminal:
        terminal.phase("reading traces", total=1)
        recordings = require_recordings(recordings_of(paths, part="train"), study)
        terminal.phase("measuring levels", total=sum(r.duration_s for r in recordings))
        found = epochs_for(study, recordings, threads=used, ran=terminal.advance)
        terminal.phase("searching", total=levels)
        key = hashlib.sha256(f"{study_key(study, recordings)} {levels} {seeds} {epochs}".encode()).hexdigest()
        comparison = SearchReport(study, seeds=seeds, most_epochs=epochs, threads=used, told=terminal.advance)
        return comparison.run(found, levels=levels, journal=Journal(work, key=key))


@report.command()
@of_ensemble
def robustness(*, judged: Judged) -> None:
    """An ensemble on other paths, with loss, in company, and in shorter flows.

    \b
    Example:
      ccatune report robustness gr.json --dataset pqsa-4g
    """
    from training.reports.robustness import CONDITIONS, MOST_EXCESS
    from training.reports.robustness import robustness as run

    with judged.read() as (ensemble, recordings, terminal):
        terminal.phase("running flows", total=len(CONDITIONS))
        rows = run(ensemble, recordings, threads=judged.threads, told=lambda _name: terminal.advance(1))
    heads = "".join(f"{cell['target_ms']:>10.0f} ms target" for cell in rows[0]["targets"])
    lines = [f"{'condition':<16}{heads}  fairness"]
    for row in rows:
        cells = "".join(
            f"{c['p95_queueing_delay_ms']:>9.1f} ms {100 * c['utilization']:>6.1f} %" for c in row["targets"]
        )
        lines.append(f"{row['condition']:<16}{cells}  {min(c['fairness'] for c in row['targets']):.3f}")
    line = f"delay within {MOST_EXCESS} x target (not asked of loss, company, 10 s)"
    finish(rows, lines, line=line, as_json=judged.as_json)


@report.command()
@of_ensemble
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the made traces")
def synthetic(*, judged: Judged, seed: int) -> None:
    """An ensemble on made traces, against the recorded ones they were fitted on.

    \b
    Example:
      ccatune report synthetic gr.json --dataset pqsa
    """
    from training.reports.synthetic import MOST_DELAY_SHARE, MOST_POINTS
    from training.reports.synthetic import synthetic as run

    with judged.read() as (ensemble, recordings, terminal):
        terminal.phase("running flows", total=len({r.dataset for r in recordings}))
        rows = run(ensemble, recordings, seed=seed, threads=judged.threads, told=lambda _name: terminal.advance(1))
    lines = [f"{'dataset':<22}{'target':>8} {'recorded':>20} {'made':>20}"]
    for row in rows:
        pair = "".join(
            f" {row[w]['p95_queueing_delay_ms']:>9.1f} ms {100 * row[w]['utilization']:>5.1f} %"
            for w in ("recorded", "made")
        )
        notes = ["short"] * (not row["holds"]) + [f"{row['links_left_out']} too short to fit"] * bool(
            row["links_left_out"]
        )
        lines.append(f"{row['dataset']:<22}{row['target_ms']:>5.0f} ms{pair}  {', '.join(notes)}".rstrip())
    line = f"within {100 * MOST_POINTS:.0f} points of utilisation and {100 * MOST_DELAY_SHARE:.0f} % of delay"
    finish(rows, lines, line=line, as_json=judged.as_json)


@report.command()
@of_ensemble
@click.option("--counts", default="12,8,12", show_default=True, callback=counts_of,
              help="Values of each parameter, log-spaced")  # fmt: skip
@click.option("--epochs", type=click.IntRange(1), default=12, show_default=True, help="Of a level at most")
def bound(*, judged: Judged, counts: tuple[int, ...], epochs: int) -> None:
    """Levels that miss their target, against a grid trained on those very epochs.

    A row falls short where the grid meets the target that the ensemble misses: that
    much was not learned. Where the grid misses it too, the algorithm cannot meet it.

    \b
    Example:
      ccatune report bound gr.json --counts 8,4,8
    """
    rows = _bound_rows(judged, counts=counts, epochs=epochs)
    lines = [f"{'level':>5} {'target':>7} {'windows':>8} {'ensemble':>19} {'bound':>19}"]
    lines += [
        f"{row['level']:>5} {row['target_ms']:>4.0f} ms {row['windows']:>8} {row['ensemble_delay_ms']:>8.1f} ms "
        f"{100 * row['ensemble_utilization']:>5.1f} % {row['bound_delay_ms']:>8.1f} ms "
        f"{100 * row['bound_utilization']:>5.1f} %{'  met by the bound' if row['bound_meets'] else ''}"
        for row in rows
    ]
    finish(rows, lines, line="no level misses a target that the bound meets", as_json=judged.as_json)


def _bound_rows(judged: Judged, *, counts: tuple[int, ...], epochs: int) -> list[dict[str, Any]]:
    from emulation.simulator import default_threads
    from training.grid import check_counts
    from training.judge import judge
    from training.reports.bound import bounds, missed
    from training.settings import study_of
    from training.study import epochs_for

    used = judged.threads or default_threads()
    with judged.read() as (ensemble, recordings, terminal):
        study = study_of(ensemble)
        check_counts(counts, dimensions=len(study.names))
        seconds = sum(r.duration_s for r in recordings)
        terminal.phase("running flows", total=(2 * len(ensemble.classes) + 1) * seconds)
        figures = judge(ensemble, recordings, threads=used, progress=terminal.advance)
        terminal.phase("measuring levels", total=seconds)
        here = epochs_for(study, recordings, threads=used, ran=terminal.advance)
        terminal.phase("searching", total=max(len(missed(figures)), 1))
        rows = bounds(study, figures, here, counts=counts, most_epochs=epochs, threads=used, told=terminal.advance)
    return [{**row, "holds": not row["bound_meets"]} for row in rows]


@report.command()
@of_ensemble
def scaled(*, judged: Judged) -> None:
    """An ensemble against single sets that keep a distance from the target.

    \b
    Example:
      ccatune report scaled gr.json
    """
    from training.reports.scaled import SCALES
    from training.reports.scaled import scaled as run

    with judged.read() as (ensemble, recordings, terminal):
        terminal.phase("running flows", total=len(SCALES))
        rows = run(ensemble, recordings, threads=judged.threads, told=terminal.advance)
    lines = [f"{'target':>8}  {'parameters':<20} {'of link':>8} {'p95 delay':>10}  {'levels within target':>20}"]
    for row in rows:
        named = [(f"single set, {one['scale']:g} T", one) for one in row["sets"]]
        for at, (name, one) in enumerate([("ensemble", row), *named]):
            mark = "  <- as many levels, most use" if one is row["rival"] else ""
            target = f"{row['target_ms']:.0f} ms" if not at else ""
            lines.append(
                f"{target:>8}  {name:<20} {100 * one['utilization']:>6.2f} % {one['p95_queueing_delay_ms']:>7.1f} ms"
                f"  {one['levels_met']:>14} of {row['levels']}{mark}"
            )
    finish(rows, lines, line="no single set that meets a target on as many levels uses more", as_json=judged.as_json)


@report.command()
@of_ensemble
@click.option("--least", type=click.IntRange(2), default=5, show_default=True, help="Epochs of a level that counts")
@click.option("--epochs", type=click.IntRange(1), default=30, show_default=True, help="Of a level at most")
def attainable(*, judged: Judged, least: int, epochs: int) -> None:
    """Whether rows that meet their targets can use as much as the single set, which overdraws its own.

    The study's search chooses a row for each level on the very epochs that judge. A
    target falls short where the single set uses more than these rows: no learning
    could then meet the targets and use as much.

    \b
    Example:
      ccatune report attainable gr.json
    """
    from emulation.simulator import default_threads
    from training.plan import by_level
    from training.reports.attainable import attainable as run
    from training.settings import study_of
    from training.study import epochs_for

    used = judged.threads or default_threads()
    with judged.read() as (ensemble, recordings, terminal):
        study = study_of(ensemble)
        terminal.phase("measuring levels", total=sum(r.duration_s for r in recordings))
        here = epochs_for(study, recordings, threads=used, ran=terminal.advance)
        terminal.phase("searching", total=sum(len(its) >= least for its in by_level(here).values()))
        rows = run(study, ensemble, here, least_epochs=least, most_epochs=epochs, threads=used, told=terminal.advance)
    rows = [{**row, "holds": row["bound"]["utilization"] >= row["single"]["utilization"]} for row in rows]
    lines = [f"{'target':>8} {'levels':>7} {'bound':>20} {'ensemble':>20} {'single':>20}"]
    for row in rows:
        cells = "".join(
            f" {100 * row[s]['utilization']:>9.2f} % {row[s]['levels_met']:>2} met"
            for s in ("bound", "ensemble", "single")
        )
        lines.append(f"{row['target_ms']:>5.0f} ms {row['levels']:>7}{cells}{'' if row['holds'] else '  short'}")
    line = "rows chosen on the judged epochs use as much as the single set"
    finish(rows, lines, line=line, as_json=judged.as_json)


report.add_command(policing)
report.add_command(roccet)
report.add_command(states)
report.add_command(rtcp)

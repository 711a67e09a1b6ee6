# SPDX-License-Identifier: MIT
"""`ccatune evaluate`: runs an ensemble over whole recordings and compares it with single parameter sets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulation.options import FiniteRange, words_of
from emulation.traces import Part, Recording
from kmod.terminal import echo
from training.options import (
    as_json_option,
    plot_option,
    progress_file_option,
    skip_bad_option,
    threads_option,
    traces_option,
)

if TYPE_CHECKING:
    from kmod.ensemble import Ensemble
    from training.validation.recordings import Path as LinkPath


def _shares(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[float, ...] | None:
    share = FiniteRange(0, 1)
    return None if text is None else tuple(share.convert(word, param, ctx) for word in words_of(text))


@click.command()
@click.argument("file", metavar="ENSEMBLE", type=click.Path(path_type=Path))
@traces_option
@click.option("--part", type=click.Choice(["validation", "train"]), default="validation", show_default=True)
@click.option("--dataset", "datasets", multiple=True, help="Only these datasets, by name, e.g. pqsa-4g-validation")
@click.option("--rtt-ms", type=float, default=100.0, show_default=True)
@click.option("--buffer-pkts", type=int, default=1000, show_default=True)
@click.option("--loss", type=float, default=0.0, show_default=True)
@click.option(
    "--paths", "paths_name", metavar="NAME", help="Draw each flow's path from this file, or name in configs/paths"
)
@click.option(
    "--flows", type=click.IntRange(1, 10_000), default=100, show_default=True,
    help="At most so many flows of ten minutes of each dataset",
)  # fmt: skip
@threads_option
@skip_bad_option
@click.option("--levels/--no-levels", default=False, help="Print every level, too")
@plot_option
@click.option(
    "--require", callback=_shares, help="Exit 1 unless every target holds with this utilisation, e.g. 0.85,0.95,0.98"
)
@click.option("--require-gain", is_flag=True,
              help="Exit 1 unless at every target more levels hold than with the best single set, at no less "
              "utilisation")  # fmt: skip
@click.option(
    "--baseline", "baseline_file", metavar="FILE", type=click.Path(path_type=Path),
    help="Compare with this ensemble instead, before a roll-out replaces it",
)  # fmt: skip
@click.option(
    "--against", metavar='"SCHEME1 SCHEME2..."', help='Compare with these schemes ("": none) on this machine\'s kernel'
)
@click.option("--pieces", type=click.IntRange(1, 1000), default=4, show_default=True,
              help="With --against: pieces of the recordings")  # fmt: skip
@click.option(
    "--piece-s", type=click.IntRange(5, 3600), default=30, show_default=True, help="With --against: length of a piece"
)
@click.option(
    "--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="With --against: runs of each scheme"
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="With --against: folder of the runs  [ENSEMBLE.against]"
)
@progress_file_option
@as_json_option
def evaluate(
    *,
    file: Path,
    require: tuple[float, ...] | None,
    require_gain: bool,
    plot: Path | None,
    levels: bool,
    baseline_file: Path | None,
    against: str | None,
    rtt_ms: float,
    buffer_pkts: int,
    loss: float,
    paths_name: str | None,
    flows: int,
    threads: int | None,
    as_json: bool,
    paths: tuple[Path, ...],
    part: Part,
    datasets: tuple[str, ...],
    skip_bad: bool,
    data_dir: Path | None,
    progress_file: Path | None,
    **choices: int,
) -> None:
    """Run flows over whole recordings with an ensemble that they follow.

    The table compares it with the best single parameter set of each target, and with the defaults. For an ensemble
    without delay targets, such as one of R-TCP, the command runs `ccatune report states` instead, and takes only the
    options of that one.

    \b
    Example:
      ccatune evaluate gr.json --traces ../shared/traces --plot gain.png
      ccatune evaluate gr.json --paths cellular
      ccatune evaluate gr.json --dataset pqsa-4g-validation --require 0.85,0.95,0.98 --json
      ccatune evaluate gr.json --baseline deployed.json --json > shadow.json
      ccatune evaluate gr.json --against "cubic bbr tquic-copa" --pieces 8
    """
    from emulation.run.plot import check_path, save
    from kmod.ensemble import Ensemble
    from training.progress import Terminal
    from training.reports.gain import gain_figure, gain_lines, level_lines
    from training.validation.recordings import Path as LinkPath
    from training.validation.recordings import has_targets, require_targets, seconds_of, validate
    from training.workloads.paths import read_paths

    if plot is not None:
        check_path(plot)
    if progress_file is not None and baseline_file is None:
        raise click.UsageError("--progress-file: expected it with --baseline")
    _require_fitting(
        baseline=baseline_file is not None, against=against is not None, has_paths=paths_name is not None,
        of_targets=require is not None or require_gain or levels or flows != 100, plot=plot is not None,
        is_default_path=(rtt_ms, buffer_pkts, loss) == (100.0, 1000, 0.0),
    )  # fmt: skip
    path = LinkPath(
        rtt_ms=rtt_ms, buffer_pkts=buffer_pkts, loss=loss, paths=None if paths_name is None else read_paths(paths_name)
    )
    ensemble = Ensemble.load(file)
    if against is not None:
        from training.validation.against import against_figure, against_lines, run_against

        recordings = _chosen(paths, part=part, datasets=datasets, skip_bad=skip_bad)
        found = run_against(ensemble, recordings, words_of(against), path=path, quiet=as_json,
                            folder=data_dir or file.with_suffix(".against"), **choices)  # fmt: skip
        echo(json.dumps(found, indent=1) if as_json else "\n".join(against_lines(found)))
        if plot is not None:
            save(against_figure(found), path=plot)
        return

    if baseline_file is not None:
        recordings = _chosen(paths, part=part, datasets=datasets, skip_bad=skip_bad)
        _compare(Ensemble.load(baseline_file), ensemble, recordings, path=path, threads=threads, as_json=as_json,
                 progress_file=progress_file)  # fmt: skip
        return

    is_plain = (path, plot, require) == (LinkPath(), None, None) and not (
        require_gain or levels or skip_bad or flows != 100
    )
    if is_plain and not has_targets(ensemble):
        from training.reports.states import states

        click.get_current_context().invoke(states, file=file, paths=paths, part=part, datasets=datasets,
                                           most_threads=threads, as_json=as_json)  # fmt: skip
        return
    require_targets(ensemble)
    if require is not None and len(require) != len(ensemble.classes):
        raise click.UsageError(f"--require: expected {len(ensemble.classes)} shares, got {len(require)}")
    with Terminal(quiet=as_json) as terminal:
        terminal.phase("reading traces", total=1)
        recordings = _chosen(paths, part=part, datasets=datasets, skip_bad=skip_bad)
        terminal.phase("running flows", total=seconds_of(ensemble, recordings, flows=flows))
        figures = validate(ensemble, recordings, path=path, flows=flows, threads=threads, progress=terminal.advance)
    short = [*_short_of(figures, require), *(_short_of_gain(figures) if require_gain else [])]
    if as_json:
        echo(json.dumps({**figures, "short_of": short}, indent=1))
    else:
        echo("\n".join([*(level_lines(figures) if levels else []), *gain_lines(figures), *short]))
    if plot is not None:
        save(gain_figure(figures), path=plot)
    if short:
        sys.exit(1)


def _require_fitting(
    *, baseline: bool, against: bool, has_paths: bool, of_targets: bool, plot: bool, is_default_path: bool
) -> None:
    """Raise click.UsageError for options that do not go together. Each argument says whether one is given."""
    if baseline and (against or of_targets or plot):
        raise click.UsageError(
            "--baseline: expected it without --against, --require, --require-gain, --levels, --flows and --plot"
        )
    if against and of_targets:
        raise click.UsageError("--against: expected it without --require, --require-gain, --levels and --flows")
    if against and has_paths:
        raise click.UsageError("--against: expected it without --paths")
    if has_paths and not is_default_path:
        raise click.UsageError("--paths: expected it without --rtt-ms, --buffer-pkts and --loss, which it draws")


def _compare(
    baseline: Ensemble, candidate: Ensemble, recordings: list[Recording], *, path: LinkPath, threads: int | None,
    as_json: bool, progress_file: Path | None,
) -> None:  # fmt: skip
    from training.commands import terminal_of
    from training.validation import shadow

    shadow.require_comparable(baseline, candidate)
    total_s = shadow.seconds_of(candidate, recordings)
    with terminal_of(progress_file, quiet=as_json) as terminal:
        terminal.expect(total_s)
        terminal.phase("comparing with the baseline", total=total_s)
        found = shadow.compare(baseline, candidate, recordings, path=path, threads=threads, progress=terminal.advance)
    echo(json.dumps(found, indent=1) if as_json else "\n".join(shadow.lines(found)))


def _chosen(paths: tuple[Path, ...], *, part: Part, datasets: tuple[str, ...], skip_bad: bool) -> list[Recording]:
    """The recordings of a part, of these datasets or of all.

    Raises:
        TrainingError: a dataset is unknown.
    """
    from training.commands import recordings_of
    from training.errors import TrainingError

    recordings = recordings_of(paths, part=part, skip_bad=skip_bad)
    known = sorted({r.dataset for r in recordings})
    if unknown := sorted(set(datasets) - set(known)):
        raise TrainingError(f"evaluate: expected datasets among {', '.join(known)}, got {', '.join(unknown)}")
    return [r for r in recordings if not datasets or r.dataset in datasets]


def _short_of(figures: dict[str, Any], require: tuple[float, ...] | None) -> list[str]:
    """A line for each target and each required utilisation that the ensemble misses."""
    if require is None:
        return []
    found = []
    for row, least in zip(figures["targets"], require, strict=True):
        if not row["meets"]:
            found.append(f"target {row['target_ms']:.0f} ms: delay is {row['p95_queueing_delay_ms']:.1f} ms")
        if row["utilization"] < least:
            found.append(f"target {row['target_ms']:.0f} ms: utilisation is {row['utilization']:.4f}, below {least}")
    return found


def _short_of_gain(figures: dict[str, Any]) -> list[str]:
    """A line for each comparison with the best single set that the ensemble loses."""
    found = []
    for row, single, met in zip(figures["targets"], figures["single"], figures["levels_met"], strict=True):
        at = f"target {row['target_ms']:.0f} ms:"
        if met["ensemble"] <= met["single"]:
            found.append(f"{at} {met['ensemble']} levels hold, the best single set's {met['single']}")
        if row["utilization"] < single["utilization"]:
            found.append(
                f"{at} utilisation is {row['utilization']:.4f}, the best single set's {single['utilization']:.4f}"
            )
    return found

# SPDX-License-Identifier: MIT
"""`ccatune report verify`: what real kernels confirmed of an ensemble, and how far they are from the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kmod.ensemble import Ensemble
from kmod.tables import Column, table_lines
from kmod.terminal import counted
from training.errors import TrainingError
from training.options import as_json_option, plot_option
from training.reports.arguments import finish
from training.verification.choice import ratio_95

LINE = "each verified row meets its requirement on the kernel, or misses it by no more than chance"
PANELS = (("throughput_mbps", "throughput (Mbit/s)"), ("delay_ms", "percentile of the queueing delay (ms)"))
FIGURES = (("throughput_mbps", "throughput"), ("delay_ms", "delay"))


@click.command()
@click.argument("file", metavar="ENSEMBLE", type=click.Path(path_type=Path))
@plot_option
@as_json_option
def verify(*, file: Path, plot: Path | None, as_json: bool) -> None:
    """Compare the simulator with a real kernel, on the runs that verified an ensemble's rows (docs/studies.md).

    The figures of a point are over all its runs. A point that is not in the ensemble is marked -.

    \b
    Example:
      ccatune report verify gr.json --plot verify.png
    """
    if plot is not None:
        from emulation.run.plot import check_path

        check_path(plot)
    ensemble = Ensemble.load(file)
    verified = ensemble.provenance.get("verified")
    if not isinstance(verified, dict):
        raise TrainingError(f"{file}: expected an ensemble of a study with `verify`, got one without such runs")
    classes = [f"p{one.percentile} {one.queueing_delay_us // 1000} ms" for one in ensemble.classes] or ["all"]
    rows = [{**row, "holds": row["finalists"][row["chosen"]]["meets"]} for row in verified["rows"]]
    if plot is not None:
        draw(rows, path=plot)
    finish(rows, table(rows, classes, verified), line=LINE, as_json=as_json)


def table(rows: Sequence[Mapping[str, Any]], classes: Sequence[str], verified: Mapping[str, Any]) -> list[str]:
    """A table of the finalists, with their figures over all runs on each side, and one of the states' ratios."""
    made = ", ".join(f"{name} {value}" for name, value in verified.items() if isinstance(value, str) and value)
    heads = ("simulator\nMbit/s", "\nms", "kernel\nMbit/s", "\nms", "late")
    places = [Column("state"), Column("target", least=8, cut="end")]
    points = [*places, Column("point from", least=10), *(Column(heading, "right") for heading in heads)]
    ratios = [*places, Column("outcome"), Column("throughput"), Column("delay")]
    return [
        made,
        f"{counted(len(rows[0]['finalists'][0]['runs']) if rows else 0, 'run')} of each point",
        *table_lines(points, [cells for row in rows for cells in _points(row, classes)]),
        "kernel over simulator, with the 95 % interval:",
        *table_lines(ratios, [(*_place(row, classes), row["outcome"], *_ratios(row)) for row in rows]),
        *summary(rows),
    ]  # fmt: skip


def _place(row: Mapping[str, Any], classes: Sequence[str]) -> tuple[str, str]:
    return "/".join(map(str, row["state"])), classes[row["class"]]


def _ratios(row: Mapping[str, Any]) -> list[str]:
    return [_interval(row["kernel_over_simulator"][name]) for name, _ in FIGURES]


def _points(row: Mapping[str, Any], classes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for at, one in enumerate(row["finalists"]):
        place = _place(row, classes) if at == 0 else ("", "")
        sides = [text for side in ("simulator", "kernel")
                 for text in (f"{one[side]['throughput_mbps']:.3f}", _delay_ms(one[side]))]  # fmt: skip
        sides[-1] += " " if one["meets"] else "!"
        late = max(run["late_share"] for run in one["runs"])
        yield *place, f"{' ' if at == row['chosen'] else '-'}{one['from'][0]}", *sides, f"{100 * late:.1f} %"


def _delay_ms(score: Mapping[str, Any]) -> str:
    return f"{score['delay_ms']:.1f}" if "delay_ms" in score else ""


def _interval(ratio: Sequence[float]) -> str:
    return f"{ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})"


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many rows have each outcome, and the ratios over all rows. A row counts once, by its own mean ratio."""
    counts = [f"{sum(row['outcome'] == name for row in rows)} {name}" for name in ("confirmed", "replaced", "missed")]
    lines = [f"{counted(len(rows), 'row')}: {', '.join(counts)}",
             "! marks a point that misses its requirement beyond chance"]  # fmt: skip
    for name, title in FIGURES if len(rows) > 1 else ():
        ratio = ratio_95([row["kernel_over_simulator"][name][0] for row in rows], [1.0] * len(rows), least=1e-6)
        lines.append(f"kernel over simulator, all rows: {title} {_interval(ratio)}")
    return lines


def draw(rows: Sequence[Mapping[str, Any]], *, path: Path) -> None:
    """Draw the kernel's figure of each run over the simulator's of the same case.

    Two panels go into a .png, .svg or .pdf file; points on the line agree.

    Raises:
        EmulationError: the file cannot be written.
    """
    from emulation.figure import PALETTE, new_figure
    from emulation.run.plot import FAINT, save

    figure = new_figure(10, 4.6)
    runs = [run for row in rows for one in row["finalists"] for run in one["runs"]]
    for axes, (name, title) in zip(figure.subplots(1, 2), PANELS, strict=True):
        simulator, kernel = ([run[side][name] for run in runs] for side in ("simulator", "kernel"))
        axes.scatter(simulator, kernel, s=14, color=PALETTE[0], alpha=0.8, lw=0)
        most = 1.05 * max([*kernel, *simulator, 1e-3])
        axes.plot([0, most], [0, most], color=FAINT, lw=1)
        axes.set(xlim=(0, most), ylim=(0, most), xlabel=f"simulator: {title}", ylabel=f"kernel: {title}")
    save(figure, path=path)

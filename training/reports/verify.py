# SPDX-License-Identifier: MIT
"""`ccatune report verify`: what real kernels confirmed of an ensemble, and how far they are from the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from kmod.ensemble import Ensemble
from kmod.tables import Column, table_lines
from kmod.terminal import counted
from training.errors import TrainingError
from training.objectives.retransmissions import PAPER
from training.options import as_json_option, plot_option
from training.reports.arguments import finish
from training.validation.policed import ratio
from training.verification.choice import ratio_95

LINE = "each verified row meets its requirement on the kernel, or misses it by no more than chance"
THROUGHPUT = ("throughput_mbps", "throughput", "throughput (Mbit/s)")
DELAY = ("delay_ms", "delay", "percentile of the queueing delay (ms)")
RETRANSMITTED = ("retransmitted_pkts", "retransmissions", "retransmitted packets")
LEAST_PKTS = 10  # smaller numbers of retransmissions in a denominator count as this


def figures_of(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    """The two figures by which the sides are compared: key, name, and name with unit."""
    return (THROUGHPUT, RETRANSMITTED) if is_policed(rows) else (THROUGHPUT, DELAY)


def is_policed(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the rows were verified by their retransmissions behind policers."""
    return any("retransmitted_share" in one["kernel"] for row in rows for one in row["finalists"])


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
    finish(rows, table(rows, classes, verified, cca=ensemble.cca), line=LINE, as_json=as_json)


def table(
    rows: Sequence[Mapping[str, Any]], classes: Sequence[str], verified: Mapping[str, Any], *, cca: str
) -> list[str]:
    """A table of the finalists, with their figures over all runs on each side, and one of the states' ratios."""
    made = ", ".join(f"{name} {value}" for name, value in verified.items() if isinstance(value, str) and value)
    units = ("retrans.", "goodput") if is_policed(rows) else ("Mbit/s", "ms")
    heads = (f"simulator\n{units[0]}", f"\n{units[1]}", f"kernel\n{units[0]}", f"\n{units[1]}", "late")
    places = [Column("state"), Column("target", least=8, cut="end")]
    points = [*places, Column("point from", least=10), *(Column(heading, "right") for heading in heads)]
    ratios = [*places, Column("outcome"), *(Column(name) for _, name, _ in figures_of(rows))]
    return [
        made,
        f"{counted(len(rows[0]['finalists'][0]['runs']) if rows else 0, 'run')} of each point",
        *table_lines(points, [cells for row in rows for cells in _points(row, classes)]),
        "kernel over simulator, with the 95 % interval:",
        *table_lines(ratios, [(*_place(row, classes), row["outcome"], *_ratios(row, rows)) for row in rows]),
        *summary(rows),
        *comparisons(rows, classes, cca=cca),
    ]  # fmt: skip


def comparisons(rows: Sequence[Mapping[str, Any]], classes: Sequence[str], *, cca: str) -> Iterator[str]:
    """The table beside what its objective compares with, where it compares with anything.

    Ensembles of older versions have no references in their runs, or only the retransmissions of each.
    """
    for number, target in enumerate(classes):
        its = [row for row in rows if row["class"] == number]
        references = its[0]["finalists"][0]["runs"][0]["kernel"].get("references", {}) if its else {}
        if not all(isinstance(figures, Mapping) for figures in references.values()):
            yield (f"{target}: expected the figures of the algorithms that the table is compared with, got an ensemble "
                   "of an older version; train it again for this comparison")  # fmt: skip
        elif references:
            yield from compared(its, cca=cca) if is_policed(its) else compared_delays(its, target)


def _place(row: Mapping[str, Any], classes: Sequence[str]) -> tuple[str, str]:
    return "/".join(map(str, row["state"])), classes[row["class"]]


def _ratios(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [_interval(row["kernel_over_simulator"][key]) for key, _, _ in figures_of(rows)]


def _points(row: Mapping[str, Any], classes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for at, one in enumerate(row["finalists"]):
        place = _place(row, classes) if at == 0 else ("", "")
        sides = [text for side in ("simulator", "kernel") for text in _scores(one[side])]
        sides[-1] += " " if one["meets"] else "!"
        late = max(run["late_share"] for run in one["runs"])
        yield *place, f"{' ' if at == row['chosen'] else '-'}{one['from'][0]}", *sides, f"{100 * late:.1f} %"


def _scores(score: Mapping[str, Any]) -> tuple[str, str]:
    if "retransmitted_share" in score:
        return f"{score['retransmitted_share']:.3f}", f"{score['goodput_share']:.3f}"
    return f"{score['throughput_mbps']:.3f}", f"{score['delay_ms']:.1f}" if "delay_ms" in score else ""


def _interval(ratio: Sequence[float]) -> str:
    return f"{ratio[0]:.2f} ({ratio[1]:.2f}-{ratio[2]:.2f})"


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many rows have each outcome, and the ratios over all rows. A row counts once, by its own mean ratio."""
    counts = [f"{sum(row['outcome'] == name for row in rows)} {name}" for name in ("confirmed", "replaced", "missed")]
    lines = [f"{counted(len(rows), 'row')}: {', '.join(counts)}",
             "! marks a point that misses its requirement beyond chance"]  # fmt: skip
    for key, name, _ in figures_of(rows) if len(rows) > 1 else ():
        ratio = ratio_95([row["kernel_over_simulator"][key][0] for row in rows], [1.0] * len(rows), least=1e-6)
        lines.append(f"kernel over simulator, all rows: {name} {_interval(ratio)}")
    return lines


def compared(rows: Sequence[Mapping[str, Any]], *, cca: str) -> list[str]:
    """Retransmissions on the kernel over the unmodified algorithm's: of the table, the single set, and the references.

    The ratios are of the means over all runs of all rows, with their 95 % intervals. If the kernel lacks the unmodified
    algorithm, the defaults take its place.
    """
    key = "retransmitted_pkts"
    own, beside = _on_kernel(rows)
    base = next((name for name in beside[0] if name not in (cca, PAPER)), cca)
    of_base = "the defaults'" if base == cca else "the unmodified algorithm's"
    unmodified = [max(run[base][key], LEAST_PKTS) for run in beside]
    pkts = {name: [run[key] for run in runs] for name, runs in own.items()}
    for name, of in (("the defaults", cca), ("the paper's setting", PAPER)):
        pkts[name] = [run[of][key] for run in beside]
    shares = {name: np.array(its) / unmodified for name, its in pkts.items()}
    lines = [f"retransmissions on the kernel, as a multiple of {of_base} "
             f"({counted(len(beside), 'run')} of each):",
             *(f"    {name} {its.mean():.3f}" for name, its in shares.items())]  # fmt: skip
    table, *others = shares.values()
    lines += [
        f"    the table over {name}: {_over(table, its)}" for name, its in zip(list(shares)[1:], others, strict=True)
    ]
    return lines


def compared_delays(rows: Sequence[Mapping[str, Any]], target: str) -> list[str]:
    """Delay and goodput of a class's table and single set on the kernel, and of the algorithms compared with.

    The ratios are of the means over all runs of all rows, with their 95 % intervals. A delay below 1 ms counts as 1 ms.
    """
    own, beside = _on_kernel(rows)
    runs = own | {f"{name} with its defaults": [run[name] for run in beside] for name in (beside[0] if beside else ())}
    delay_ms = {name: np.array([max(run["delay_ms"], 1.0) for run in its]) for name, its in runs.items()}
    goodput = {name: np.array([run["goodput_mbps"] for run in its]) for name, its in runs.items()}
    lines = [f"{target}, on the kernel ({counted(len(beside), 'run')} of each):"]
    lines += [f"    {name} {delay_ms[name].mean():.1f} ms, {goodput[name].mean():.2f} Mbit/s" for name in runs]
    table, *others = runs
    for name in others:
        delays, rates = (_over(figures[table], figures[name]) for figures in (delay_ms, goodput))
        lines.append(f"    the table over {name}: delay {delays}, goodput {rates}")
    return lines


def _on_kernel(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, list[Mapping[str, Any]]], list[Mapping[str, Any]]]:
    """The runs on the kernel of the table and the single set, and beside them those of the references, by case.

    The single set is left out unless it is a finalist of each row.
    """
    own: dict[str, list[Mapping[str, Any]]] = {"the table": [], "the single set": []}
    for row in rows:
        single = next((one for one in row["finalists"] if "single" in one["from"]), None)
        for name, one in zip(own, (row["finalists"][row["chosen"]], single), strict=True):
            own[name] += [run["kernel"] for run in one["runs"]] if one else []
    beside = [run["references"] for run in own["the table"]]
    return {name: runs for name, runs in own.items() if len(runs) == len(beside)}, beside


def _over(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> str:
    mean, half = ratio(one, other)
    return f"{mean:.3f} ({mean - half:.3f}-{mean + half:.3f})"


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
    for axes, (name, _, title) in zip(figure.subplots(1, 2), figures_of(rows), strict=True):
        simulator, kernel = ([run[side][name] for run in runs] for side in ("simulator", "kernel"))
        axes.scatter(simulator, kernel, s=14, color=PALETTE[0], alpha=0.8, lw=0)
        most = 1.05 * max([*kernel, *simulator, 1e-3])
        axes.plot([0, most], [0, most], color=FAINT, lw=1)
        axes.set(xlim=(0, most), ylim=(0, most), xlabel=f"simulator: {title}", ylabel=f"kernel: {title}")
    save(figure, path=path)

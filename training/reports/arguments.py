# SPDX-License-Identifier: MIT
"""Options, inputs and output that all reports on an ensemble share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from emulation.run.simulator import default_threads
from emulation.traces import Recording
from kmod.ensemble import Ensemble
from kmod.tables import Column, table_lines
from kmod.terminal import echo
from training.commands import recordings_of
from training.errors import TrainingError
from training.options import as_json_option, traces_option
from training.progress import Terminal
from training.study import StudySettings, setting_of, study_of
from training.validation.recordings import require_targets
from training.workloads import Case, Sample, State

_datasets = click.option("--dataset", "datasets", multiple=True, help="Only these, by the beginning of their names")
_part = click.option("--part", type=click.Choice(["validation", "train"]), default="validation", show_default=True)
_threads = click.option("--threads", "most_threads", type=click.IntRange(1), help="At most so many processors  [all]")
_file = click.argument("file", metavar="ENSEMBLE", type=click.Path(path_type=Path))


least_option = click.option("--least", type=click.IntRange(2), default=5, show_default=True,
                      help="Cases of a state that counts")  # fmt: skip
most_option = click.option(
    "--most", type=click.IntRange(2), default=30, show_default=True, help="Cases of a state at most"
)


@dataclass(frozen=True)
class ReportArguments:
    """Arguments of a report on an ensemble. paths, part and datasets select the traces that validate it."""

    file: Path
    paths: tuple[Path, ...]
    part: Any
    datasets: tuple[str, ...]
    most_threads: int | None
    as_json: bool

    @property
    def threads(self) -> int:
        """The processors to use."""
        return self.most_threads or default_threads()

    @contextmanager
    def read(self, *, with_targets: bool = True) -> Iterator[tuple[Ensemble, StudySettings, list[Recording], Terminal]]:
        """The ensemble, its study, the recordings that validate it, and the terminal that shows the progress.

        The list of recordings is empty if the study's workload needs none. with_targets: refuse an ensemble whose
        classes do not all have a delay target.
        """
        ensemble = Ensemble.load(self.file)
        if with_targets:
            require_targets(ensemble)
        study = study_of(ensemble)
        with Terminal(quiet=self.as_json) as terminal:
            recordings: list[Recording] = []
            if study.workload.needs_recordings:
                terminal.phase("reading traces", total=1)
                recordings = _of_datasets(recordings_of(self.paths, part=self.part), self.datasets)
            yield ensemble, study, recordings, terminal


def of_ensemble(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of ReportArguments to a command, which receives them as the argument `given`."""
    names = [field.name for field in fields(ReportArguments)]

    @wraps(command)
    def with_arguments(**options: Any) -> None:
        command(given=ReportArguments(**{name: options.pop(name) for name in names}), **options)

    for option in (as_json_option, _threads, _datasets, _part, traces_option, _file):
        with_arguments = option(with_arguments)
    return with_arguments


def validation_cases(
    study: StudySettings, recordings: Sequence[Recording], terminal: Terminal, *, least: int, most: int
) -> dict[State, list[Case]]:
    """The unseen cases of each state that has at least `least` of them; at most `most` of each."""
    workload = study.workload.open(setting_of(study, recordings=recordings, unseen=recordings, progress=terminal))
    sample = Sample(maximum=most, unlimited_share=0)
    found = {state: workload.cases([state], "validation", sample) for state in study.states}
    return {state: its for state, its in found.items() if len(its) >= least}


def requirement_lines(rows: Sequence[dict[str, Any]], schemes: Sequence[str]) -> list[str]:
    """A line for each class and scheme: in how many states it meets the requirement, and its mean cost."""
    columns = [Column("class"), Column("scheme"), *(Column(heading, "right") for heading in ("met", "states", "cost"))]
    return table_lines(
        [*columns, Column("")],
        [
            (
                str(row["class"]) * (name == schemes[0]),
                name,
                str(row[name]["met"]),
                str(row["states"]),
                f"{row[name]['cost']:.4f}",
                "short" * (name == schemes[0] and not row["holds"]),
            )
            for row in rows
            for name in schemes
        ],
    )


def finish(rows: Sequence[dict[str, Any]], lines: Sequence[str], *, line: str, as_json: bool) -> None:
    """Print the table and whether its criterion `line` holds; exit 1 if a row falls short."""
    short = sum(not row["holds"] for row in rows)
    if as_json:
        echo(json.dumps({"rows": list(rows), "line": line, "rows_short": short, "holds": not short}, indent=1))
    else:
        outcome = "holds" if not short else f"falls short in {short} of {len(rows)}"
        echo("\n".join([*lines, f"{line}: {outcome}"]))
    if short:
        sys.exit(1)


def _of_datasets(recordings: Sequence[Recording], datasets: Sequence[str]) -> list[Recording]:
    """The recordings whose dataset has a name that begins with one of `datasets`; all recordings without names.

    Raises:
        TrainingError: no recording matches.
    """
    found = [r for r in recordings if not datasets or r.dataset.startswith(tuple(datasets))]
    if not found:
        known = ", ".join(sorted({r.dataset for r in recordings}))
        raise TrainingError(f"report: expected datasets among {known}, got {', '.join(datasets)}")
    return found

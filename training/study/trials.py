# SPDX-License-Identifier: MIT
"""The points that the searches of a study evaluated, as a table: a CSV or Parquet file, or rows for Python."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulation.options import check_output
from kmod.ensemble import write_atomically
from training.errors import TrainingError

if TYPE_CHECKING:
    from training.evaluation.tasks import Part
    from training.study.study import Study

SUFFIXES = (".csv", ".parquet")


def check_trials_path(path: Path) -> None:
    """See that the trials can be written to this file, before a search that takes long.

    Raises:
        TrainingError: another suffix, or a Parquet file without pyarrow.
        EmulationError: it cannot be written.
    """
    if path.suffix not in SUFFIXES:
        raise TrainingError(f"trials: expected a file ending in {' or '.join(SUFFIXES)}, got {path}")
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise TrainingError(
            f"trials: expected pyarrow for {path}, it is not installed; name a .csv file, or install it with: "
            "pip install pyarrow"
        )
    check_output(path)


def trial_rows(study: Study, parts: Mapping[str, Part]) -> list[dict[str, Any]]:
    """A row for each evaluation, in the order of stages, groups of states, and evaluations.

    A level is None where the stage does not group by its axis. An evaluation that stopped early is not complete: its
    violation and cost are the best that the point could still reach, and its metrics are those of the cases that ran.
    """
    from training.study.study import part_name

    s, rows = study.settings, []
    for stage in s.all_stages:
        for group in study.groups(stage):
            levels: dict[str, int] = dict(zip(stage.group_by, group, strict=True))
            for number, each in enumerate(parts[part_name(stage, group)].evaluations):
                rows.append({
                    "stage": stage.name,
                    **{f"{name}_level": levels.get(name) for name in s.levels},
                    "class": each.delay_class,
                    "number": number,
                    **dict(zip(s.names, each.point, strict=True)),
                    "complete": each.score.complete,
                    "meets": each.score.feasible,
                    "cases": each.score.cases,
                    "violation": each.score.violation,
                    "cost": each.score.cost,
                    **each.score.metrics,
                })  # fmt: skip
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def write_trials(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Write the rows to a .csv or .parquet file, completely or not at all.

    Raises:
        TrainingError: as check_trials_path does, or the file cannot be written.
        EmulationError: as check_trials_path does.
    """
    path = Path(path)
    check_trials_path(path)
    data = _parquet(rows) if path.suffix == ".parquet" else _csv(rows)
    try:
        write_atomically(path, data)
    except OSError as error:
        raise TrainingError(f"{path}: cannot be written ({error.strerror}); name another") from error


def _parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), buffer)
    return buffer.getvalue()


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()

# SPDX-License-Identifier: MIT
"""`ccatune train`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from emulation.options import FiniteRange
from kmod.abi import ALGORITHMS
from kmod.terminal import COLUMNS, echo, echo_wrapped
from training.options import as_json_option, progress_file_option, skip_bad_option, threads_option, traces_option

STUDIES = Path(__file__).resolve().parents[1] / "configs" / "studies"
TUNED = [name for name, algorithm in ALGORITHMS.items() if algorithm.tuned]
FAMILIES = list(dict.fromkeys(name.partition("_")[0] for name in TUNED))
BASES = [base for name in TUNED if (base := name.partition("_")[2])]


@click.command()
@click.argument("cca", type=click.Choice(FAMILIES))
@click.option("--study", "study_path", type=click.Path(path_type=Path), help="The study  [configs/studies/CCA.yaml]")
@click.option("--base", type=click.Choice(BASES), help="The algorithm that CCA is built on, instead of the study's")
@traces_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The ensemble's file  [CCA.json]")
@click.option("--resume/--fresh", default=None, help="What to do with finished parts of this very study")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Instead of the study's")
@threads_option
@click.option("--executor", type=click.Choice(["threads", "processes", "ray"]),
              help="Where states are searched; the ensemble is the same  [the study's, or threads]")  # fmt: skip
@click.option("--address", metavar="ADDRESS",
              help="Ray cluster: auto (one that this machine is in) or ray://HOST:PORT  [a new one]")  # fmt: skip
@click.option("--tune-storage", metavar="FOLDER",
              help="Folder or URI in which Ray Tune keeps the trials of each stage  [none are kept]")  # fmt: skip
@skip_bad_option
@click.option("--keep-trials", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write all evaluated points into this .csv or .parquet")  # fmt: skip
@progress_file_option
@click.option("--within", "most_minutes", type=FiniteRange(0, min_open=True), metavar="MINUTES",
              help="Exit 1 when this run took longer; parts that were finished before do not count")  # fmt: skip
@as_json_option
def train(
    *,
    cca: str,
    study_path: Path | None,
    base: str | None,
    out: Path | None,
    most_minutes: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Search an ensemble for CCA, state by state, as a study describes it.

    Finished searches are kept beside the ensemble (OUT.parts). After an interruption,
    even a kill -9, --resume loses none of them and gives the same ensemble.

    \b
    Example:
      ccatune train gr --traces ../shared/traces --out gr.json
    """
    from training.commands import run_train

    if base is not None and f"{cca}_{base}" not in TUNED:
        raise click.UsageError(f"--base: expected an algorithm that is built on others, got {cca}")
    figures = run_train(study_path or STUDIES / f"{cca}.yaml", family=cca, base=base, out=out or Path(f"{cca}.json"),
                        quiet=as_json, **options)  # fmt: skip
    show(figures, as_json=as_json)
    if most_minutes is not None and figures["total_s"] > most_minutes * 60:
        echo(f"--within: expected at most {most_minutes:g} minutes, took {figures['total_s'] / 60:.1f}", err=True)
        sys.exit(1)


def show(figures: dict[str, Any], *, as_json: bool) -> None:
    """Figures, last: as JSON, or a line each, and the warnings below them."""
    if as_json:
        echo(json.dumps(figures, indent=1, sort_keys=True))
        return
    for name, value in figures.items():
        if name == "phases_s":
            for phase, seconds in value.items():
                echo(_line(f"{phase} s", seconds))
        elif name != "warnings":
            echo(_line(name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else value))
    for warning in figures["warnings"]:
        echo_wrapped(warning)


def _line(name: str, value: object) -> str:
    """A figure after its name, in a column of its own if the line fits."""
    line = f"{name:<27} {value}"
    return line if len(line) <= COLUMNS else f"{name} {value}"

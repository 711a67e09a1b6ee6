# SPDX-License-Identifier: MIT
"""Fuzzes the text of ensembles, and flows under GR and Reno, for a given time, under sanitizers.

    python -m tests.prove.fuzz --seconds 600

Each target has a process of its own; they run beside each other. Exits 0 when nothing was found and the inputs
reached what they must. An input that a fault was found with is left in build/fuzz/TARGET.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from tests.contract.fuzzing import TARGETS, FuzzRun, run_fuzzer

FOLDER = Path(__file__).resolve().parents[2] / "build" / "fuzz"


def fuzz_one(name: str, *, seconds: int, seed: int) -> FuzzRun:
    """Fuzz one target in its folder."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    return run_fuzzer(TARGETS[name], seconds=seconds, seed=seed, folder=folder)


def lines_of(run: FuzzRun) -> list[str]:
    """What is to be said of a run, the figures in the last line."""
    counts = ", ".join(f"{name} {count}" for name, count in run.counts.items())
    verdict = "clean" if not run.found else "FOUND A FAULT"
    return [
        *([f"{run.target}: {run.found}"] if run.found else []),
        *([f"{run.target}: expected inputs that reach {', '.join(run.unreached)}, got none"] if run.unreached else []),
        f"{run.target}: reached {counts}",
        f"{run.target}: {verdict}: {run.inputs} inputs in {run.seconds:.0f} s ({run.inputs / run.seconds:.0f}/s), "
        f"{run.engine}, seed {run.seed}, address and undefined-behaviour sanitizers",
    ]


@click.command()
@click.option("--seconds", type=click.IntRange(1, 86400), default=600, show_default=True, help="Time for each target.")
@click.option("--seed", type=click.IntRange(1, 2**31 - 1), default=1, show_default=True)
@click.option("--target", "names", type=click.Choice(list(TARGETS)), multiple=True, help="All by default; repeatable.")
def main(*, seconds: int, seed: int, names: tuple[str, ...]) -> None:
    """Fuzz the core. Example: python -m tests.prove.fuzz --seconds 60 --target text"""
    chosen = names or tuple(TARGETS)
    with ThreadPoolExecutor(len(chosen)) as pool:
        runs = list(pool.map(lambda name: fuzz_one(name, seconds=seconds, seed=seed), chosen))
    clean = all(not run.found and not run.unreached for run in runs)
    blocks = [lines_of(run) for run in runs]
    for line in [line for block in blocks for line in block[:-1]] + [block[-1] for block in blocks]:
        click.echo(line)
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()

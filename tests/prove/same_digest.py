# SPDX-License-Identifier: MIT
"""Shows that a study gives the same ensemble on threads, in processes, and after kill -9 and --resume.

For each of the demo studies: one run on threads; one in processes; and one whose executor alternates and that is killed
with SIGKILL at random moments until it ends by itself. All three must have the same digest.

Example: python -m tests.prove.same_digest --kills 3
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from kmod.ensemble import Ensemble

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ("gr-demo", "roccet-demo", "rtcp-demo")
END_S = 1200.0


def words(study: str, out: Path, executor: str, *more: str) -> list[str]:
    """The command of a run."""
    family = study.partition("-")[0]
    return [str(Path(sys.executable).with_name("ccatune")), "train", family, "--study",
            str(ROOT / "configs" / "studies" / f"{study}.yaml"), "--out", str(out), "--executor", executor, "--json",
            *more]  # fmt: skip


def digest_of(study: str, out: Path, executor: str) -> tuple[str, float]:
    """The digest of an undisturbed run, and its seconds."""
    done = subprocess.run(words(study, out, executor, "--fresh"), check=True, capture_output=True, timeout=END_S)
    figures = json.loads(done.stdout)
    return figures["digest"], figures["total_s"]


def killed_digest(study: str, out: Path, *, kills: int, within_s: float, dice: random.Random) -> str:
    """The digest after so many kills at random moments."""
    for number in range(kills + 1):
        executor = ("processes", "threads")[number % 2]
        with subprocess.Popen(words(study, out, executor, "--resume"), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as running:  # fmt: skip
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(END_S if number == kills else dice.uniform(0.2, 0.9) * within_s)
            running.kill()
    return Ensemble.load(out).digest


@click.command()
@click.option("--kills", type=click.IntRange(1), default=2, show_default=True, help="For each study.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.argument("studies", nargs=-1)
def main(*, kills: int, seed: int, studies: tuple[str, ...]) -> None:
    """Compare the digests of STUDIES (all demo studies by default)."""
    dice, same = random.Random(seed), True
    with tempfile.TemporaryDirectory() as folder:
        for study in studies or STUDIES:
            threads, seconds = digest_of(study, Path(folder, f"{study}-threads.json"), "threads")
            processes, _ = digest_of(study, Path(folder, f"{study}-processes.json"), "processes")
            killed = killed_digest(
                study, Path(folder, f"{study}-killed.json"), kills=kills, within_s=seconds, dice=dice
            )
            same = same and threads == processes == killed
            click.echo(f"{study}: threads {threads[7:19]}, processes {processes[7:19]}, "
                       f"after {kills} kills {killed[7:19]}")  # fmt: skip
    click.echo("the same ensemble each time" if same else "the ensembles DIFFER")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()

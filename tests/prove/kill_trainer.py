# SPDX-License-Identifier: MIT
"""Kills `ccatune train` with SIGKILL at random moments, resumes it, and holds the result against an undisturbed one.

A small study over made traces runs once to its end. Then it runs again and again with --resume, killed at a random
moment (every other time right when a part is being kept), until it ends by itself; then from the beginning, until
there were COUNT kills.

After every kill:
  - no part that was finished before is lost, and every one on disk loads
  - the ensemble's file is not there, or is whole
Whenever a run ends by itself, its ensemble has the digest of the undisturbed run.

Example: python -m tests.prove.kill_trainer --count 50
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from kmod.ensemble import Ensemble
from tests.training.links import write_traces

ROOT = Path(__file__).resolve().parents[2]
END_S = 300.0
TRACE_S = 100
STUDY = """
schema: ccatune-study/2
cca: gr
axes: {throughput: {count: 8}}
clock: {epoch_s: 5, estimate_ms: 250}
workload: {kind: epochs, shortest_s: 3, minimum: 2, maximum: 8}
objective: {kind: delay, classes: [{queueing_delay_ms: 50}, {queueing_delay_ms: 100}]}
ranges: {bandwidth_window_us: [5000, 100000], adaptation_interval_us: [1000, 20000]}
search: {kind: dds, intervals: 6, steps: 6, restarts: 1}
stages:
  - {name: single}
  - {name: level, group_by: [throughput]}
  - {name: final, group_by: [throughput], candidates_from: [level, single], neighbours: 1,
     search: {kind: local, steps: 2}, sample: {maximum: 12}}
"""


class ShortfallError(Exception):
    """What should always hold did not."""


@dataclass
class Tally:
    """What the kills met."""

    kills: int = 0
    with_parts: int = 0
    while_keeping: int = 0
    endings: int = 0

    def line(self) -> str:
        """The figures, last."""
        return (
            f"{self.kills} kills ({self.with_parts} with finished parts, {self.while_keeping} left a temporary file), "
            f"{self.endings} studies resumed to their end: no finished part was lost, "
            "and every ensemble was the one of the undisturbed run"
        )


@dataclass(frozen=True)
class Site:
    """A folder with a study and its traces."""

    folder: Path

    @property
    def out(self) -> Path:
        """Where the ensemble goes."""
        return self.folder / "gr.json"

    def start(self, out: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start a trainer."""
        what = ["train", "gr", "--study", str(self.folder / "study.yaml"), "--traces", str(self.folder / "made-train")]
        with (self.folder / "train.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(ROOT / "ccatune.py"), *what, "--out", str(out), "--json", *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def parts(self) -> dict[str, bytes]:
        """Finished parts on disk, by name, less those that a trainer at its end takes away meanwhile."""
        found = {}
        for path in self.out.with_name("gr.json.parts").glob("*/*.json"):
            with contextlib.suppress(FileNotFoundError):
                found[path.name] = path.read_bytes()
        return found

    def leftovers(self) -> bool:
        """Whether a write was under way."""
        return any(self.out.with_name("gr.json.parts").glob("*/.*.tmp")) or any(self.folder.glob(".gr.json.*.tmp"))


def make_site(folder: Path, *, seed: int) -> Site:
    """Traces whose rate steps between 1 and 7 Mbit/s every few seconds."""
    (folder / "study.yaml").write_text(STUDY, encoding="utf-8")
    write_traces(folder / "made-train", files=3, seconds=TRACE_S, seed=seed)
    return Site(folder)


def finish(site: Site, out: Path, *options: str) -> tuple[str, float]:
    """Train to the end; the ensemble's digest, and the seconds that it took."""
    began_s = time.monotonic()
    process = site.start(out, *options)
    if process.wait(END_S) != 0:
        raise ShortfallError(f"ccatune train exits {process.returncode}: {tail(site)}")
    return Ensemble.load(out).digest, time.monotonic() - began_s


def tail(site: Site) -> str:
    """The end of what the trainers said."""
    return (site.folder / "train.log").read_text(encoding="utf-8")[-1000:]


def kill_one(site: Site, rng: random.Random, *, life_s: float, aimed: bool) -> bool:
    """Start a trainer and kill it; False when it came to its end before that.

    aimed: soon behind the next part that it finishes, however long that takes; else at any moment of its life.
    """
    before = site.parts()
    process = site.start(site.out, "--resume")
    deadline_s = time.monotonic() + (END_S if aimed else rng.uniform(0.0, life_s))
    while time.monotonic() < deadline_s and process.poll() is None:
        time.sleep(0.0005)
        if aimed and len(site.parts()) > len(before) and rng.random() < 0.1:
            break
    process.kill()
    return process.wait(END_S) != 0


def inspect(site: Site, tally: Tally, *, before: dict[str, bytes]) -> None:
    """Look at what a kill has left."""
    parts = site.parts()
    tally.kills += 1
    tally.with_parts += bool(parts)
    tally.while_keeping += site.leftovers()
    if site.out.exists():  # killed behind its last step: whole, and its parts may be gone
        Ensemble.load(site.out)
        return
    for name, data in before.items():
        if parts.get(name) != data:
            raise ShortfallError(f"the finished part {name} was lost or changed")
    for name, data in parts.items():
        try:
            json.loads(data)
        except ValueError as error:
            raise ShortfallError(f"the part {name} is half-written") from error


def kill_trainers(folder: Path, *, count: int, seed: int) -> Tally:
    """Run the campaign in a folder. Raises ShortfallError."""
    rng, tally = random.Random(seed), Tally()
    site = make_site(folder, seed=seed)
    wanted, life_s = finish(site, folder / "undisturbed.json")
    while tally.kills < count:
        before = site.parts()
        if kill_one(site, rng, life_s=life_s, aimed=tally.kills % 2 == 1):
            inspect(site, tally, before=before)
        check_end(site, tally, wanted)
    if not tally.endings or site.parts():
        finish(site, site.out, "--resume")
        check_end(site, tally, wanted)
    return tally


def check_end(site: Site, tally: Tally, wanted: str) -> None:
    """Where a study came to its end: it is the undisturbed one; then begin anew."""
    if not site.out.exists():
        return
    if Ensemble.load(site.out).digest != wanted:
        raise ShortfallError("a resumed study came to another ensemble than the undisturbed one")
    tally.endings += 1
    site.out.unlink()


@click.command()
@click.option("--count", type=click.IntRange(min=1), default=50, show_default=True, help="Kills.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the traces and the moments.")
def main(*, count: int, seed: int) -> None:
    """Kill the trainer COUNT times; exit 0 where everything held, 1 where something did not."""
    with tempfile.TemporaryDirectory(prefix="ccatune-kill-trainer-") as folder:
        try:
            tally = kill_trainers(Path(folder), count=count, seed=seed)
        except ShortfallError as error:
            click.echo(f"kill_trainer: falls short: {error}")
            sys.exit(1)
    click.echo(tally.line())


if __name__ == "__main__":
    main()

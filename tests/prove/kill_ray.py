# SPDX-License-Identifier: MIT
"""Kills drivers, workers and heads of studies on a Ray cluster with SIGKILL, and compares the ensembles.

The study of kill_trainer.py, with longer searches, runs to its end on threads. Then it runs on a cluster of three
nodes, each with a processor. At random moments

    driver   `ccatune train` is killed, and started again with --resume
    worker   a process that searches a state is killed, and the study goes on by itself. After several kills of
             the same search it ends with an error, and is started again with --resume
    head     all processes of the cluster's first node are killed; the study ends with an error, the cluster is started
             anew, and the study again with --resume

COUNT times each. After every kill no part that was finished before is lost. Every study that comes to its end has the
ensemble of the one on threads. All of it runs in a process namespace of its own, which ends with it.

Example: python -m tests.prove.kill_ray --count 20
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click
from ray.cluster_utils import Cluster

from kmod.ensemble import Ensemble
from tests.prove.kill_trainer import END_S, STUDY, ShortfallError, Site, finish, make_site, tail

# A driver notices within this time that its cluster is gone.
HEAD_S = 120.0
INSIDE = "CCATUNE_KILL_RAY_INSIDE"
RAY = ("--executor", "ray", "--address", "auto", "--resume")


@dataclass
class Campaign:
    """The kills so far."""

    site: Site
    wanted: str
    dice: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    resumed: int = 0
    cluster: Cluster | None = None

    def start_cluster(self) -> None:
        """Three nodes, in place of those that are left of the cluster before."""
        self.end_cluster()
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        for _ in range(2):
            self.cluster.add_node(num_cpus=1)
        os.environ["RAY_ADDRESS"] = self.cluster.address

    def end_cluster(self) -> None:
        """End what is left of it."""
        if self.cluster:
            with contextlib.suppress(Exception):  # its head may be dead already
                self.cluster.shutdown()

    def kill(self, kind: str, driver: subprocess.Popen[bytes]) -> None:
        """Kill one process of that kind, or all of the head's."""
        if kind == "driver":
            driver.kill()
            driver.wait(END_S)
        elif kind == "head":
            assert self.cluster is not None
            self.cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
            try:
                driver.wait(HEAD_S)
            except subprocess.TimeoutExpired:
                driver.send_signal(signal.SIGABRT)
                raise ShortfallError(f"ccatune train goes on {HEAD_S:g} s after its head: {tail(self.site)}") from None
            self.start_cluster()
        elif searching := [int(path.name) for path in Path("/proc").glob("[0-9]*") if is_worker(path)]:
            os.kill(self.dice.choice(searching), signal.SIGKILL)
        else:
            return
        self.kills[kind] += 1

    def run(self, kind: str, count: int) -> None:
        """Run studies until so many of that kind were killed."""
        while self.kills[kind] < count:
            driver, before = self.site.start(self.site.out, *RAY), self.site.parts()
            self.resumed += bool(before)
            while driver.poll() is None and self.kills[kind] < count:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    driver.wait(self.dice.uniform(1.0, 30.0))
                    break
                before = self.site.parts()
                self.kill(kind, driver)
                self.inspect(before)
            # A study ends with an error after its head, and if a search lost its worker again and again.
            expected = kind == "head" or "with --resume" in tail(self.site)
            if driver.wait(END_S) not in {0, -signal.SIGKILL} and not expected:
                raise ShortfallError(f"ccatune train exits {driver.returncode}: {tail(self.site)}")
            self.end()

    def inspect(self, before: dict[str, bytes]) -> None:
        """Nothing that was finished is lost or changed, unless the study has come to its end meanwhile."""
        now = self.site.parts()
        if not self.site.out.exists() and any(now.get(name) != data for name, data in before.items()):
            raise ShortfallError("a finished part was lost or changed")

    def end(self) -> None:
        """A study that came to its end has the right ensemble, and the next one begins anew."""
        if not self.site.out.exists():
            return
        if Ensemble.load(self.site.out).digest != self.wanted:
            raise ShortfallError("a study on Ray came to another ensemble than the one on threads")
        self.kills["endings"] += 1
        self.site.out.unlink()


def is_worker(process: Path) -> bool:
    """Whether a process, by its folder in /proc, searches a state."""
    with contextlib.suppress(OSError):
        return b"SearchTrial" in (process / "cmdline").read_bytes()
    return False


def kill_all(count: int, seed: int, kinds: tuple[str, ...]) -> str:
    """The campaign; its last line."""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ccatune-kill-ray-") as folder:
        site = make_site(Path(folder), seed=seed)
        (site.folder / "study.yaml").write_text(STUDY.replace("steps: 6,", "steps: 40,"), encoding="utf-8")
        wanted, _ = finish(site, site.folder / "undisturbed.json")
        campaign = Campaign(site, wanted, random.Random(seed))
        try:
            campaign.start_cluster()
            for kind in kinds:
                campaign.run(kind, count)
            finish(site, site.out, *RAY)
            campaign.end()
        finally:
            campaign.end_cluster()
    killed = ", ".join(f"{campaign.kills[kind]} kills of a {kind}" for kind in kinds)
    return (
        f"{killed} in {time.monotonic() - began_s:.0f} s: no finished part was lost; {campaign.kills['endings']} "
        f"studies ended ({campaign.resumed} starts were resumptions), each with the ensemble of the one on threads"
    )


@click.command()
@click.option("--count", type=click.IntRange(min=1), default=20, show_default=True, help="Kills of each kind.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the traces and the moments.")
@click.option("--kind", "kinds", type=click.Choice(["driver", "worker", "head"]), multiple=True,
              default=("driver", "worker", "head"), show_default=True)  # fmt: skip
def main(*, count: int, seed: int, kinds: tuple[str, ...]) -> None:
    """Kill COUNT drivers, workers and heads; exit 0 where everything held, 1 where something did not."""
    if not os.environ.get(INSIDE):
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m", __spec__.name]
        sys.exit(subprocess.run([*apart, *sys.argv[1:]], env={**os.environ, INSIDE: "1"}, check=False).returncode)
    try:
        click.echo(kill_all(count, seed, kinds))
    except ShortfallError as error:
        click.echo(f"kill_ray: falls short: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()

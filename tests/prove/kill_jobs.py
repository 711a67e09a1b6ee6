# SPDX-License-Identifier: MIT
"""Kills the registry and runners of training jobs with SIGKILL at random moments, and compares the ensembles.

    python -m tests.prove.kill_jobs --kills 50 --seed 1

The study of kill_trainer.py is trained once undisturbed. Then a registry (SQLite) queues jobs of it, and three runners
train them: two share a folder of work, as on shared storage, and one has its own, as on another machine. The kills hit
a runner and the registry in turn, and what was killed is started again. Half of the kills fall into the moment in which
a finished ensemble is handed in. What must hold:

    once       no job ever has two training processes, counted in /proc every few milliseconds
    kept       every acknowledged job is there, and a job that was seen done stays done
    same       every job ends as done, with the digest of the undisturbed ensemble
    told once  each job has one audit row of its submission and one of its end

Meanwhile agents report sums of flows, and roll-outs follow each other (rolling_fleet.py). The controller of the
roll-outs is in the registry's process.

Limits: a killed process is not a lost power supply.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from serving.client import RegistryClient
from serving.errors import RegistryClientError
from serving.jobs.client import JobsClient
from tests.prove.guarded import free_port
from tests.prove.kill_trainer import END_S, ROOT, ShortfallError, finish, make_site
from tests.prove.rolling_fleet import RollingFleet

REGISTRY = "lab"
LEASE_S = 3
RUNNERS = {"shared-1": "shared", "shared-2": "shared", "alone": "alone"}
MAX_LIFE_S = 4.0
AIM_S = 20.0
_JOB = re.compile(rb"--out\0[^\0]*/([0-9]+)-[0-9a-f]{16}/")


class Site:
    """A registry, its runners, and the jobs that it has acknowledged. unfinished: how many are kept so."""

    def __init__(self, folder: Path, *, unfinished: int) -> None:
        self.folder = folder
        self._most = self.unfinished = unfinished
        self.url = f"http://127.0.0.1:{free_port()}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.acknowledged: set[int] = set()
        self.done: dict[int, str] = {}
        (folder / "studies").mkdir()
        (folder / "study.yaml").rename(folder / "studies" / "small.yaml")
        (folder / "serve.yaml").write_text(
            f"registry: {REGISTRY}\nstudies: studies\ndatasets: [made]\njob_lease_s: {LEASE_S}\njob_losses: 1000\n",
            encoding="utf-8",
        )

    def start(self, name: str) -> None:
        """Start the registry, or a runner."""
        words = ["serve", "--open", "--config", "serve.yaml", "--database", "sqlite:///registry.db",
                 "--port", self.url.rpartition(":")[2]]  # fmt: skip
        if name != "registry":
            words = ["jobs", "run", "--url", self.url, "--name", name, "--work", RUNNERS[name],
                     "--dataset", "made=made-train", "--poll-s", "0.2", "--threads", "1"]  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, str(ROOT / "ccatune.py"), *words]
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def end(self, name: str, number: signal.Signals) -> None:
        """End a process, which must have run until now."""
        process = self.processes.pop(name)
        if process.poll() is not None:
            said = (self.folder / f"{name}.log").read_text(encoding="utf-8")[-2000:]
            raise ShortfallError(f"{name} ended by itself with {process.returncode}: {said}")
        process.send_signal(number)
        process.wait(END_S)

    def ask(self, work: Callable[[JobsClient], None]) -> bool:
        """Send requests; False if the registry was killed meanwhile."""
        with (
            contextlib.suppress(RegistryClientError),
            JobsClient(self.url, timeout_s=5, sleep=lambda _: None) as client,
        ):
            work(client)
            return True
        return False

    def tend(self, client: JobsClient, *, submits: bool) -> None:
        """Compare the jobs with what was seen before, and keep some of them queued."""
        jobs = {row["id"]: row for row in client.jobs()}
        if lost := self.acknowledged - set(jobs):
            raise ShortfallError(f"acknowledged jobs are lost: {sorted(lost)}")
        for job_id, digest in self.done.items():
            if jobs[job_id]["digest"] != digest:
                raise ShortfallError(f"job {job_id} was done, is {jobs[job_id]}")
        for job_id, row in jobs.items():
            if row["state"] not in {"queued", "running", "done"}:
                raise ShortfallError(f"job {job_id} is {row['state']}: {row['error']}")
            if row["state"] == "done":
                self.done[job_id] = row["digest"]
        self.unfinished = len(jobs) - len(self.done)
        for _ in range(self._most - self.unfinished if submits else 0):
            self.acknowledged.add(client.submit("small", datasets=["made"])["id"])


class Sampler(threading.Thread):
    """Counts the training processes of each job until `stop`. seen: jobs that had any; twice: those that had two."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.seen: set[bytes] = set()
        self.twice: Counter[bytes] = Counter()
        self._folder = os.fsencode(folder)

    def run(self) -> None:
        """Look into /proc."""
        while not self.stop.wait(0.02):
            found: Counter[bytes] = Counter()
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    command = path.read_bytes()
                    # A killed process has no command line, and so is not counted.
                    if self._folder in command and b"serving.jobs.child" in command and (job := _JOB.search(command)):
                        found[job[1]] += 1
            self.seen.update(found)
            self.twice.update(job for job, count in found.items() if count > 1)


def wait_for_ensemble(folder: Path, seen: set[Path]) -> None:
    """Wait until another ensemble than those seen is finished, and about to be handed in; then it is seen."""
    deadline_s = time.monotonic() + AIM_S
    while not (new := set(folder.glob("*/*/*/gr.json")) - seen) and time.monotonic() < deadline_s:
        time.sleep(0.001)
    seen |= new


def kill_jobs(folder: Path, *, kills: int, seed: int, unfinished: int = 4) -> str:
    """Run the campaign with so many unfinished jobs in a folder; its last line. Raises ShortfallError."""
    chance, trained = random.Random(seed), make_site(folder, seed=seed)
    wanted, _ = finish(trained, folder / "undisturbed.json")
    site, sampler = Site(folder, unfinished=unfinished), Sampler(folder)
    sampler.start()
    killed: Counter[str] = Counter()
    seen: set[Path] = set()
    fleet = RollingFleet(site.url, registry=REGISTRY)
    try:
        for name in ("registry", *RUNNERS):
            site.start(name)
        while not site.ask(lambda client: site.tend(client, submits=True)):
            time.sleep(0.2)
        fleet.start()
        for number in range(kills):
            name = "registry" if number % 2 else chance.choice(list(RUNNERS))
            aimed = number % 4 < 2
            if aimed:
                wait_for_ensemble(folder, seen)
            time.sleep(chance.uniform(0.0, 0.3 if aimed else MAX_LIFE_S))
            site.end(name, signal.SIGKILL)
            killed["registry" if name == "registry" else "runners"] += 1
            site.start(name)
            site.ask(lambda client: site.tend(client, submits=True))
        deadline_s = time.monotonic() + END_S
        while not site.ask(lambda client: site.tend(client, submits=False)) or site.unfinished:
            if time.monotonic() > deadline_s:
                raise ShortfallError(f"{site.unfinished} jobs are not done")
            time.sleep(0.5)
        attempts = check_end(site, wanted)
        rolled = fleet.finish()
    finally:
        sampler.stop.set()
        fleet.stop.set()
        for process in site.processes.values():
            process.terminate()
        for process in site.processes.values():
            process.wait(END_S)
    if sampler.twice or not sampler.seen:
        raise ShortfallError(f"jobs had two training processes at once: {sampler.twice}, of {len(sampler.seen)} seen")
    return (
        f"{killed['registry']} kills of the registry and {killed['runners']} of runners: {len(site.done)} jobs were "
        f"done in {attempts} attempts, each with the ensemble of the undisturbed run; none had two training processes "
        f"at once; {rolled}; nothing acknowledged was lost or counted twice"
    )


def check_end(site: Site, wanted: str) -> int:
    """Every job has the right ensemble, and its rows in the audit log; returns the number of attempts."""
    if set(site.done.values()) != {wanted}:
        raise ShortfallError(f"expected ensembles {wanted}, got {set(site.done.values())}")
    with JobsClient(site.url) as client:
        attempts = sum(row["attempt"] for row in client.jobs())
    with RegistryClient(site.url) as client:
        told = ((row["action"], row["target"]) for row in client.audit(limit=10_000))
        rows = Counter(row for row in told if row[1].startswith("job ") or row[1] == f"ensemble {wanted}")
    expected = {(action, f"job {job}"): 1 for job in site.done for action in ("submit-job", "finish-job")}
    if rows != {**expected, ("publish", f"ensemble {wanted}"): 1}:
        raise ShortfallError(f"expected one audit row of each submission and end, got {rows}")
    return attempts


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the traces, the victims and the moments.")
def main(*, kills: int, seed: int) -> None:
    """Kill registry and runners; exit 0 where everything held, 1 where something did not."""
    with tempfile.TemporaryDirectory(prefix="ccatune-kill-jobs-") as folder:
        try:
            line = kill_jobs(Path(folder), kills=kills, seed=seed)
        except ShortfallError as error:
            click.echo(f"kill_jobs: falls short: {error}")
            sys.exit(1)
    click.echo(line)


if __name__ == "__main__":
    main()

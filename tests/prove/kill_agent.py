# SPDX-License-Identifier: MIT
"""Kills the agent with SIGKILL at random moments, while its channel moves, and looks at what is left.

Real processes on 127.0.0.1: `ccatune serve`, and `ccatune-agent --stand-in`, whose tree keeps its tables on
disk behind the core's parser. Each round starts an agent, moves the channel as fast as it goes, kills the agent
(at a random moment of its life, or every other time of an application), and then starts another one that cannot
reach any registry (every third time after a reboot: an empty tree).

After every kill:
  - the table in force is one that was published, or none where none was in force before;
  - the last known good and the pending table on disk load, or are not there;
and after the start without a registry:
  - the last known good of the disk is in force, or the pending table where the kernel had taken it already;
  - nothing half-written is left in the state folder.
At the end an agent with a registry comes to be in sync with the channel's last move.

tests/prove/kill_bpf.py does the same with GR in BPF.

Example: python -m tests.prove.kill_agent --count 50
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from emulation.standin import StandInTree
from kmod.ensemble import Axis, DelayClass, Deployment, Ensemble, table_text
from serving.agent.kernel import Tree
from serving.agent.state import IN_FORCE
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, Store
from serving.agent.table import Table
from serving.client import RegistryClient

ROOT = Path(__file__).resolve().parents[2]
CCA, CHANNEL = "gr", "champion"
ENSEMBLES = 5
LEVELS = 40
START_S = 60.0
END_S = 60.0
# A start takes some 0.3 s: most kills fall between its first look and a few dozen applications.
LONGEST_LIFE_S = 1.5
# Some 10 ms go by from `pending` to the last known good in place; every other kill is aimed there.
LONGEST_APPLICATION_S = 0.015
REBOOT_EVERY = 3
# Port 9 (discard): nobody listens there, and an ordinary user cannot.
NOBODY = "http://127.0.0.1:9"


class ShortfallError(Exception):
    """What should always hold did not."""


@dataclass(frozen=True)
class Server:
    """What an agent writes to.

    options, environment: of the agent. reboot: loses the table. settle: waits until no write of a killed agent goes on.
    """

    tree: Tree
    options: Sequence[str]
    reboot: Callable[[], None]
    environment: Mapping[str, str] = field(default_factory=dict)
    settle: Callable[[], None] = lambda: None


def stand_in(folder: Path) -> Server:
    """A server whose tree is a stand-in."""
    return Server(
        tree=StandInTree(folder),
        options=["--stand-in", str(folder)],
        reboot=lambda: (folder / f"{CCA}.json").unlink(missing_ok=True),
    )


@dataclass
class Site:
    """A registry, a server and its agent's state folder; `ensembles` by digest."""

    folder: Path
    url: str
    client: RegistryClient
    ensembles: dict[str, Ensemble]
    server: Server
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = Store(self.folder / "state")

    @property
    def tree(self) -> Tree:
        """The server's."""
        return self.server.tree

    def agent(self, url: str, *options: str) -> list[str]:
        """The command line of an agent."""
        folders = ["--state-dir", str(self.store.root), *self.server.options]
        times = ["--interval", "0.1", "--timeout", "10", "--wait", "20", "--agent-id", "server"]
        return [sys.executable, "-m", "serving.agent", "--url", url, "--cca", CCA, *folders, *times, *options]

    @contextmanager
    def running_agent(self) -> Iterator[subprocess.Popen[bytes]]:
        """Start an agent, and end it when the block ends."""
        with (self.folder / "agent.log").open("ab") as log:
            process = subprocess.Popen(self.agent(self.url), stdout=log, stderr=log, env=self.environment)
            with ended(process):
                yield process

    @property
    def environment(self) -> dict[str, str]:
        """That of an agent."""
        return {**os.environ, **self.server.environment}

    def published(self) -> set[str]:
        """The text of every deployment that was ever made."""
        return {self.text(move["digest"], int(move["serial"])) for move in self.client.history(CCA, CHANNEL)}

    def text(self, digest: str, serial: int) -> str:
        """The text of one deployment."""
        return table_text(self.ensembles[digest], Deployment("local", CHANNEL, serial))


@dataclass
class Tally:
    """What the kills met."""

    kills: int = 0
    while_applying: int = 0
    with_leftovers: int = 0
    before_any_table: int = 0
    applied: int = 0

    def line(self) -> str:
        """The figures, last."""
        return (
            f"{self.kills} kills ({self.while_applying} inside an application, {self.with_leftovers} left a temporary "
            f"file, {self.before_any_table} before any table, {self.applied} tables applied meanwhile): the table in "
            "force was always a published one, the last known good always loaded and came back without a registry"
        )


def make_ensemble(number: int) -> Ensemble:
    """An ensemble of the size of a real one; each number has another digest."""
    return Ensemble(
        cca=CCA,
        epoch_ms=30_000,
        estimate_ms=250,
        epsilon_pct=25,
        classes=tuple(DelayClass(95, delay_us) for delay_us in (50_000, 100_000, 200_000)),
        axes=(Axis("throughput_bytes_per_s", "linear", 125_000, LEVELS),),
        columns=("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us"),
        rows=tuple((20_000 + number, 3000, 12_000 + row) for row in range(LEVELS * 3)),
        provenance={"number": number},
    )


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End the process, by its own id, when the block ends."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_S)


@contextmanager
def site(folder: Path, server: Server) -> Iterator[Site]:
    """Start a registry with some ensembles, the channel at the first."""
    ready = folder / "ready"
    serve = [sys.executable, str(ROOT / "ccatune.py"), "serve", "--open", "--port", "0", "--ready-file", str(ready)]
    with (
        (folder / "serve.log").open("wb") as log,
        ended(
            subprocess.Popen(
                [*serve, "--database", f"sqlite:///{folder}/registry.db"], stdout=log, stderr=log, cwd=folder
            )
        ) as registry,
    ):
        deadline_s = time.monotonic() + START_S
        while not ready.exists():
            if registry.poll() is not None or time.monotonic() > deadline_s:
                raise ShortfallError(f"ccatune serve did not start: {(folder / 'serve.log').read_text()}")
            time.sleep(0.02)
        url = ready.read_text(encoding="utf-8").strip()
        with RegistryClient(url) as client:
            ensembles = {one.digest: one for one in map(make_ensemble, range(ENSEMBLES))}
            for one in ensembles.values():
                client.publish(one)
            client.move(CCA, CHANNEL, digest=next(iter(ensembles)))
            yield Site(folder=folder, url=url, client=client, ensembles=ensembles, server=server)


@contextmanager
def moving(on: Site, rng: random.Random) -> Iterator[None]:
    """Move the channel all the time while the block runs."""
    done = threading.Event()

    def move() -> None:
        with RegistryClient(on.url) as client:
            while not done.wait(rng.uniform(0.0, 0.05)):
                client.move(CCA, CHANNEL, digest=rng.choice(list(on.ensembles)))

    mover = threading.Thread(target=move, daemon=True)
    mover.start()
    try:
        yield
    finally:
        done.set()
        mover.join(END_S)


def wait_for_application(on: Site, process: subprocess.Popen[bytes]) -> None:
    """Wait until the agent has begun to apply a table."""
    deadline_s = time.monotonic() + START_S
    while not (on.store.root / CCA / PENDING).exists() and process.poll() is None:
        if time.monotonic() > deadline_s:
            raise ShortfallError(f"the agent applied nothing: {tail(on)}")
        time.sleep(0.0005)


def kill_one(on: Site, rng: random.Random, *, aimed: bool) -> None:
    """Start an agent, let the channel move, and kill the agent at a random moment of its life or of an application."""
    with moving(on, random.Random(rng.random())), on.running_agent() as process:
        if aimed:
            wait_for_application(on, process)
        time.sleep(rng.uniform(0.0, LONGEST_APPLICATION_S if aimed else LONGEST_LIFE_S))
        if process.poll() is not None:
            raise ShortfallError(f"the agent ended by itself with {process.returncode}: {tail(on)}")
        process.kill()
        process.wait(END_S)
    on.server.settle()


def tail(on: Site) -> str:
    """The end of the agent's log."""
    return (on.folder / "agent.log").read_text(encoding="utf-8", errors="replace")[-1000:]


def inspect(on: Site, tally: Tally, *, before: str) -> Table | None:
    """Check what a kill left behind; returns the last known good of the disk."""
    in_force = on.tree.read(CCA, "ensemble")
    published = on.published()
    if in_force not in published and (in_force or before):
        raise ShortfallError(f"the table in force was never published: {in_force[:300]!r}")
    # Both raise where a file is damaged.
    good, pending = on.store.load_table(CCA, LAST_KNOWN_GOOD), on.store.load_table(CCA, PENDING)
    for name, table in ((LAST_KNOWN_GOOD, good), (PENDING, pending)):
        if table is not None and table.text not in published:
            raise ShortfallError(f"{name} was never published: {table.name}")
    tally.kills += 1
    tally.while_applying += pending is not None or in_force != (good.text if good is not None else "")
    tally.with_leftovers += bool(leftovers(on))
    tally.before_any_table += not in_force
    return good


def leftovers(on: Site) -> list[str]:
    """Temporary files in the state folder."""
    return [path.name for path in on.store.root.rglob("*.tmp")]


def start_without_registry(on: Site, good: Table | None, *, reboot: bool) -> None:
    """Start an agent that reaches no registry: the last known good must come to be in force."""
    pending = on.store.load_table(CCA, PENDING)
    if reboot:
        on.server.reboot()
    elif pending is not None and pending.text == on.tree.read(CCA, "ensemble"):
        good = pending
    with (on.folder / "agent.log").open("ab") as log:
        done = subprocess.run(
            on.agent(NOBODY, "--once", "--json"), stdout=subprocess.PIPE, stderr=log, check=False, timeout=START_S,
            env=on.environment,
        )  # fmt: skip
    if done.returncode != 1 or not done.stdout:
        raise ShortfallError(
            f"expected a report and exit status 1 without a registry, got {done.returncode}: {tail(on)}"
        )
    (report,) = json.loads(done.stdout)
    in_force, kept = on.tree.read(CCA, "ensemble"), on.store.load_table(CCA, LAST_KNOWN_GOOD)
    expected = good.text if good is not None else ""
    if in_force != expected or (kept.text if kept is not None else "") != expected:
        raise ShortfallError(f"the last known good did not come back: {report}, {tail(on)}")
    if report["state"] != "Offline":
        raise ShortfallError(f"expected Offline without a registry, got {report}")
    if leftovers(on):
        raise ShortfallError(f"half-written files are left after a start: {leftovers(on)}")


def come_in_sync(on: Site) -> None:
    """Start an agent and wait until the registry hears that the channel's last move is in force."""
    last = on.client.channel(CCA, CHANNEL)
    with on.running_agent():
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            reports = [report for report in on.client.agents(cca=CCA) if report["agent_id"] == "server"]
            if [(r["state"] in IN_FORCE, r["effective_serial"]) for r in reports] == [(True, last["serial"])]:
                break
            time.sleep(0.05)
        else:
            raise ShortfallError(f"the agent did not come to be in sync with {last['serial']}: {tail(on)}")
    if on.tree.read(CCA, "ensemble") != on.text(last["digest"], last["serial"]):
        raise ShortfallError("the agent is in sync, but another table is in force")


def kill_agents(folder: Path, server: Server, *, count: int, seed: int) -> Tally:
    """Run the campaign in a folder. Raises ShortfallError."""
    rng, tally = random.Random(seed), Tally()
    with site(folder, server) as on:
        for number in range(count):
            before = on.tree.read(CCA, "ensemble")
            kill_one(on, rng, aimed=number % 2 == 1)
            good = inspect(on, tally, before=before)
            start_without_registry(on, good, reboot=number % REBOOT_EVERY == REBOOT_EVERY - 1)
        come_in_sync(on)
        tally.applied = (on.folder / "agent.log").read_text(encoding="utf-8").count("event=applied")
    return tally


@click.command()
@click.option("--count", type=click.IntRange(min=1), default=50, show_default=True, help="Kills.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the moments and of the moves.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(*, count: int, seed: int, as_json: bool) -> None:
    """Kill the agent COUNT times; exit 0 where everything held, 1 where something did not."""
    with tempfile.TemporaryDirectory(prefix="ccatune-kill-agent-") as folder:
        try:
            tally = kill_agents(Path(folder), stand_in(Path(folder) / "tree"), count=count, seed=seed)
        except ShortfallError as error:
            click.echo(f"kill_agent: falls short: {error}")
            sys.exit(1)
    click.echo(json.dumps(vars(tally)) if as_json else tally.line())


if __name__ == "__main__":
    main()

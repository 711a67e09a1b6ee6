# SPDX-License-Identifier: MIT
"""Kills the registry and agents with SIGKILL at random moments, under load, with accounts and signatures.

    python -m tests.prove.kill_service --kills 50 --seed 1

One registry (accounts, a root document, a signing key) keeps its address over its restarts. Three real agents with
tokens and the root document write to stand-ins, whose serial rule is the kernel's. Meanwhile clients publish signed
ensembles, move the channel and roll it back, publish unsigned ensembles and try to move to them, and 40 further
agents poll and report. The kills hit the registry and one of the agents in turn. Every other kill of an agent falls
into an application of a table. What was killed is then started again, an agent first without a registry, and every
third time after a reboot, which empties the kernel. Some kills hit the registry before it answers: its first starts,
in which it makes its schema, and some of the later ones. What must hold:

    files      after each kill SQLite finds no damage in a copy of the database
    kept       every acknowledged ensemble, signature, move and report is there, and serials have no gap
    explained  a client asked for each ensemble and each move, and each ensemble has the digest of its list
    forward    no client ever sees a lower serial than one that was acknowledged before
    in force   after each kill, the table of each stand-in is one that was deployed, and its serial never goes back
    whole      after a kill of an agent, its last known good and its pending table load, or are not there
    back       without a registry the agent is Offline with its last known good in force, or with the pending table if
               the kernel had taken that already, and no temporary file is left
    signed     each agent's last known good is in the history, and its stored signatures verify under the root document
    refused    no move to an unsigned ensemble ever succeeds
    at the end every agent is InSync with the last move

tests/prove/kill_bpf.py does the same to an agent alone, with GR in BPF.

Limits: a killed process is not a lost power supply.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import httpx

from emulation.standin import StandInTree
from kmod.ensemble import Deployment, Ensemble, EnsembleError, table_text
from serving.agent.errors import AgentError
from serving.agent.kernel import Tree
from serving.agent.store import LAST_KNOWN_GOOD, PENDING, Store
from serving.client import RegistryClient
from serving.errors import RegistryClientError
from serving.signatures import Envelope, Root, SignedRoot, check_deployment, check_ensemble
from tests.prove.guarded import REGISTRY, REPOSITORY, Guarded, guarded
from tests.prove.service_clients import CCA, CHANNEL, Ledger, Worker, mover, poller, publisher, reader

AGENTS = 3
POLLERS = 40
MAX_LIFE_S = 1.2
# Kills before the first token exists, and the share of the later ones that hit a starting registry.
FIRST_KILLS = 3
EARLY_SHARE = 0.2
# A start takes about this long: imports, migration, binding.
MAX_EARLY_LIFE_S = 2.0
# Some 10 ms go by from `pending` to the last known good in place. An agent applies at most two tables a second.
MAX_APPLICATION_S = 0.015
AIM_S = 10.0
REBOOT_EVERY = 3
# Port 9 (discard): nobody listens there, and an ordinary user cannot.
NOBODY = "http://127.0.0.1:9"
END_S = 60.0
REQUEST_S = 10.0
LIMITS = httpx.Limits(max_connections=POLLERS, max_keepalive_connections=POLLERS)


@dataclass(frozen=True)
class Kernel:
    """What an agent writes to.

    options, environment: of the agent. reboot: loses the table. settle: waits until no write of a killed agent goes on.
    """

    tree: Tree
    options: Sequence[str]
    reboot: Callable[[], None]
    environment: Mapping[str, str] = field(default_factory=dict)
    settle: Callable[[], None] = lambda: None


def stand_in(folder: Path) -> Kernel:
    """A stand-in, which keeps its tables on disk behind the core's parser."""
    return Kernel(
        tree=StandInTree(folder),
        options=["--stand-in", str(folder)],
        reboot=lambda: (folder / f"{CCA}.json").unlink(missing_ok=True),
    )


class RealAgent:
    """An agent's process, the kernel that it writes to, and its state folder."""

    def __init__(self, service: Guarded, name: str, kernel: Kernel | None = None) -> None:
        self.name = name
        self.folder = service.folder / name
        self.folder.mkdir()
        self.kernel = kernel or stand_in(self.folder / "tree")
        self.store = Store(self.folder / "state")
        self.highest_serial = 0
        token = self.folder / "token"
        with service.client() as client:
            made = client.create_token(name, kind="agent", scopes=["read", "report"], agent_id=name)
        token.write_text(str(made["token"]), encoding="ascii")
        token.chmod(0o600)
        self._url = service.url
        self._options = [
            "--cca", CCA, "--state-dir", str(self.store.root), *self.kernel.options, "--agent-id", name,
            "--token-file", str(token), "--root", str(service.root_file), "--interval", "0.1", "--wait", "5",
            "--backoff-max", "1", "--report-spread", "0",
        ]  # fmt: skip
        self._environment = {**os.environ, **self.kernel.environment}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", "serving.agent", "--url", self._url, *self._options]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=REPOSITORY, env=self._environment)

    def kill(self, ledger: Ledger) -> None:
        """SIGKILL, or a failure if it has ended by itself."""
        assert self.process is not None
        if self.process.poll() is not None:
            ledger.fail(f"{self.name} ended by itself with {self.process.returncode}: {self.log()}")
        self.process.kill()
        self.process.wait(END_S)
        self.kernel.settle()

    def stop(self) -> None:
        """End the process, by its own id."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(END_S)

    def wait_for_application(self) -> None:
        """Wait until the agent applies a table, or for AIM_S where the channel does not move."""
        deadline_s = time.monotonic() + AIM_S
        while not (self.store.root / CCA / PENDING).exists() and time.monotonic() < deadline_s:
            time.sleep(0.0005)

    def leftovers(self) -> list[str]:
        """Temporary files in the state folder."""
        return [path.name for path in self.store.root.rglob("*.tmp")]

    def start_without_registry(self, ledger: Ledger, *, reboot: bool) -> None:
        """Run the agent once where it reaches no registry: its last known good must be in force, or come back."""
        try:
            expected, pending = (self.store.load_table(CCA, name) for name in (LAST_KNOWN_GOOD, PENDING))
        except AgentError as error:
            ledger.fail(f"{self.name}: a table does not load: {error}")
            return
        if reboot:
            self.kernel.reboot()
            # A kill between the kernel's write and the rename, and then a reboot, bring the older table back.
            self.highest_serial = 0
        elif pending is not None and pending.text == self.text_in_force():
            expected = pending
        command = [sys.executable, "-m", "serving.agent", "--url", NOBODY, *self._options, "--once", "--json"]
        with (self.folder / "log").open("ab") as log:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=False, timeout=END_S,
                                  cwd=REPOSITORY, env=self._environment)  # fmt: skip
        states = [report["state"] for report in json.loads(done.stdout or "[]")]
        if (done.returncode, states) != (1, ["Offline"]):
            ledger.fail(
                f"{self.name}: expected Offline without a registry, got {done.returncode} {states}: {self.log()}"
            )
        kept, text = self.store.load_table(CCA, LAST_KNOWN_GOOD), expected.text if expected is not None else ""
        if self.text_in_force() != text or (kept.text if kept is not None else "") != text:
            ledger.fail(f"{self.name}: {expected and expected.name} did not come back: {self.log()}")
        if self.leftovers():
            ledger.fail(f"{self.name}: half-written files are left after a start: {self.leftovers()}")

    def log(self) -> str:
        """The end of its log."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-800:]

    def text_in_force(self) -> str:
        """The table of the stand-in."""
        return self.kernel.tree.read(CCA, "ensemble")


@dataclass
class Findings:
    """What the campaign counted and found."""

    kills_of_registry: int = 0
    kills_before_ready: int = 0
    kills_of_agents: int = 0
    kills_in_application: int = 0
    kills_with_leftovers: int = 0
    ensembles: int = 0
    moves: int = 0
    refused_moves: int = 0
    requests_cut: int = 0
    tables_inspected: int = 0
    failures: list[str] = field(default_factory=list)


def inspect(agents: list[RealAgent], seen: set[str], findings: Findings, ledger: Ledger) -> None:
    """Note the tables in force; their serials must not go back."""
    for agent in agents:
        text = agent.text_in_force()
        if not text:
            continue
        findings.tables_inspected += 1
        seen.add(text)
        serial = int(next(line.split()[1] for line in text.splitlines() if line.startswith("serial ")))
        if serial < agent.highest_serial:
            ledger.fail(f"{agent.name}: the serial in force went back from {agent.highest_serial} to {serial}")
        agent.highest_serial = max(agent.highest_serial, serial)


def kill_all(service: Guarded, agents: list[RealAgent], *, kills: int, kills_registry: bool, chance: random.Random,
             ledger: Ledger, findings: Findings) -> set[str]:  # fmt: skip
    """Kill and start again. Returns all tables that were seen in force."""
    seen: set[str] = set()
    for number in range(kills):
        time.sleep(chance.uniform(0.1, MAX_LIFE_S))
        if kills_registry and number % 2 == 0:
            service.end(signal.SIGKILL)
            findings.kills_of_registry += 1
            ledger.failures += [f"kill {number}: {wrong}" for wrong in check_files(service.folder)]
            if chance.random() < EARLY_SHARE:
                kill_starting(service, chance, ledger, findings)
            service.start()
        else:
            kill_agent(chance.choice(agents), agents, seen, chance=chance, ledger=ledger, findings=findings)
        inspect(agents, seen, findings, ledger)
        click.echo(f"kill {number + 1}/{kills}: {len(ledger.moves)} moves", err=True)
    return seen


def kill_starting(service: Guarded, chance: random.Random, ledger: Ledger, findings: Findings) -> None:
    """Kill the registry at a moment of its start."""
    service.launch()
    time.sleep(chance.uniform(0, MAX_EARLY_LIFE_S))
    service.end(signal.SIGKILL)
    findings.kills_before_ready += 1
    ledger.failures += [f"start {findings.kills_before_ready}: {wrong}" for wrong in check_files(service.folder)]


def check_files(folder: Path) -> list[str]:
    """What SQLite finds wrong with a copy of the files as the kill left them."""
    if not (folder / "registry.db").exists():
        return []
    with tempfile.TemporaryDirectory() as copies:
        for path in folder.glob("registry.db*"):
            # The index of the write-ahead log is rebuilt from the log, as after a power failure.
            if not path.name.endswith("-shm"):
                shutil.copy(path, copies)
        connection = sqlite3.connect(Path(copies) / "registry.db")
        try:
            answer = connection.execute("PRAGMA integrity_check").fetchall()
            orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
        except sqlite3.DatabaseError as error:
            return [f"the database is damaged: {error}"]
        finally:
            connection.close()
    wrong = [] if answer == [("ok",)] else [f"integrity_check: {answer[:3]}"]
    return wrong + ([f"foreign_key_check: {orphans[:3]}"] if orphans else [])


def kill_agent(victim: RealAgent, agents: list[RealAgent], seen: set[str], *, chance: random.Random,
               ledger: Ledger, findings: Findings) -> None:  # fmt: skip
    """Kill an agent, every other time within an application, and start it again."""
    if findings.kills_of_agents % 2:
        victim.wait_for_application()
        time.sleep(chance.uniform(0.0, MAX_APPLICATION_S))
    victim.kill(ledger)
    findings.kills_of_agents += 1
    findings.kills_in_application += (victim.store.root / CCA / PENDING).exists()
    findings.kills_with_leftovers += bool(victim.leftovers())
    inspect(agents, seen, findings, ledger)
    victim.start_without_registry(ledger, reboot=findings.kills_of_agents % REBOOT_EVERY == 0)
    victim.start()


def wait_until_in_sync(service: Guarded, agents: list[RealAgent], ledger: Ledger) -> None:
    """Wait until the registry lists each agent as InSync with the last move."""
    deadline_s = time.monotonic() + END_S
    with service.client() as client:
        last = client.channel(CCA, CHANNEL)["serial"]
        wanted = {(agent.name, "InSync", last) for agent in agents}
        while time.monotonic() < deadline_s:
            found = {(row["agent_id"], row["state"], row["effective_serial"]) for row in client.agents(cca=CCA)}
            if wanted <= found:
                return
            time.sleep(0.1)
    ledger.fail(f"not InSync at the end: {sorted(wanted - found)}: {[agent.log() for agent in agents]}")


def check_end(service: Guarded, agents: list[RealAgent], seen: set[str], ledger: Ledger) -> None:
    """Compare the registry and the agents with what was acknowledged."""
    with service.client() as client:
        history = {row["serial"]: row for row in client.history(CCA, CHANNEL)}
        reports = {row["agent_id"]: row["effective_serial"] for row in client.agents(cca=CCA)}
        ensembles = check_ensembles(client, ledger)
    check_history(history, ledger)
    ledger.failures += [f"lost report of {name}: {serial}, lists {reports.get(name)}"
                        for name, serial in ledger.reports.items() if reports.get(name, -1) < serial]  # fmt: skip
    deployed = {
        table_text(ensembles[row["digest"]], Deployment(REGISTRY, CHANNEL, serial, urgent=row["urgent"]))
        for serial, row in history.items()
    }
    ledger.failures += [f"never deployed: {text[:200]!r}" for text in seen if text not in deployed]
    root = SignedRoot.first(Envelope.parse(service.root_file.read_bytes())).root
    for agent in agents:
        check_last_known_good(agent, root, deployed, ledger)


def check_ensembles(client: RegistryClient, ledger: Ledger) -> dict[str, Ensemble]:
    """Load every listed ensemble. Each that was acknowledged is listed, and a client offered each that is listed."""
    found: dict[str, Ensemble] = {}
    for digest in {row["digest"] for row in client.ensembles()}:
        try:
            found[digest] = client.ensemble(digest)
        except (EnsembleError, RegistryClientError) as error:
            ledger.fail(f"{digest} does not load: {error}")
    ledger.failures += [f"lost: {one}" for one in sorted((set(ledger.signed) | ledger.unsigned) - set(found))]
    ledger.failures += [f"nobody published {one}" for one in sorted(set(found) - ledger.offered)]
    return found


def check_history(history: dict[int, dict[str, Any]], ledger: Ledger) -> None:
    """The serials are 1, 2 ... n, every acknowledged move is among them, and a client asked for each."""
    if sorted(history) != list(range(1, len(history) + 1)):
        ledger.fail(f"serials have gaps: {sorted(history)}")
    for serial, told in ledger.moves.items():
        if history.get(serial) != told:
            ledger.fail(f"serial {serial} was acknowledged as {told}, is {history.get(serial)}")
    for row in history.values():
        if row["note"] not in ledger.asked:
            ledger.fail(f"nobody asked for {row}")


def check_last_known_good(agent: RealAgent, root: Root, deployed: set[str], ledger: Ledger) -> None:
    """The agent's last known good is a deployment, and its stored signatures hold."""
    good = agent.store.load_table(CCA, LAST_KNOWN_GOOD)
    if good is None or good.signed is None or good.text not in deployed:
        ledger.fail(f"{agent.name}: the last known good is no signed deployment: {good and good.name}")
        return
    statement, _ = check_deployment(root, Envelope.from_json(good.signed.deployment), now_s=time.time())
    envelopes = [Envelope.from_json(one) for one in good.signed.ensemble]
    check_ensemble(root, envelopes, cca=CCA, digest=good.ensemble.digest)
    if (statement.serial, statement.digest) != (good.deployment.serial, good.ensemble.digest):
        ledger.fail(f"{agent.name}: the signature is of {statement}, the table is {good.name}")


@contextlib.contextmanager
def working(service: Guarded, ledger: Ledger, chance: random.Random) -> Iterator[None]:
    """Run the clients and the simulated agents while the block runs."""
    headers = {"Authorization": f"Bearer {service.token}"}

    def drawn() -> random.Random:
        return random.Random(chance.random())

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(service.client(timeout_s=REQUEST_S)) for _ in range(5)]
        # One client, because each would load the certificates of the system.
        http = stack.enter_context(
            httpx.Client(base_url=service.url, headers=headers, timeout=REQUEST_S, limits=LIMITS)
        )
        kinds = [publisher(service, client, ledger, drawn()) for client in clients[:2]]
        kinds += [mover(client, ledger, drawn(), f"mover{number}") for number, client in enumerate(clients[2:4])]
        kinds += [reader(clients[4], ledger, drawn())]
        kinds += [poller(http, ledger, f"poller{number}", drawn()) for number in range(POLLERS)]
        workers = [Worker(work, ledger) for work in kinds]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            for worker in workers:
                worker.stop()
            for worker in workers:
                worker.join(END_S)


def campaign(*, kills: int, seed: int, kernel: Kernel | None = None) -> Findings:
    """Run it all in a temporary folder. kernel: one agent writes to it, and it alone is killed."""
    findings, ledger, chance = Findings(), Ledger(), random.Random(seed)

    def kill_first_starts(service: Guarded) -> None:
        for _ in range(FIRST_KILLS if kernel is None else 0):
            kill_starting(service, chance, ledger, findings)

    with (
        tempfile.TemporaryDirectory(prefix="ccatune-kill-service-") as name,
        guarded(Path(name), before=kill_first_starts) as service,
    ):
        agents = [RealAgent(service, f"agent{number}", kernel) for number in range(AGENTS if kernel is None else 1)]
        with contextlib.ExitStack() as stack:
            for agent in agents:
                agent.start()
                stack.callback(agent.stop)
            with working(service, ledger, chance):
                seen = kill_all(
                    service, agents, kills=kills, kills_registry=kernel is None, chance=chance, ledger=ledger,
                    findings=findings,
                )  # fmt: skip
            wait_until_in_sync(service, agents, ledger)
            inspect(agents, seen, findings, ledger)
            check_end(service, agents, seen, ledger)
    findings.ensembles = len(ledger.signed) + len(ledger.unsigned)
    findings.moves, findings.refused_moves = len(ledger.moves), ledger.refused_moves
    findings.requests_cut, findings.failures = ledger.cut, ledger.failures
    return findings


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=50, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the victims and moments.")
def main(*, kills: int, seed: int) -> None:
    """Kill registry and agents; exit 0 if nothing acknowledged was lost and nothing unsigned was applied."""
    findings = campaign(kills=kills, seed=seed)
    click.echo(json.dumps(asdict(findings)))
    sys.exit(1 if findings.failures else 0)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Kills the registry's process with SIGKILL at random moments, while clients publish and move channels.

    python tests/prove/kill_api.py --kills 50 --seed 1

Each round: `ccatune serve` starts on the same SQLite database; clients publish
new ensembles, move channels and roll them back; the process is killed, some
times before it ever answered (so in its migrations, too); the files are copied
as they lie and checked (PRAGMA integrity_check, foreign_key_check). After the
last round everything is read back. What must hold:

    kept        every acknowledged publication and move is there, as it was acknowledged
    serials     a channel's history is 1, 2, 3 ... n without gap or repeat; what clients see never goes back
    explained   whatever stands there was asked for by a client
    whole       every ensemble that is listed loads and has the digest that it is listed under

Limits: a killed process is not a lost power supply; that a commit reaches the
disk rests on SQLite's synchronous=FULL, which a unit test looks at. The moments
of the kills are drawn from the seed; what the clients were at then is not.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from kmod.ensemble import Axis, DelayClass, Ensemble, EnsembleError  # noqa: E402 - after the path
from serving.client import RegistryClient  # noqa: E402
from serving.errors import RegistryClientError  # noqa: E402

CHANNELS = ("champion", "canary")
CLIENTS = 3
START_LIMIT_S = 60.0
# Of a life with clients, counted from the first acknowledgement.
MAX_LIFE_S = 1.0
# Of a start, counted from the process's first moment: this covers imports, migration and binding.
MAX_EARLY_LIFE_S = 2.0
EARLY_SHARE = 0.2


@dataclass
class Findings:
    """What the campaign counted, and each line that did not hold."""

    kills: int = 0
    kills_before_ready: int = 0
    publications_acknowledged: int = 0
    moves_acknowledged: int = 0
    requests_cut: int = 0
    cut_but_committed: int = 0
    ensembles_listed: int = 0
    deployments_listed: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass
class Ledger:
    """What clients asked for and what they were told; one for all of them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    published: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)
    moves: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    notes_asked: set[str] = field(default_factory=set)
    highest_seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    requests_cut: int = 0
    failures: list[str] = field(default_factory=list)

    def acknowledged(self) -> int:
        """How many requests were acknowledged so far."""
        with self.lock:
            return len(self.published) + sum(len(moves) for moves in self.moves.values())

    def saw(self, channel: str, serial: int) -> None:
        """A client saw the channel at this serial, having asked after it knew `highest_seen`."""
        with self.lock:
            self.highest_seen[channel] = max(self.highest_seen[channel], serial)


def make_ensemble(number: int) -> Ensemble:
    """An ensemble of its own for each number."""
    return Ensemble(
        cca="gr",
        epoch_ms=30_000,
        estimate_ms=250,
        epsilon_pct=25,
        classes=(DelayClass(95, 100_000),),
        axes=(Axis("throughput_bytes_per_s", "linear", 125_000, 40),),
        columns=("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us"),
        rows=tuple((60_000, 3_000, 12_000 + level) for level in range(40)),
        provenance={"number": number},
    )


class Client(threading.Thread):
    """Publishes, moves, rolls back and looks, one request after the other, until told to stop."""

    def __init__(self, url: str, ledger: Ledger, *, seed: int, round_number: int) -> None:
        super().__init__()
        self._url = url
        self._ledger = ledger
        self._random = random.Random(seed)
        self._prefix = f"r{round_number}-{seed}"
        self._requests = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make no further request."""
        self._stopping.set()

    def run(self) -> None:
        """Until the server is gone: a request that is cut ends the round for this client."""
        with RegistryClient(self._url, timeout_s=START_LIMIT_S) as client:
            while not self._stopping.is_set():
                try:
                    self._one_request(client)
                except RegistryClientError as error:
                    if "409" in str(error) or "404" in str(error):
                        continue
                    with self._ledger.lock:
                        self._ledger.requests_cut += 1
                        if "expected an answer" not in str(error):
                            self._ledger.failures.append(f"a request was refused: {error}")
                    return

    def _one_request(self, client: RegistryClient) -> None:
        self._requests += 1
        channel = self._random.choice(CHANNELS)
        draw = self._random.random()
        with self._ledger.lock:
            known = sorted(self._ledger.published)
        if draw < 0.4 or not known:
            self._publish(client)
        elif draw < 0.8:
            digest = self._random.choice(known)
            self._move(channel, lambda note: client.move("gr", channel, digest=digest, note=note))
        elif draw < 0.9:
            self._move(channel, lambda note: client.roll_back("gr", channel, note=note))
        else:
            self._look(client, channel)

    def _publish(self, client: RegistryClient) -> None:
        ensemble = make_ensemble(self._random.getrandbits(62))
        with self._ledger.lock:
            self._ledger.offered.add(ensemble.digest)
        client.publish(ensemble)
        with self._ledger.lock:
            self._ledger.published.add(ensemble.digest)

    def _move(self, channel: str, ask: Any) -> None:
        note = f"{self._prefix}-{self._requests}"
        with self._ledger.lock:
            self._ledger.notes_asked.add(note)
        moved = ask(note)
        del moved["created"]  # the history does not tell it
        with self._ledger.lock:
            if moved["serial"] in self._ledger.moves[channel]:
                self._ledger.failures.append(f"{channel}: serial {moved['serial']} was acknowledged twice")
            self._ledger.moves[channel][moved["serial"]] = moved
        self._ledger.saw(channel, moved["serial"])

    def _look(self, client: RegistryClient, channel: str) -> None:
        with self._ledger.lock:
            floor = self._ledger.highest_seen[channel]
        serial = client.channel("gr", channel)["serial"]
        if serial < floor:
            with self._ledger.lock:
                self._ledger.failures.append(f"{channel}: the serial went back from {floor} to {serial}")
        self._ledger.saw(channel, serial)


class Server:
    """One life of `ccatune serve`."""

    def __init__(self, folder: Path) -> None:
        self._ready_file = folder / "ready"
        self._ready_file.unlink(missing_ok=True)
        self._log = (folder / "serve.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ccatune", "serve", "--open", "--database", f"sqlite:///{folder}/registry.db",
             "--port", "0", "--ready-file", str(self._ready_file)],
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            cwd=REPOSITORY,
        )  # fmt: skip

    def url(self) -> str:
        """Where it answers; waits for it. Raises RuntimeError where it ends instead."""
        deadline_s = time.monotonic() + START_LIMIT_S
        while not self._ready_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the registry did not start again, status {self._process.returncode}")
            time.sleep(0.01)
        return self._ready_file.read_text(encoding="utf-8").strip()

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._process.kill()
        self._process.wait()
        self._log.close()


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


def one_round(folder: Path, ledger: Ledger, chance: random.Random, *, number: int, findings: Findings) -> None:
    """Start, let clients work, kill, check the files."""
    early = chance.random() < EARLY_SHARE
    life_s = chance.uniform(0, MAX_EARLY_LIFE_S if early else MAX_LIFE_S)
    seeds = [chance.getrandbits(32) for _ in range(CLIENTS)]
    server = Server(folder)
    clients: list[Client] = []
    try:
        if not early:
            url = server.url()
            clients = [Client(url, ledger, seed=seed, round_number=number) for seed in seeds]
            before = ledger.acknowledged()
            for client in clients:
                client.start()
            # On a busy machine a life counted from the start alone would often end before anything was said.
            while ledger.acknowledged() == before and any(client.is_alive() for client in clients):
                time.sleep(0.005)
        time.sleep(life_s)
    finally:
        server.kill()
        for client in clients:
            client.stop()
        for client in clients:
            client.join()
    findings.kills += 1
    findings.kills_before_ready += early
    findings.failures += [f"round {number}: {wrong}" for wrong in check_files(folder)]


def check_ensembles(client: RegistryClient, ledger: Ledger, findings: Findings) -> None:
    """Every acknowledged ensemble is listed; every listed one was offered, loads and verifies."""
    listed = {row["digest"] for row in client.ensembles()}
    findings.ensembles_listed = len(listed)
    findings.cut_but_committed += len(listed - ledger.published)
    findings.failures += [f"lost: {digest}" for digest in sorted(ledger.published - listed)]
    findings.failures += [f"nobody published {digest}" for digest in sorted(listed - ledger.offered)]
    for digest in sorted(listed):
        try:
            found = client.ensemble(digest).digest
        except (EnsembleError, RegistryClientError) as error:
            found = str(error)
        if found != digest:
            findings.failures.append(f"{digest} does not load: {found}")


def check_channel(client: RegistryClient, channel: str, ledger: Ledger, findings: Findings) -> None:
    """The history is 1 ... n, holds every acknowledged move as it was told, and nothing that nobody asked for."""
    try:
        history = {row["serial"]: row for row in client.history("gr", channel)}
        current = client.channel("gr", channel)
    except RegistryClientError as error:
        if ledger.moves[channel]:
            findings.failures.append(f"{channel}: lost whole: {error}")
        return
    findings.deployments_listed += len(history)
    acknowledged = ledger.moves[channel]
    findings.cut_but_committed += len(set(history) - set(acknowledged))
    if sorted(history) != list(range(1, len(history) + 1)):
        findings.failures.append(f"{channel}: serials have gaps or repeats: {sorted(history)}")
    if current["serial"] != max(history) or current["serial"] < ledger.highest_seen[channel]:
        findings.failures.append(f"{channel}: stands at {current['serial']}, {ledger.highest_seen[channel]} was seen")
    for serial, told in acknowledged.items():
        if history.get(serial) != told:
            findings.failures.append(f"{channel}: serial {serial} was told as {told}, is {history.get(serial)}")
    findings.failures += [
        f"{channel}: nobody asked for serial {row['serial']}"
        for row in history.values()
        if row["note"] not in ledger.notes_asked
    ]


def run_campaign(folder: Path, *, kills: int, seed: int) -> Findings:
    """All rounds in `folder`, then the reading back."""
    findings, ledger, chance = Findings(), Ledger(), random.Random(seed)
    for number in range(kills):
        try:
            one_round(folder, ledger, chance, number=number, findings=findings)
        except RuntimeError as error:
            findings.failures.append(f"round {number}: {error}")
            return findings
        click.echo(f"kill {findings.kills}/{kills}: {len(ledger.published)} published", err=True)
    server = Server(folder)
    try:
        with RegistryClient(server.url(), timeout_s=START_LIMIT_S) as client:
            check_ensembles(client, ledger, findings)
            for channel in CHANNELS:
                check_channel(client, channel, ledger, findings)
    finally:
        server.kill()
    findings.publications_acknowledged = len(ledger.published)
    findings.moves_acknowledged = sum(len(moves) for moves in ledger.moves.values())
    findings.requests_cut = ledger.requests_cut
    findings.failures += ledger.failures
    return findings


@click.command()
@click.option("--kills", type=click.IntRange(min=1), default=50, show_default=True, help="How often to kill.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the moments and of what clients ask.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def main(*, kills: int, seed: int, as_json: bool) -> None:
    """Kill the registry at random moments; exit 0 where nothing acknowledged was lost."""
    with tempfile.TemporaryDirectory(prefix="ccatune-kill-api-") as folder:
        findings = run_campaign(Path(folder), kills=kills, seed=seed)
    if as_json:
        click.echo(json.dumps(asdict(findings)))
    else:
        for failure in findings.failures:
            click.echo(failure)
        click.echo(
            f"kill_api: {findings.kills} kills ({findings.kills_before_ready} before the first answer), "
            f"{findings.publications_acknowledged} publications and {findings.moves_acknowledged} moves acknowledged, "
            f"{findings.requests_cut} requests cut of which {findings.cut_but_committed} had been committed, "
            f"{len(findings.failures)} failures"
        )
    sys.exit(1 if findings.failures else 0)


if __name__ == "__main__":
    main()

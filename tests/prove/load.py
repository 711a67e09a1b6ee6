# SPDX-License-Identifier: MIT
"""Loads the registry with thousands of agents: long polls, reports and moves, from one generator on the same machine.

    python -m tests.prove.load --agents 10000 --moves 3
    python -m tests.prove.load --agents 5000 --processes 3 --postgresql

Each agent follows one channel by long polls of 30 s. It reports every 30 s, and again when it receives a new serial.
Like the real agent it keeps a connection for its polls and one for its reports (`--no-reuse` opens one for each
request), and delays the report on a new serial by a random time of up to 5 s (`--no-delay` sends it at once).
Each report has the sums of 6 rows of flows (`--rows`), as of a table of one state and three classes with a hold-back.
All agents share one token, so the registry checks a token with each request.
The campaign moves the channel several times and measures

    answer      from the request of a move to its answer
    arrival     from the request of a move to the moment when an agent has received the new offer
    errors      answers and connections that failed; an agent then tries again after 1 s
    lost        agents whose latest acknowledged report is not the one that the registry lists
    miscounted  agents of whose acknowledged sums the registry has too few or too many
    kib         growth of the processes' resident memory, for each agent
    move cpu    CPU time of the registry's processes in the 10 s after the request of a move
    idle cpu    their CPU time while nothing moves, as a share of one processor
    generator   CPU time of the generator itself in the 10 s after the request of a move

Times of a clock depend on what else the machine does, and CPU times hardly. Without the CPU time of PostgreSQL.
The command exits 0 if every figure is within the limits of `LIMITS`.

Limits: the generator shares the processors with the registry, and all agents are on the loopback interface.
Agents that exceed the limit of open descriptors (`ulimit -n`) keep no connection for their reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import click
import uvloop

from serving.client import RegistryClient
from tests.prove.guarded import REPOSITORY, make_ensemble
from tests.prove.load_agents import CHANNEL, Agent, Client, Counts, Place
from tests.serving.postgresql import PostgreSql, postgresql_binaries

RAMP_PER_S = 400
START_S = 60.0
SPARE_DESCRIPTORS = 1024
SETTLE_S = 35.0
MOVE_S = 10.0
REPORT_DELAY_S = 5.0
LIMITS = {
    "answer_s": 0.5, "arrival_p99_s": 5.0, "arrival_last_s": 15.0, "errors": 0, "lost": 0, "miscounted": 0,
    "kib_per_agent": 30.0,
}  # fmt: skip


@dataclass
class Figures:
    """What the campaign measured. The times are the worst of all moves."""

    agents: int
    processes: int
    database: str
    moves: int = 0
    answer_s: float = 0.0
    arrival_p50_s: float = 0.0
    arrival_p99_s: float = 0.0
    arrival_last_s: float = 0.0
    reports: int = 0
    polls: int = 0
    errors: int = 0
    lost: int = 0
    miscounted: int = 0
    connections: int = 0
    kib_per_agent: float = 0.0
    move_cpu_s: float = 0.0
    move_cpu_us_per_agent: float = 0.0
    idle_cpu_percent: float = 0.0
    generator_cpu_s: float = 0.0
    first_errors: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Each figure that is over its limit."""
        values = asdict(self)
        return [f"{name}: expected at most {limit}, got {values[name]}" for name, limit in LIMITS.items()
                if values[name] > limit]  # fmt: skip


@contextlib.contextmanager
def serving(folder: Path, number: int, database: str, *, has_accounts: bool = False) -> Iterator[tuple[str, int]]:
    """Run `ccatune serve`. Gives its URL and process id."""
    ready, log = folder / f"ready{number}", folder / f"log{number}"
    with log.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "ccatune", "serve", "--database", database, "--port", "0",
             "--ready-file", str(ready), *([] if has_accounts else ["--open"])],
            stdout=subprocess.DEVNULL,
            stderr=err,
            cwd=REPOSITORY,
        )  # fmt: skip
    try:
        deadline_s = time.monotonic() + START_S
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        yield ready.read_text(encoding="utf-8").strip(), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=START_S)
        click.echo(log.read_text(encoding="utf-8")[-2000:], err=True, nl=False)


def first_token(folder: Path, database: str) -> str:
    """Make the database with one token, which permits everything."""
    file = folder / "token"
    subprocess.run(
        [sys.executable, "-m", "ccatune", "serve", "--init", "--database", database, "--token-file", str(file)],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=REPOSITORY,
    )
    return file.read_text(encoding="ascii").strip()


def memory_kib(pids: list[int]) -> int:
    """Resident memory of the processes."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def cpu_s(pids: list[int]) -> float:
    """CPU time of the processes so far, of all their threads, in user and in kernel mode."""
    fields = [Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split() for pid in pids]
    return sum(int(values[11]) + int(values[12]) for values in fields) / os.sysconf("SC_CLK_TCK")


async def ramp(agents: list[Agent]) -> None:
    """Start the agents, and wait until each has an offer."""
    for number, agent in enumerate(agents):
        agent.start()
        if number % (RAMP_PER_S // 20) == 0:
            await asyncio.sleep(1 / 20)
    await arrival(agents, serial=1)


async def arrival(agents: list[Agent], *, serial: int) -> None:
    """Wait until every agent has this serial, for a minute at most."""
    for _ in range(600):
        if all(agent.serial >= serial for agent in agents):
            return
        await asyncio.sleep(0.1)


async def moved(place: Place, digest: str) -> int:
    """Move the channel. Returns the new serial. Raises RuntimeError."""
    body = json.dumps({"digest": digest}).encode()
    head = (
        f"PUT {CHANNEL} HTTP/1.1\r\n{place.headers}Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    answer: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
    Client(place, source="127.0.0.1", reuse=False, counts=Counts()).send(
        head.encode() + body,
        on_answer=lambda status, etag: answer.set_result((status, etag)),
        on_failure=lambda words: answer.set_exception(RuntimeError(words)),
    )
    status, etag = await answer
    if status not in {200, 201}:
        raise RuntimeError(f"expected the move to succeed, got {status}")
    return int(etag.split(":")[1])


async def one_move(agents: list[Agent], place: Place, digest: str, pids: list[int], figures: Figures) -> None:
    """Move the channel once, and enter the times into the figures."""
    registry_s, generator_s = cpu_s(pids), time.process_time()
    sent_s = time.monotonic()
    serial = await moved(place, digest)
    figures.answer_s = max(figures.answer_s, time.monotonic() - sent_s)
    await arrival(agents, serial=serial)
    times_s = sorted(agent.arrived_s.get(serial, math.inf) - sent_s for agent in agents)
    await asyncio.sleep(max(0.0, sent_s + MOVE_S - time.monotonic()))
    registry_s, generator_s = cpu_s(pids) - registry_s, time.process_time() - generator_s
    click.echo(
        f"move {serial}: p50 {times_s[len(times_s) // 2]:.2f} s, last {times_s[-1]:.2f} s; CPU time in {MOVE_S:g} s: "
        f"registry {registry_s:.2f} s, generator {generator_s:.2f} s",
        err=True,
    )
    figures.moves += 1
    figures.move_cpu_s = round(max(figures.move_cpu_s, registry_s), 2)
    figures.move_cpu_us_per_agent = round(1e6 * figures.move_cpu_s / len(agents), 1)
    figures.generator_cpu_s = round(max(figures.generator_cpu_s, generator_s), 2)
    figures.arrival_p50_s = max(figures.arrival_p50_s, times_s[len(times_s) // 2])
    figures.arrival_p99_s = max(figures.arrival_p99_s, times_s[math.ceil(len(times_s) * 0.99) - 1])
    figures.arrival_last_s = max(figures.arrival_last_s, times_s[-1])


async def campaign(
    places: list[Place],
    pids: list[int],
    digests: list[str],
    figures: Figures,
    *,
    reuse: bool,
    delay_s: float,
    rows: int,
) -> list[Agent]:
    """Start the agents, move the channel, and fill in the figures. Returns the agents."""
    before_kib = memory_kib(pids)
    counts = Counts()
    # The registry and the generator have as many descriptors each, and the registry closes idle connections early.
    n_kept_reporters = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 5 // 6 - figures.agents
    agents = [
        Agent(
            number,
            places[number % len(places)],
            counts,
            reuse_poller=reuse,
            reuse_reporter=reuse and number < n_kept_reporters,
            delay_s=delay_s,
            rows=rows,
        )
        for number in range(figures.agents)
    ]
    gc.freeze()
    await ramp(agents)
    await asyncio.sleep(SETTLE_S / 2)
    registry_s = cpu_s(pids)
    await asyncio.sleep(SETTLE_S / 2)
    figures.idle_cpu_percent = round(100 * (cpu_s(pids) - registry_s) / (SETTLE_S / 2), 1)
    for number, digest in enumerate(digests):
        await one_move(agents, places[number % len(places)], digest, pids, figures)
        await asyncio.sleep(SETTLE_S - MOVE_S)
    figures.kib_per_agent = round((memory_kib(pids) - before_kib) / figures.agents, 1)
    for agent in agents:
        agent.stop()
    figures.reports, figures.polls, figures.connections = counts.reports, counts.polls, counts.connections
    figures.errors, figures.first_errors = counts.errors, counts.first_errors
    return agents


def n_miscounted(client: RegistryClient, agents: list[Agent], *, rows: int) -> int:
    """The agents of which the registry has other sums than those of their reports.

    The answer to an agent's last report may be lost, because the agents stop at any time.
    """
    counted = {item["agent_id"]: item["epochs"] for item in client.qos(["agent_id"])}
    return sum(
        counted.get(agent.name, 0) not in {agent.deltas_acknowledged * rows, (agent.deltas_acknowledged + 1) * rows}
        for agent in agents
    )


def raise_descriptor_limit(wanted: int) -> None:
    """Allow this process and the registries as many descriptors. Only root may exceed the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(hard, wanted), max(hard, wanted)))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        click.echo(f"expected {wanted} descriptors for two connections of each agent, got {hard}", err=True)


def place_of(url: str, token: str) -> Place:
    """Where the agents send their requests, and their token."""
    parts = urlsplit(url)
    headers = f"Host: {parts.hostname}\r\nAuthorization: Bearer {token}\r\n"
    return Place(str(parts.hostname), int(parts.port or 0), headers)


@click.command()
@click.option("--agents", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--moves", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--postgresql", is_flag=True, help="Use a PostgreSQL server with its defaults instead of SQLite.")
@click.option("--rows", type=click.IntRange(0, 256), default=6, show_default=True, help="Rows of sums in a report.")
@click.option("--no-reuse", is_flag=True, help="Open a connection for each request.")
@click.option("--no-delay", is_flag=True, help="Report on a new offer at once.")
def main(
    *, agents: int, moves: int, processes: int, postgresql: bool, rows: int, no_reuse: bool, no_delay: bool
) -> None:
    """Load the registry; exit 0 if every figure is within its limit."""
    raise_descriptor_limit(2 * agents + SPARE_DESCRIPTORS)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ccatune-load-")))
        database = f"sqlite:///{folder}/registry.db"
        if postgresql:
            binaries = postgresql_binaries()
            if binaries is None:
                raise click.UsageError("--postgresql: expected PostgreSQL to be installed")
            server = PostgreSql(binaries)
            stack.callback(server.stop)
            database = server.empty_database()
        token = first_token(folder, database)
        started = [
            stack.enter_context(serving(folder, number, database, has_accounts=True)) for number in range(processes)
        ]
        client = stack.enter_context(RegistryClient(started[0][0], token=token))
        digests = [client.publish(make_ensemble(number))["digest"] for number in range(moves + 1)]
        client.move("gr", "champion", digest=digests[0])
        places = [place_of(url, token) for url, _ in started]
        figures = Figures(agents=agents, processes=processes, database="postgresql" if postgresql else "sqlite")
        delay_s = 0.0 if no_delay else REPORT_DELAY_S
        # The generator's agents are no garbage, however often the collector looks at them.
        gc.set_threshold(50_000, 50, 50)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            stopped = runner.run(
                campaign(
                    places,
                    [pid for _, pid in started],
                    digests[1:],
                    figures,
                    reuse=not no_reuse,
                    delay_s=delay_s,
                    rows=rows,
                )
            )
        listed = {row["agent_id"]: row["effective_serial"] for row in client.agents()}
        figures.lost = sum(listed.get(agent.name, -1) < agent.reported_serial for agent in stopped)
        figures.miscounted = n_miscounted(client, stopped, rows=rows)
    failures = figures.failures()
    for line in [*figures.first_errors, *failures]:
        click.echo(line)
    click.echo("load: " + ", ".join(f"{name} {value}" for name, value in asdict(figures).items()
                                    if name != "first_errors"))  # fmt: skip
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""Loads the registry with thousands of agents: long polls, reports and moves, from one generator on the same machine.

    python -m tests.prove.load --agents 10000 --moves 3
    python -m tests.prove.load --agents 5000 --processes 3 --postgresql

Each agent follows one channel by long polls of 30 s. It reports every 30 s, and again when it receives a new serial.
Like the real agent it opens a connection for each request. The campaign moves the channel several times and measures

    answer    from the request of a move to its answer
    arrival   from the request of a move to the moment when an agent has received the new offer
    errors    answers and connections that failed; an agent then tries again after 1 s
    lost      agents whose latest acknowledged report is not the one that the registry lists
    memory    growth of the processes' resident memory, for each agent

It exits 0 if every figure is within the limits of `LIMITS`.

Limits: the generator shares the processors with the registry, and all agents are on the loopback interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
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

from serving.client import RegistryClient
from tests.prove.kill_api import REPOSITORY, make_ensemble
from tests.serving.postgresql import PostgreSql, postgresql_binaries

CHANNEL = "/v1/channels/gr/champion"
POLL_S = 30
REPORT_S = 30.0
RETRY_S = 1.0
RAMP_PER_S = 400
START_S = 60.0
SETTLE_S = 35.0
LIMITS = {
    "answer_s": 0.5, "arrival_p99_s": 5.0, "arrival_last_s": 15.0, "errors": 0, "lost": 0, "kib_per_agent": 30.0,
}  # fmt: skip
# The agents connect from several loopback addresses, so that ports do not run out.
AGENTS_PER_ADDRESS = 2000


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
    kib_per_agent: float = 0.0
    first_errors: list[str] = field(default_factory=list)

    def failures(self) -> list[str]:
        """Each figure that is over its limit."""
        values = asdict(self)
        return [f"{name}: expected at most {limit}, got {values[name]}" for name, limit in LIMITS.items()
                if values[name] > limit]  # fmt: skip


class Exchange(asyncio.Protocol):
    """One request on a connection of its own. The answer ends with the connection."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._parts: list[bytes] = []
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Keep a part of the answer."""
        self._parts.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the answer, or the error."""
        if not self.answer.done():
            if exc is None:
                self.answer.set_result(b"".join(self._parts))
            else:
                self.answer.set_exception(exc)


@dataclass
class Place:
    """Where a registry's process listens, and the figures of the whole campaign."""

    host: str
    port: int

    async def send(self, request: bytes, *, source: str) -> tuple[int, dict[str, str]]:
        """Send a request. Returns the status and the headers. Raises OSError."""
        loop = asyncio.get_running_loop()
        _, exchange = await loop.create_connection(
            lambda: Exchange(request), self.host, self.port, local_addr=(source, 0)
        )
        head = (await exchange.answer).partition(b"\r\n\r\n")[0].decode("latin-1")
        first, *rest = head.split("\r\n")
        if not first.startswith("HTTP/1.1 "):
            raise ConnectionError(f"expected an answer, got {first!r}")
        return int(first.split()[1]), dict(line.lower().split(": ", 1) for line in rest)


class Agent:
    """An agent that polls and reports until it is cancelled."""

    def __init__(self, number: int, place: Place, figures: Figures) -> None:
        self.name = f"agent-{number}"
        self.serial = 0
        self.reported_serial = 0
        self.arrived_s: dict[int, float] = {}
        self._place = place
        self._figures = figures
        self._source = f"127.0.0.{2 + number // AGENTS_PER_ADDRESS}"
        self._etag = ""
        self._news = asyncio.Event()
        # The reports of the agents are spread over the interval.
        self._first_pause_s = REPORT_S * (number * 0.618 % 1)

    async def poll(self) -> None:
        """Follow the channel."""
        while True:
            known = f"If-None-Match: {self._etag}\r\n" if self._etag else ""
            answer = await self._try(f"GET {CHANNEL}?wait={POLL_S} HTTP/1.1\r\n{known}", b"")
            self._figures.polls += 1
            if answer is None:
                continue
            self._etag = answer["etag"]
            serial = int(self._etag.split(":")[1])
            if serial != self.serial:
                self.serial = serial
                self.arrived_s[serial] = time.monotonic()
                self._news.set()

    async def report(self) -> None:
        """Report at each interval, and after each new serial."""
        pause_s = self._first_pause_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._news.wait()
            self._news.clear()
            pause_s = REPORT_S
            serial = self.serial
            body = json.dumps({"cca": "gr", "channel": "champion", "state": "InSync", "effective_serial": serial})
            head = (
                f"POST /v1/agents/{self.name}/reports HTTP/1.1\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n"
            )
            if await self._try(head, body.encode()) is not None:
                self._figures.reports += 1
                self.reported_serial = serial
            else:
                self._news.set()

    async def _try(self, head: str, body: bytes) -> dict[str, str] | None:
        request = f"{head}Host: 127.0.0.1\r\nConnection: close\r\n\r\n".encode() + body
        try:
            status, headers = await self._place.send(request, source=self._source)
        except OSError as error:
            self._failed(f"{self.name}: {head.split(maxsplit=1)[0]}: {error}")
        else:
            if status in {200, 204, 304}:
                return headers
            self._failed(f"{self.name}: {head.split(maxsplit=1)[0]}: {status}")
        await asyncio.sleep(RETRY_S)
        return None

    def _failed(self, words: str) -> None:
        self._figures.errors += 1
        if len(self._figures.first_errors) < 5:
            self._figures.first_errors.append(words)


@contextlib.contextmanager
def serving(folder: Path, number: int, database: str) -> Iterator[tuple[str, int]]:
    """Run `ccatune serve`. Gives its URL and process id."""
    ready, log = folder / f"ready{number}", folder / f"log{number}"
    with log.open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "ccatune", "serve", "--open", "--database", database, "--port", "0",
             "--ready-file", str(ready)],
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


def memory_kib(pids: list[int]) -> int:
    """Resident memory of the processes."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def ramp(agents: list[Agent]) -> list[asyncio.Task[None]]:
    """Start the agents, and wait until each has an offer."""
    tasks: list[asyncio.Task[None]] = []
    for number, agent in enumerate(agents):
        tasks += [asyncio.create_task(agent.poll()), asyncio.create_task(agent.report())]
        if number % (RAMP_PER_S // 20) == 0:
            await asyncio.sleep(1 / 20)
    await arrival(agents, serial=1)
    return tasks


async def arrival(agents: list[Agent], *, serial: int) -> None:
    """Wait until every agent has this serial, for a minute at most."""
    for _ in range(600):
        if all(agent.serial >= serial for agent in agents):
            return
        await asyncio.sleep(0.1)


async def one_move(agents: list[Agent], place: Place, digest: str, figures: Figures) -> None:
    """Move the channel once, and enter the times into the figures."""
    body = json.dumps({"digest": digest}).encode()
    request = (
        f"PUT {CHANNEL} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    sent_s = time.monotonic()
    status, headers = await place.send(request + body, source="127.0.0.1")
    figures.answer_s = max(figures.answer_s, time.monotonic() - sent_s)
    if status not in {200, 201}:
        raise RuntimeError(f"expected the move to succeed, got {status}")
    serial = int(headers["etag"].split(":")[1])
    await arrival(agents, serial=serial)
    times_s = sorted(agent.arrived_s.get(serial, math.inf) - sent_s for agent in agents)
    click.echo(f"move {serial}: p50 {times_s[len(times_s) // 2]:.2f} s, last {times_s[-1]:.2f} s", err=True)
    figures.moves += 1
    figures.arrival_p50_s = max(figures.arrival_p50_s, times_s[len(times_s) // 2])
    figures.arrival_p99_s = max(figures.arrival_p99_s, times_s[math.ceil(len(times_s) * 0.99) - 1])
    figures.arrival_last_s = max(figures.arrival_last_s, times_s[-1])


async def campaign(urls: list[str], pids: list[int], digests: list[str], figures: Figures) -> None:
    """Start the agents, move the channel, and fill in the figures."""
    places = [Place(str(urlsplit(url).hostname), int(urlsplit(url).port or 0)) for url in urls]
    before_kib = memory_kib(pids)
    agents = [Agent(number, places[number % len(places)], figures) for number in range(figures.agents)]
    tasks = await ramp(agents)
    await asyncio.sleep(SETTLE_S)
    for number, digest in enumerate(digests):
        await one_move(agents, places[number % len(places)], digest, figures)
        await asyncio.sleep(SETTLE_S)
    figures.kib_per_agent = round((memory_kib(pids) - before_kib) / figures.agents, 1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    reported = {agent.name: agent.reported_serial for agent in agents}
    listed = await asyncio.to_thread(all_agents, urls[0])
    figures.lost = sum(listed.get(name, -1) < serial for name, serial in reported.items())


def all_agents(url: str) -> dict[str, int]:
    """The effective serial of every agent that the registry lists."""
    with RegistryClient(url) as client:
        return {row["agent_id"]: row["effective_serial"] for row in client.agents()}


@click.command()
@click.option("--agents", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--moves", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--processes", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--postgresql", is_flag=True, help="Use a PostgreSQL server with its defaults instead of SQLite.")
def main(*, agents: int, moves: int, processes: int, postgresql: bool) -> None:
    """Load the registry; exit 0 if every figure is within its limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
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
        started = [stack.enter_context(serving(folder, number, database)) for number in range(processes)]
        urls, pids = [url for url, _ in started], [pid for _, pid in started]
        with RegistryClient(urls[0]) as client:
            digests = [client.publish(make_ensemble(number))["digest"] for number in range(moves + 1)]
            client.move("gr", "champion", digest=digests[0])
        figures = Figures(agents=agents, processes=processes, database="postgresql" if postgresql else "sqlite")
        asyncio.run(campaign(urls, pids, digests[1:], figures))
    failures = figures.failures()
    for line in [*figures.first_errors, *failures]:
        click.echo(line)
    click.echo("load: " + ", ".join(f"{name} {value}" for name, value in asdict(figures).items()
                                    if name != "first_errors"))  # fmt: skip
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

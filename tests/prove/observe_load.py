# SPDX-License-Identifier: MIT
"""What `ccatune observe` costs on a server with many connections: of a core, and in bytes a day.

    python -m tests.prove.observe_load --enforce
    python -m tests.prove.observe_load --acks

Both ends of the connections are on this machine. The kernel therefore has twice as many
sockets as a server with so many connections; the filter by port gives half of them to `observe`. Of the sampled
connections the share --active sends in each interval, a random number of packets; so does one in a hundred others.

With --acks the sampled ACKs are counted, too, as is the processor time of `ccatune-bpf acks`. The kernel counts the
time of the BPF program itself, over all segments that arrive: those of other connections and of the other ends, too.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from emulation.cli.bpf_bench import counting_time
from kmod.observations import files_in, read_observations
from serving.agent.observe.diag import Diag

REPOSITORY = Path(__file__).resolve().parents[2]
MAX_CORE_PERCENT = 2.0
SHARE = 0.01
EVERY_MS = 200
SETTLE_S = 3.0
DAY_S = 86_400
PACKET_BYTES = 1448
MOST_PACKETS = 12
SO_COOKIE = 57
SPARE_DESCRIPTORS = 200


def raise_descriptor_limit(wanted: int) -> None:
    """Allow this process and its children so many descriptors, or as many as it may."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < wanted:
        raise click.UsageError(f"expected a limit of {wanted} descriptors, got {hard}; use fewer --connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def receive(port: int, number: int) -> None:
    """Open connections to a port, and receive what arrives over them, for ever."""
    poll = select.epoll()
    clients = {}
    for _ in range(number):
        client = socket.create_connection(("127.0.0.1", port))
        clients[client.fileno()] = client
        poll.register(client, select.EPOLLIN)
    while True:
        for descriptor, _ in poll.poll():
            clients[descriptor].recv(PACKET_BYTES * MOST_PACKETS)


@contextlib.contextmanager
def connected(number: int) -> Iterator[tuple[int, list[socket.socket]]]:
    """Yield a port, and the server's end of each connection to it. The other ends are in another process."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512))
        port = listener.getsockname()[1]
        process = multiprocessing.get_context("fork").Process(target=receive, args=(port, number), daemon=True)
        process.start()
        stack.callback(process.kill)
        yield port, [stack.enter_context(listener.accept()[0]) for _ in range(number)]


def send(servers: list[socket.socket], rng: random.Random) -> None:
    """Send a random number of packets over each connection."""
    for server in servers:
        server.sendall(bytes(PACKET_BYTES * rng.randint(1, MOST_PACKETS)))


def cpu_s(pid: int) -> float:
    """The processor time of a process."""
    parts = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_s(pid: int) -> float:
    """The processor time of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return cpu_s(pid) + sum(cpu_s(int(child)) for child in children)


def program_ns() -> tuple[int, int]:
    """The ns and the runs of the BPF program for segments, as the kernel counted them."""
    listed = json.loads(subprocess.run(["bpftool", "-j", "prog", "list"], capture_output=True, check=True).stdout)
    its = [one for one in listed if one.get("name") == "acks_segment"]
    return sum(one.get("run_time_ns", 0) for one in its), sum(one.get("run_cnt", 0) for one in its)


def measure(
    port: int, servers: list[socket.socket], *, active: float, seconds: float, folder: Path, acks: bool
) -> dict[str, float]:
    """Run `ccatune observe` under the load, and return its cost."""
    rng = random.Random(1)
    diag = Diag(ports=[port])
    _, chosen = diag.dump(share=SHARE)
    diag.close()
    cookies = {one.cookie for one in chosen}
    sampled: list[socket.socket] = []
    others: list[socket.socket] = []
    for server in servers:
        cookie = int.from_bytes(server.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), sys.byteorder)
        (sampled if cookie in cookies else others).append(server)
    command = [
        sys.executable, "-m", "ccatune", "observe", "--folder", folder, "--share", str(SHARE), "--every-ms",
        str(EVERY_MS), "--port", str(port), "--loopback", "--json", "--seconds", str(SETTLE_S + seconds + 1),
        *(["--acks", "--most-acks", "20000"] if acks else []),
    ]  # fmt: skip
    with subprocess.Popen(list(map(str, command)), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        begun_s = time.monotonic()
        began_cpu_s, next_s, measured_s = 0.0, begun_s, 0.0
        spent_s, ns, runs = 0.0, 0, 0
        while process.poll() is None:
            send(rng.sample(sampled, round(active * len(sampled))), rng)
            send(rng.sample(others, len(others) // 100), rng)
            now_s = time.monotonic()
            if not measured_s and now_s - begun_s >= SETTLE_S:
                began_cpu_s, measured_s = tree_cpu_s(process.pid), now_s
            elif measured_s and not spent_s and now_s - measured_s >= seconds:
                spent_s, measured_s = tree_cpu_s(process.pid) - began_cpu_s, now_s - measured_s
                ns, runs = program_ns() if acks else (0, 0)
            next_s += EVERY_MS / 1000
            time.sleep(max(0.0, next_s - time.monotonic()))
        output, _ = process.communicate()
    counts = json.loads(output)
    found = read_observations(files_in(folder))
    duration_s = max(one.times_us[-1] for one in found.flows) / 1e6
    return {
        "connections": counts["matching"],
        "sampled": counts["present"],
        "active": active,
        "seconds": round(measured_s, 1),
        "core_percent": round(100 * spent_s / measured_s, 2),
        "mib_a_day": round(sum(path.stat().st_size for path in files_in(folder)) * DAY_S / duration_s / (1 << 20), 1),
        "rows": sum(len(one.rows) for one in found.flows),
        "skipped": counts["skipped"],
    } | ({
        "acks_per_s": round(counts["acks"] / duration_s),
        "acks_missed": counts["acks_over_limit"] + counts["acks_lost"],
        "ns_per_segment": round(ns / max(runs, 1)),
        "segments": runs,
    } if acks else {})  # fmt: skip


@click.command()
@click.option("--connections", type=click.IntRange(min=100), default=10_000, show_default=True)
@click.option("--active", type=click.FloatRange(0, 1), multiple=True, default=(0.1, 1.0), show_default=True)
@click.option("--seconds", type=click.FloatRange(min=1), default=30, show_default=True)
@click.option("--acks", is_flag=True, help="Sample each ACK, too. Needs root and bpftool.")
@click.option("--enforce", is_flag=True, help=f"Exit 1 over {MAX_CORE_PERCENT:g} % of a core.")
def main(*, connections: int, active: tuple[float, ...], seconds: float, acks: bool, enforce: bool) -> None:
    """Measure, and print a line of JSON for each share of active connections."""
    raise_descriptor_limit(connections + SPARE_DESCRIPTORS)
    results = []
    with connected(connections) as (port, servers), counting_time() if acks else contextlib.nullcontext():
        for share in active:
            with tempfile.TemporaryDirectory(prefix="ccatune-observe-") as folder:
                results.append(measure(port, servers, active=share, seconds=seconds, folder=Path(folder), acks=acks))
            click.echo(json.dumps(results[-1]))
    is_over = any(one["core_percent"] > MAX_CORE_PERCENT for one in results)
    sys.exit(1 if enforce and is_over else 0)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""What a proxy costs: processor time for each Gbit of a flow between namespaces over veth, beside a plain forward.

The processor time is that of all processes, which includes what the kernel does on their behalf, and of ksoftirqd.
What lies between server and client costs what it adds to a direct veth between the two. A packet is one segment of TCP,
or up to 64 KB, as with the offloads of a network card. HAProxy has configs/accelerator/haproxy.cfg, and once its
splicing is off.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from emulation.errors import EmulationError
from emulation.mahimahi.namespace import shells, traffic
from emulation.mahimahi.namespace.shells import Space, call
from kmod.terminal import echo

FOLDER = Path(__file__).resolve().parents[2] / "configs" / "accelerator"
NOTHING, FORWARD, SPLICING, COPYING = "nothing", "forward", "HAProxy, splicing", "HAProxy, copying"
PACKETS = ("64 KB", "segment")
SERVER, PROXY, PORT, PROXY_PORT = "10.9.1.2", "10.9.2.1", 443, 8443
_TICKS_PER_S = 100
Row = dict[str, Any]


@contextmanager
def network(between: str, packet: str) -> Iterator[tuple[Space, Space, Space]]:
    """Make the namespaces of a server, of what is between, and of a client. The first two are one for NOTHING."""
    with shells.network_namespace() as middle, ExitStack() as stack:
        call(*middle.enter, "ip", "link", "set", "lo", "up")
        client = stack.enter_context(shells.veth(middle.enter, "client", "10.9.2"))
        call(*middle.enter, "env", "PHONES=10.9.2.0/30", "ALGORITHM=cubic", FOLDER / "accelerator-routes", "up")
        devices, server = [(middle, "client"), (client, "eth0")], middle
        if between == NOTHING:
            call(*middle.enter, "ip", "address", "add", f"{SERVER}/32", "dev", "lo")
        else:
            server = stack.enter_context(shells.veth(middle.enter, "server", "10.9.1"))
            devices += [(middle, "server"), (server, "eth0")]
            call(*middle.enter, "sysctl", "-qw", "net.ipv4.ip_forward=1")
            call(*server.enter, "ip", "route", "add", "default", "via", "10.9.1.1")
        call(*client.enter, "ip", "route", "add", "default", "via", PROXY)
        for space, device in devices if packet == "segment" else []:
            call(*space.enter, "ip", "link", "set", device, "gso_max_segs", "1")
        yield server, middle, client


def processor_s() -> float:
    """Return the processor time of all children that have ended, and of ksoftirqd."""
    used, ticks = resource.getrusage(resource.RUSAGE_CHILDREN), 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text(encoding="utf-8").startswith("ksoftirqd/"):
                ticks += sum(map(int, (folder / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]))
        except OSError:
            continue  # it is gone
    return used.ru_utime + used.ru_stime + ticks / _TICKS_PER_S


def run(between: str, packet: str, *, seconds: float) -> tuple[float, float]:
    """Return the processor time in s for each Gbit, and the rate in Gbit/s, of one flow."""
    python = (sys.executable, "-I", "-S", traffic.__file__)
    through_proxy = between in {SPLICING, COPYING}
    host, port = (PROXY, PROXY_PORT) if through_proxy else (SERVER, PORT)
    send = ("send", "--host", "0.0.0.0", "--port", f"{PORT}", "--listen", "--cca", "cubic", "--seconds", f"{seconds}")  # noqa: S104
    fetch = ("fetch", "--host", host, "--port", f"{port}", "--seconds", f"{seconds + 20}")
    with network(between, packet) as (server, middle, client), tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
        text = (FOLDER / "haproxy.cfg").read_text(encoding="utf-8").replace("203.0.113.10:443", f"{SERVER}:{PORT}")
        file.write(text if between == SPLICING else text.replace("option splice-auto", ""))
        file.flush()
        haproxy = [(*middle.enter, "haproxy", "-db", "-q", "-f", file.name)] if through_proxy else []
        before_s, started = processor_s(), []
        try:
            for words in ((*server.enter, *python, *send), *haproxy, (*client.enter, *python, *fetch)):
                line = ("setpriv", "--pdeathsig", "KILL", "--", *words)
                started.append(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
            said, _ = started[0].communicate(timeout=seconds + 60)
        finally:
            for one in started:
                one.kill()
                one.communicate()
        used_s = processor_s() - before_s
    last = json.loads(said.splitlines()[-1])
    return used_s / (last["acked_bytes"] * 8e-9), last["mbps"] / 1000


def cost(*, runs: int, seconds: float) -> list[Row]:
    """Measure each kind of path several times, in turn.

    Raises EmulationError if HAProxy is not installed, or a command fails.
    """
    if shutil.which("haproxy", path=shells.PATH) is None:
        raise EmulationError("accelerator: expected haproxy installed, found none; install the package haproxy")
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(runs):
        for packet in PACKETS:
            for between in (NOTHING, FORWARD, SPLICING, COPYING):
                try:
                    measured = run(between, packet, seconds=seconds)
                except shells.ShellError as error:
                    raise EmulationError(f"accelerator: {error}") from error
                found.setdefault((packet, between), []).append(measured)
        echo(f"cost: {number + 1} of {runs} rounds", err=True)
    rows = []
    for (packet, between), each in found.items():
        added = [mine - direct for (mine, _), (direct, _) in zip(each, found[packet, NOTHING], strict=True)]
        rows.append({
            "packet": packet, "between": between,
            "processor_s_per_gbit": statistics.median(used_s for used_s, _ in each),
            "added_s_per_gbit": {
                "median": statistics.median(added), "least": min(added), "most": max(added),
            },
            "rate_gbps": statistics.median(rate_gbps for _, rate_gbps in each),
        })  # fmt: skip
    return rows

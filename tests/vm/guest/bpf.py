# SPDX-License-Identifier: MIT
"""The algorithms in BPF (kmod/bpf), through ccatune-bpf: in place of the modules, and on some lines beside them.

A flow of each that the job names lives under a table that is replaced. On the lines that run all programs GR's and
ROCCET's live through everything that record.py has. On the others ROCCET's has losses and pauses only. R-TCP's has
these, and a second flow of it meets a policer, until it is capped. A line's verifier may refuse R-TCP's object.
Recordings are left in the shared folder as bpf-ALGORITHM.recording. At the end nothing of BPF is in the kernel.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import inside
import limited
import record
import tree

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.append(str(REPOSITORY))

from kmod.bpf_host import BPF_CCAS, BpfHost  # noqa: E402 - found on the path just made
from serving.agent.observe.acks import Acks  # noqa: E402 - as above
from serving.agent.observe.diag import Diag  # noqa: E402 - as above
from serving.agent.observe.sampler import row_of  # noqa: E402 - as above

PROGRAM = REPOSITORY / "build" / "bpf" / "ccatune-bpf"
FILE_SYSTEM = Path("/sys/fs/bpf")
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
POLICED = {"rate": "5mbit", "burst_bytes": 500_000}
_ACKED = 120  # offset of tcpi_bytes_acked, include/uapi/linux/tcp.h


def in_kernel() -> dict[str, Any]:
    """How many programs and maps of BPF there are, and the congestion controls."""
    counts = {kind: len(json.loads(inside.run("bpftool", "-j", kind, "list"))) for kind in ("prog", "map")}
    return {**counts, "algorithms": sorted(AVAILABLE.read_text().split())}


def settled(wanted: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
    """What is in the kernel once it is as wanted, or after so long: the kernel frees objects a moment later."""
    with contextlib.suppress(TimeoutError):
        inside.wait_for(lambda: in_kernel() == wanted, timeout_s=timeout_s, what="the objects' end", pause_s=0.2)
    return in_kernel()


def acked(connection: socket.socket) -> int:
    """Bytes that the peer has acknowledged."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED + 8)
    return int(struct.unpack_from("Q", info, _ACKED)[0])


def algorithm_of(connection: socket.socket) -> str:
    """The name of its congestion control."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def refusal(host: BpfHost, cca: str) -> list[Any]:
    """The errno and the message of a load that fails; empty if it does not."""
    try:
        host.load(cca)
    except OSError as error:
        return [error.errno, error.strerror]
    return []


# --- a flow under a table -----------------------------------------------------------


def on_row(host: BpfHost, cca: str, connection: socket.socket, table: dict[str, Any]) -> dict[str, Any]:
    """Send until the flow is on a row of this table; its line of `flows`, and what `status` says then."""
    found: dict[str, Any] = {}

    def is_there() -> bool:
        record.push(connection, 0.3)
        for flow in tree.flows_of(host.read(cca, "flows")):
            if flow["state"] != "-" and table["first"] <= int(flow[table["column"]]) <= table["last"]:
                found["flow"] = flow
        return "flow" in found

    inside.wait_for(is_there, timeout_s=30, what=f"a flow of {cca} on a row of the table from {table['first']} on")
    status = host.read(cca, "status")
    return {**found, "totals": tree.totals_of(status), "rows": tree.rows_of(status)}


def capped(host: BpfHost, cca: str) -> dict[str, str]:
    """A new flow sends through a policer until it is capped; its line of `flows` then.

    A flow that is capped has no cap while the bucket has tokens, as it has after a pause between two looks.
    """
    found: dict[str, str] = {}

    def is_capped() -> bool:
        record.push(connection, 0.3)
        found.update(tree.flows_of(host.read(cca, "flows"))[0])
        return found["mode"] == "capped" and found["cap_pkts"] != "-"

    record.forth("rate", "60mbit", "limit", "100")
    limited.police(**POLICED)
    try:
        with record.connect(BPF_CCAS[cca]) as connection:
            inside.wait_for(is_capped, timeout_s=60, what="a cap")
    finally:
        limited.free()
    return found


def one_flow(host: BpfHost, cca: str, job: dict[str, Any]) -> dict[str, Any]:
    """A flow's life under two tables, and its recording."""
    first, second = job["bpf"][cca]
    seen: dict[str, Any] = {}
    record.back("delay", "20ms")
    record.forth("rate", "60mbit", "limit", "100")
    host.write(cca, "ensemble", first["text"])
    host.write(cca, "recording", "start 100000\n")
    with record.connect(BPF_CCAS[cca]) as connection:
        seen["algorithm"] = algorithm_of(connection)

        def move() -> None:
            seen["first"] = on_row(host, cca, connection, first)
            host.write(cca, "ensemble", second["text"])
            seen["second"] = on_row(host, cca, connection, second)

        lives_through_all = cca == "gr" or (cca == "roccet" and job["full_line"])
        (record.live_through if lives_through_all else record.live_briefly)(connection, job, move=move)
    record.with_pauses([BPF_CCAS[cca]], job)
    inside.wait_for(lambda: not host.read(cca, "flows"), timeout_s=30, what="the flows' end", pause_s=0.2)
    if cca in limited.BASE:
        seen["capped"] = capped(host, cca)
        inside.wait_for(lambda: not host.read(cca, "flows"), timeout_s=30, what="its end", pause_s=0.2)
    host.write(cca, "recording", "stop\n")
    (inside.SHARE / f"bpf-{cca}.recording").write_bytes(host.read_bytes(cca, "recording"))
    host.write(cca, "recording", "clear\n")
    seen["ensemble"] = host.read(cca, "ensemble")
    seen["totals"] = tree.totals_of(host.read(cca, "status"))
    return seen


# --- unloading ------------------------------------------------------------------------


def unloaded_under_a_flow(host: BpfHost, cca: str) -> dict[str, Any]:
    """A flow goes on under an algorithm that was unloaded, and no other one can begin."""
    with record.connect(BPF_CCAS[cca]) as connection:
        record.push(connection, 1)
        before = acked(connection)
        host.unload(cca)
        seen: dict[str, Any] = {"in kernel": in_kernel()["algorithms"], "algorithm": algorithm_of(connection)}
        try:
            record.connect(BPF_CCAS[cca]).close()
        except OSError as error:
            seen["another one"] = error.errno

        def goes_on() -> bool:
            record.push(connection, 0.2)
            return acked(connection) > before + 1_000_000

        inside.wait_for(goes_on, timeout_s=20, what="the flow going on")
        inside.wait_for(lambda: not record.unsent(connection), timeout_s=60, what="everything sent")
    return seen


def leave_nothing(host: BpfHost) -> None:
    """Whatever failed before: other programs need the names and find no BPF file system."""
    for cca in host.loaded():
        host.unload(cca)
    inside.run("umount", FILE_SYSTEM, check=False)


# --- samples of ACKs -----------------------------------------------------------------


def samples_of_acks() -> dict[str, Any]:
    """A flow's samples, and what sock_diag says of it once all is acknowledged. A last segment shows the last ACK."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with (
            contextlib.closing(Acks(share=1, most_per_s=100_000, every_s=1, ports=[port])) as acks,
            contextlib.closing(Diag(ports=[port])) as diag,
            socket.create_connection(listener.getsockname()) as client,
            listener.accept()[0] as server,
        ):
            for _ in range(100):
                server.sendall(bytes(30_000))
                client.recv(30_000, socket.MSG_WAITALL)
            inside.wait_for(lambda: acked(server) == 3_000_000, timeout_s=20, what="the last ACK")
            client.sendall(b"1")
            server.recv(1)
            found = acks.drain()
            _, listed = diag.dump()
            (looked,) = diag.look(listed)
    assert looked
    return {
        "samples": len(found),
        "last": [found[-1].algorithm, *found[-1].columns],
        "sock_diag": [looked.algorithm, *row_of(looked)[: len(found[-1].columns)]],
        "ends": found[-1].found == listed[0],
    }


# --- beside the modules -----------------------------------------------------------------


def three_flows(host: BpfHost) -> dict[str, Any]:
    """At once: GR and CUBIC in BPF, ROCCET as a module. Which host has which, and what each flow has sent."""
    names = ("gr", "roccet", BPF_CCAS["cubic"])
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(record.connect(name)) for name in names]
        for _ in range(3):
            for connection in connections:
                record.push(connection, 0.3)
        return {
            "gr in BPF": len(tree.flows_of(host.read("gr", "flows"))),
            "roccet's module": len(tree.flows(tree.PLACE / "roccet")),
            "cubic in BPF": len(tree.flows_of(host.read("cubic", "flows"))),
            "acked_bytes": {name: acked(connection) for name, connection in zip(names, connections, strict=True)},
        }


def beside_modules(host: BpfHost, job: dict[str, Any]) -> dict[str, Any]:
    """With the modules loaded: who has a name keeps it, and other names do not disturb each other."""
    before = in_kernel()
    seen: dict[str, Any] = {"before": before, "refused": refusal(host, "gr")}
    seen["after refusals"] = settled(before, timeout_s=5)
    seen["loaded after refusals"] = host.loaded()
    module = next(path for path in job["modules"] if Path(path).stem == "tcp_gr")
    inside.run("rmmod", "tcp_gr")
    host.load("gr")
    host.load("cubic")
    done = subprocess.run(["insmod", module], capture_output=True, text=True, check=False)
    seen["insmod tcp_gr"] = [done.returncode, done.stderr.strip()]
    seen["folders of modules"] = sorted(path.name for path in tree.PLACE.iterdir())
    with inside.chain(delay_ms=20), inside.receiver():
        seen["flows"] = three_flows(host)
        inside.wait_for(lambda: not tree.flows(tree.PLACE / "roccet"), timeout_s=30, what="the module's flow's end")
    host.unload("gr")
    host.unload("cubic")
    inside.run("insmod", module)
    seen["after"] = settled(before, timeout_s=10)
    return seen


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Beside the modules where the job says so, then without them."""
    host = BpfHost(PROGRAM)
    seen: dict[str, Any] = {}
    try:
        if job["full_line"]:
            seen["beside"] = beside_modules(host, job)
        tree.unload_modules(job)
        before = in_kernel()
        seen |= {"acks": samples_of_acks(), "after acks": settled(before, timeout_s=10)}
        refused = {cca: refusal(host, cca) for cca in BPF_CCAS}
        seen["refused"] = {cca: why for cca, why in refused.items() if why}
        seen |= {"before": before, "loaded": host.loaded(), "in kernel": in_kernel()}
        with inside.chain(), inside.receiver():
            seen["flows"] = {cca: one_flow(host, cca, job) for cca in job["bpf_flows"] if not refused[cca]}
            seen["unloaded under a flow"] = unloaded_under_a_flow(host, "cubic")
            for cca in host.loaded():
                host.unload(cca)
            seen |= {"after": settled(before, timeout_s=10), "loaded after": host.loaded()}
    finally:
        leave_nothing(host)
    return seen

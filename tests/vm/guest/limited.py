# SPDX-License-Identifier: MIT
"""R-TCP behind a policer of the kernel's: what it finds, what is sent again, and what is known to later connections.

50 Mbit/s and 40 ms, then a police action at FAR. Connections of the same size one after the other, each once the bucket
is full again: one of the kernel's own algorithm that R-TCP stands on, which for both versions of BBR is the first; the
first of R-TCP; a second one, which knows what the first has found; and two at a time. Under a table whose rows say
which they are. The recording of all of them is left in the shared folder.
"""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import inside
import tree

BASE = {"rtcp_cubic": "cubic", "rtcp_bbr": "bbr", "rtcp_bbr3": "bbr"}
POLICE = ("matchall", "action", "police")
LIMITED = ("limited_segments", "limited_retransmitted")
POLICED = ("cap_pkts", "mode", "limiter", "bucket_bytes", "limit_bytes_per_s", "state", "min_rtt_us", "sharing")


def police(rate: str, burst_bytes: int) -> None:
    """Drop what FAR is sent beyond a token bucket."""
    inside.run("modprobe", "-a", "act_police", "cls_matchall", "sch_ingress")
    inside.run(*inside.within("far", "tc", "qdisc", "add", "dev", "ccat3", "handle", "ffff:", "ingress"))
    words = (*POLICE, "rate", rate, "burst", str(burst_bytes), "conform-exceed", "drop")
    inside.run(*inside.within("far", "tc", "filter", "add", "dev", "ccat3", "parent", "ffff:", *words))


def free() -> None:
    """Take the policer away."""
    inside.run(*inside.within("far", "tc", "qdisc", "del", "dev", "ccat3", "ingress"))


def clients(folder: Path | None = None) -> list[dict[str, str]]:
    """The lines of `clients`."""
    found = []
    for line in tree.read("clients", folder).splitlines():
        address, *words = line.split()
        found.append({"address": address, **dict(word.split("=", 1) for word in words)})
    return found


def sent_again() -> int:
    """Packets that were sent again so far by all connections of this namespace, by the kernel's own count."""
    names, values = [
        line.split() for line in Path("/proc/net/snmp").read_text(encoding="ascii").splitlines() if line[:4] == "Tcp:"
    ]
    return int(dict(zip(names, values, strict=True))["RetransSegs"])


def download(job: dict[str, Any], cca: str, *, flows: int = 1) -> dict[str, Any]:
    """Send so much to FAR out of a full bucket: what was sent again, how long it took, what `flows` said meanwhile.

    again_capped_pkts: of what was sent again, that behind the first look at which every flow was capped. capped_s:
    when that was, since the first look that showed a flow. Both None where there was none.
    """
    time.sleep(job["limited"]["refill_s"])
    size = str(job["limited"]["bytes"] // flows)
    words = ("--cca", cca, "--bytes", size, "--seconds", "120", "--flows", str(flows))
    seen: list[dict[str, str]] = []
    began, found_s, capped, capped_s = sent_again(), None, None, None
    with inside.sending(*words) as sender:
        while sender.poll() is None:
            looked = tree.flows()
            now_s = time.monotonic()
            if found_s is None and looked:
                found_s = now_s
            if capped is None and found_s is not None and looked and all(flow["mode"] == "capped" for flow in looked):
                capped, capped_s = sent_again(), now_s - found_s
            for flow in looked:
                now = {name: flow[name] for name in (*POLICED, job["marker"])}
                if not seen or now != seen[-1]:
                    seen.append(now)
            time.sleep(0.1)
        lines = sender.stdout.read().splitlines() if sender.stdout else []
    ends = inside.ends([inside.json.loads(line) for line in lines])
    ended = sent_again()
    return {
        "acked_bytes": sum(int(str(end["acked_bytes"])) for end in ends),
        "again_pkts": ended - began,
        "again_capped_pkts": None if capped is None else ended - capped,
        "capped_s": capped_s,
        "seconds": max(float(str(end["at_s"])) for end in ends),
        "seen": seen,
    }


def shown(job: dict[str, Any]) -> str:
    """What `ss` says of a connection that is capped."""
    words = ("--cca", job["cca"], "--bytes", "2000000", "--seconds", "30")
    with inside.sending(*words) as sender:
        inside.wait_for(
            lambda: any(flow["mode"] == "capped" for flow in tree.flows()), timeout_s=10, what="a cap", of=sender
        )
        time.sleep(0.5)
        found = inside.run("ss", "-tin", "dst", inside.FAR)
    inside.wait_for(lambda: not tree.flows(), timeout_s=30, what="the flow's end")
    return found


def addresses(cca: str) -> dict[str, int]:
    """Connections by client while there is one to ::1, and two to 127.0.0.1, of which one is by IPv6."""
    with contextlib.ExitStack() as stack:
        listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        port = stack.enter_context(listener).getsockname()[1]
        for host in ("::1", "::ffff:127.0.0.1", "127.0.0.1"):
            client = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cca.encode())
            client.connect((host, port))
        return {client["address"]: int(client["connections"]) for client in clients()}


def observed(job: dict[str, Any]) -> dict[str, Any]:
    """A connection that R-TCP only watches (`act 0`), and what its client's line and the totals say afterwards."""
    tree.must("parameters", "act 0\n")
    tree.must("clients", "forget all\n")
    before = totals()
    found = download(job, job["cca"])
    inside.wait_for(lambda: not tree.flows(), timeout_s=30, what="the flow's end")
    tree.must("parameters", "clear\n")
    return {**found, "clients": clients(), "totals": {name: totals()[name] - before[name] for name in before}}


def totals() -> dict[str, int]:
    """R-TCP's sums in `status`."""
    lines = dict(line.split()[:2] for line in tree.read("status").splitlines())
    return {name: int(lines[name]) for name in ("limited_flows", "segments", "retransmitted", *LIMITED)}


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Each connection, and the clients behind it."""
    told = job["limited"]
    cca = job["cca"]
    with inside.chain(rate="50mbit", queue_bytes=200_000, delay_ms=40), inside.receiver():
        police(told["rate"], told["burst_bytes"])
        tree.must("ensemble", job["limited_table"])
        tree.must("recording", "start 200000\n")
        inside.run("modprobe", f"tcp_{BASE[cca]}", check=False)  # or it is built in
        found: dict[str, Any] = {"base": download(job, BASE[cca])}
        found["first"] = download(job, cca)
        inside.wait_for(lambda: not tree.flows(), timeout_s=30, what="the first connection's end")
        found["clients between"] = clients()
        found["second"] = download(job, cca)
        found["two at a time"] = download(job, cca, flows=2)
        inside.wait_for(lambda: not tree.flows(), timeout_s=30, what="the flows' end")
        found["ss"] = shown(job)
        found["clients"] = clients()
        found["addresses"] = addresses(cca)
        tree.take_recording(f"limited-{cca}.recording")
        found["rows"] = tree.rows()
        found["observed"] = observed(job)
        tree.must("ensemble", "clear\n")
    return found

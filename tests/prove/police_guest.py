# SPDX-License-Identifier: MIT
"""In the guest: files over a path of network namespaces that ends with a police action, and what of them was resent.

    python -I -S police_guest.py REPOSITORY

Runs what `runs.json` of the shared folder asks for, each in namespaces of its own, so that no client is known and each
bucket is full. A result is a line of `results.jsonl` there; at the end `log.json` has what the kernel logged.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, f"{sys.argv[1]}/tests/vm/guest")

import inside
import limited
import tree

NEAR = "near"
# What is kept of a flow's samples, four in a second.
SEEN = ("at_s", "total_retrans_pkts", "cwnd_pkts", "rtt_us", "min_rtt_us")
# An IP packet, and with Ethernet's header. tc counts the header where a frame leaves (the token bucket), and not where
# it came in (the police action): there it has been taken off.
PACKET_BYTES, FRAME_BYTES = 1500, 1514


@contextlib.contextmanager
def sender_of_its_own() -> Iterator[None]:
    """A namespace for the sender, gone with its flows and clients."""
    inside.run("ip", "netns", "add", NEAR)
    try:
        yield
    finally:
        inside.run("ip", "netns", "del", NEAR)


def in_frames(amount: float) -> int:
    """Of IP packets, as tc counts it."""
    return round(amount * FRAME_BYTES / PACKET_BYTES)


def send(run: dict[str, Any]) -> dict[str, Any]:
    """The file, out of a full bucket."""
    path = {
        "rate": f"{in_frames(run['rate_mbps'] * 1e6)}bit",
        "queue_bytes": run["buffer_pkts"] * FRAME_BYTES,
        "delay_ms": run["rtt_ms"],
        "namespace": NEAR,
    }
    words = ("--cca", run["kernel_cca"], "--bytes", str(run["size_bytes"]), "--seconds", "600")
    with sender_of_its_own(), inside.chain(**path), inside.receiver():
        limited.police(f"{round(run['limit_mbps'] * 1e6)}bit", run["bucket_bytes"])
        lines = inside.send(*words, namespace=NEAR)
        (end,) = inside.ends(lines)
    return {
        "case": run["case"],
        "acked_bytes": end["acked_bytes"],
        "seconds": end["at_s"],
        "resent_pkts": end["total_retrans_pkts"],
        "sent_pkts": end["segments_out"],
        "seen": [{name: line[name] for name in SEEN} for line in lines],
    }


def logged(kmsg: int) -> list[str]:
    """The kernel's messages since this was opened."""
    lines = []
    with contextlib.suppress(BlockingIOError):
        while True:
            lines.append(os.read(kmsg, 8192).decode(errors="replace").partition(";")[2].split("\n")[0])
    return lines


def main() -> None:
    """Load the modules and run."""
    inside.require_guest()
    told = json.loads((inside.SHARE / "runs.json").read_text())
    kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(kmsg, 0, os.SEEK_END)
    inside.run("modprobe", "-a", "veth", "sch_netem", "sch_tbf")
    tree.load_modules(told)
    for name in ("tcp_cubic", "tcp_bbr"):
        inside.run("modprobe", name, check=False)  # or it is built in
    with Path(inside.SHARE / "results.jsonl").open("a", encoding="ascii") as results:
        for run in told["runs"]:
            results.write(json.dumps(send(run)) + "\n")
            results.flush()
    # Last: a boot with it is over.
    (inside.SHARE / "log.json").write_text(json.dumps(logged(kmsg)))


main()

# SPDX-License-Identifier: MIT
"""A deep buffer that nothing overflows: what the receiver takes is all that bounds a window. CUBIC and ROCCET in turn.

The path is that of configs/scenarios/roccet-frozen.yaml, with its rate and its receiver's window scaled alike. What the
kernel offers of its receive buffer is about half of it, and is measured: the most that is under way.
"""

from __future__ import annotations

from typing import Any

import inside

FIELDS = ("at_s", "rtt_us", "min_rtt_us", "cwnd_pkts", "unacked_pkts", "acked_bytes", "total_retrans_pkts")


def main(job: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    """Samples of each flow, twice a second, by algorithm."""
    path = job["frozen"]
    found = {}
    for cca in ("cubic", job["cca"]):
        rate = f"{path['rate_mbps']}mbit"
        with inside.chain(rate=rate, queue_bytes=path["queue_bytes"], delay_ms=path["rtt_ms"]):
            offered = f"4096 {path['receive_buffer_bytes']} {path['receive_buffer_bytes']}"
            inside.run(*inside.within("far", "sysctl", "-qw", f"net.ipv4.tcp_rmem={offered}"))
            inside.run("sysctl", "-qw", "net.ipv4.tcp_wmem=4096 65536 16777216")
            with inside.receiver():
                lines = inside.send("--cca", cca, "--seconds", str(path["seconds"]), "--sample", "0.5")
        found[cca] = [{name: float(line[name]) for name in FIELDS} for line in lines]  # type: ignore[arg-type]
    return found

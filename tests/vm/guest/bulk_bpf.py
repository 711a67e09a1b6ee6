# SPDX-License-Identifier: MIT
"""Throughput of one bulk flow on an unlimited veth: each algorithm as a module, then in BPF, and the kernel's cubic.

A name belongs to the module or to BPF, so in each round one is unloaded before the other is loaded. As in bulk.py, the
guest's clock must be its own.
"""

from __future__ import annotations

from typing import Any

import bpf
import inside
import tree

KERNELS_CUBIC = "cubic"


def rate_mbps(name: str, job: dict[str, Any]) -> float:
    """Of a flow under a congestion control of this name."""
    lines = inside.send("--cca", name, "--seconds", str(job["bulk_s"]), "--sample", "1000")
    return float(inside.ends(lines)[0]["mbps"])  # type: ignore[arg-type]


def main(job: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Mbit/s by host and algorithm, round by round."""
    host = bpf.BpfHost(bpf.PROGRAM)
    tree.unload_modules(job)
    # A line's verifier may refuse R-TCP's object (docs/bpf.md).
    offered = {cca: name for cca, name in bpf.BPF_CCAS.items() if not bpf.refusal(host, cca)}
    for cca in offered:
        host.unload(cca)
    of_modules = [cca for cca in offered if cca in job["subjects"]]
    found: dict[str, dict[str, list[float]]] = {
        "kernel": {KERNELS_CUBIC: []},
        "module": {cca: [] for cca in of_modules},
        "bpf": {cca: [] for cca in offered},
    }
    try:
        with inside.chain(), inside.receiver():
            for _ in range(job["bulk_rounds"]):
                tree.load_modules(job)
                for cca in of_modules:
                    found["module"][cca].append(rate_mbps(cca, job))
                found["kernel"][KERNELS_CUBIC].append(rate_mbps(KERNELS_CUBIC, job))
                tree.unload_modules(job)
                for cca, name in offered.items():
                    host.load(cca)
                    found["bpf"][cca].append(rate_mbps(name, job))
                    host.unload(cca)
    finally:
        bpf.leave_nothing(host)
    return found

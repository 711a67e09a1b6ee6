# SPDX-License-Identifier: MIT
"""Throughput of one bulk flow on an unlimited veth: GR and the kernel's cubic, in turn.

The processor is the limit here. Sender and receiver have one each: left to the scheduler, both are on the same one
in some rounds and on two in others, which is a factor of two whatever the algorithm.
"""

from __future__ import annotations

import os
from typing import Any

import inside


def main(job: dict[str, Any]) -> dict[str, list[float]]:
    """Mbit/s of each, round by round; the first round, in which everything is loaded, is left out."""
    found: dict[str, list[float]] = {"gr": [], "cubic": []}
    everywhere = os.sched_getaffinity(0)
    here, there = sorted(everywhere)[:2]
    try:
        with inside.chain():
            os.sched_setaffinity(0, {there})
            with inside.receiver():
                os.sched_setaffinity(0, {here})
                for _ in range(1 + job["bulk_rounds"]):
                    for cca, rates in found.items():
                        lines = inside.send("--cca", cca, "--seconds", str(job["bulk_s"]), "--sample", "1000")
                        rates.append(float(inside.ends(lines)[0]["mbps"]))  # type: ignore[arg-type]
    finally:
        os.sched_setaffinity(0, everywhere)
    return {cca: rates[1:] for cca, rates in found.items()}

# SPDX-License-Identifier: MIT
"""Throughput of one bulk flow on an unlimited veth: GR and the kernel's cubic, in turn."""

from __future__ import annotations

from typing import Any

import inside


def main(job: dict[str, Any]) -> dict[str, list[float]]:
    """Mbit/s of each, round by round."""
    found: dict[str, list[float]] = {"gr": [], "cubic": []}
    with inside.chain(), inside.receiver():
        for _ in range(job["bulk_rounds"]):
            for cca, rates in found.items():
                last = inside.ends(inside.send("--cca", cca, "--seconds", str(job["bulk_s"]), "--sample", "1000"))[0]
                rates.append(float(last["mbps"]))  # type: ignore[arg-type]
    return found

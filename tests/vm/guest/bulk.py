# SPDX-License-Identifier: MIT
"""Throughput of one bulk flow on an unlimited veth: our algorithms and the kernel's cubic, in turn.

What limits is the processor, so this belongs into a guest with a clock of its own, where a rate is bytes by
instructions. By the machine's clock the rates of one algorithm differ by a third from round to round.
"""

from __future__ import annotations

from typing import Any

import inside


def main(job: dict[str, Any]) -> dict[str, list[float]]:
    """Mbit/s of each, round by round."""
    names = [its["name"] for its in job["subjects"].values()]
    found: dict[str, list[float]] = {name: [] for name in (*names, "cubic")}
    with inside.chain(), inside.receiver():
        for _ in range(job["bulk_rounds"]):
            for cca, rates in found.items():
                lines = inside.send("--cca", cca, "--seconds", str(job["bulk_s"]), "--sample", "1000")
                rates.append(float(inside.ends(lines)[0]["mbps"]))  # type: ignore[arg-type]
    return found

# SPDX-License-Identifier: MIT
"""Recordings of flows that pause between transfers, in which each start of a transfer has to be.

The kernel notifies a congestion control of it when a flow that has nothing in flight sends again. Pauses are shorter
than a retransmission timeout (a transfer starts) and longer (an idle restart).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import inside
import record
import tree

TRANSFER = b"\0" * 30_000


def transfer(connection: record.socket.socket) -> None:
    """Send a transfer and wait for its last ACK."""
    connection.sendall(TRANSFER)
    inside.wait_for(lambda: not record.unsent(connection), timeout_s=60, what="everything acknowledged")


def with_pauses(name: str, folder: Path, pauses_s: list[float]) -> int:
    """A flow's recording, left in the shared folder; its bytes."""
    tree.must("recording", "start 20000\n", folder)
    with record.connect(name) as connection:
        connection.settimeout(60)
        transfer(connection)
        for pause_s in pauses_s:
            time.sleep(pause_s)
            transfer(connection)
    tree.must("recording", "stop\n", folder)
    data = (folder / "recording").read_bytes()
    (inside.SHARE / f"pauses-{folder.name}.recording").write_bytes(data)
    tree.must("recording", "clear\n", folder)
    return len(data)


def main(job: dict[str, Any]) -> dict[str, int]:
    """The subject, and what is recorded beside it."""
    with inside.chain(), inside.receiver():
        record.back("delay", "20ms")
        found = {job["cca"]: with_pauses(job["cca"], tree.here(), job["transfer_pauses_s"])}
        for cca in job["recorded_beside"]:
            found[cca] = with_pauses(f"ccatune_{cca}", tree.PLACE / cca, job["transfer_pauses_s"])
        return found

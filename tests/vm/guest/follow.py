# SPDX-License-Identifier: MIT
"""Flows under a table: the row that each is on, the hold-back share, delay classes, and a table moved under them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import inside
import tree

FIELDS = (
    "local",
    "state",
    "class",
    "group",
    "epoch",
    "turn",
    "measured_bytes_per_s",
    "bytes_acked",
    "min_rtt_us",
)

# On rows, of a flow at each rate of the link.
LEAST_LOOKS = 3


def pick(flow: dict[str, str], job: dict[str, Any]) -> dict[str, Any]:
    """The fields that tests look at, numbers as such; `marker` is what tells rows apart."""
    found = {name: int(flow[name]) if flow[name].isdigit() else flow[name] for name in FIELDS}
    return {**found, "marker": int(flow[job["marker"]])}


def row_of(flow: dict[str, Any]) -> list[Any]:
    """What a turn of the epoch changes in a line."""
    return [flow.get(name) for name in ("epoch", "state", "turn", "measured_bytes_per_s", "marker")]


def looked_at(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The flow's line, twenty times a second for phase_s, and on until it was on three rows.

    It is given once for each epoch of the flow, when it has shown the same row twice: lines are read without a lock, so
    that one may show the new measurement beside the old state.
    """
    end_s = time.monotonic() + job["phase_s"]
    most_s = end_s + 20 * job["patience"]
    epoch, on_rows = -1, 0
    before: dict[str, Any] = {}
    while time.monotonic() < (end_s if on_rows >= LEAST_LOOKS else most_s):
        flow = pick(tree.flows()[0], job)
        if flow["epoch"] != epoch and row_of(flow) == row_of(before):
            epoch = flow["epoch"]
            on_rows += flow["state"] != "-"
            yield flow
        before = flow
        time.sleep(0.05)


def rows_follow_the_rate(job: dict[str, Any]) -> list[dict[str, Any]]:
    """One flow of each class over a link whose rate changes. Each look: the link's rate and the flow's line."""
    seen: list[dict[str, Any]] = []
    seconds = str(60 * job["patience"])
    tree.must("ensemble", job["tables"]["levels"])
    for priority, rates_mbit in job["rates_mbit"].items():
        inside.shape(rate="16mbit", queue_bytes=200_000)
        with inside.sending("--cca", job["name"], "--seconds", seconds, "--priority", priority) as sender:
            inside.wait_for(tree.flows, timeout_s=10, what="a flow", of=sender)
            for rate_mbit in rates_mbit:
                inside.shape(rate=f"{rate_mbit}mbit", queue_bytes=200_000)
                seen += [{"rate_mbit": rate_mbit, "priority": int(priority), **flow} for flow in looked_at(job)]
        inside.wait_for(lambda: not tree.flows(), timeout_s=10, what="the flow's end")
    return seen


def has_taken_the_moved_table(flow: dict[str, Any], job: dict[str, Any]) -> bool:
    """By its values; held back, a flow has none of any table."""
    return flow["marker"] >= job["moved_from"] or flow["group"] == "held_back"


def is_late(flow: dict[str, Any], epochs: dict[str, int], job: dict[str, Any]) -> bool:
    """On the old table in an epoch that began behind the move.

    Judged by the epochs in which it is seen without the new table, not by the first in which it is seen with it:
    between two looks of a guest that its host lets wait, several epochs may pass.
    """
    return not has_taken_the_moved_table(flow, job) and flow["epoch"] > epochs[flow["local"]]


def late_for_long(flows: list[dict[str, Any]], epochs: dict[str, int], job: dict[str, Any]) -> dict[str, int]:
    """The epochs by which flows are late, of those that still are a little later in the same epoch.

    Lines are read without a lock, so that one may show the new epoch beside the values of the old one.
    """
    late = {flow["local"]: flow["epoch"] for flow in flows if is_late(flow, epochs, job)}
    time.sleep(0.1)
    again = [pick(flow, job) for flow in tree.flows()]
    return {
        flow["local"]: flow["epoch"] - epochs[flow["local"]]
        for flow in again
        if is_late(flow, epochs, job) and late.get(flow["local"]) == flow["epoch"]
    }


def moved_under_many(job: dict[str, Any]) -> dict[str, Any]:
    """50 flows, some of them held back, while the table is replaced; and again while it is cleared."""
    seconds = str(100 * job["patience"])
    tree.must("ensemble", job["tables"]["held_back"])
    inside.shape(rate="40mbit", queue_bytes=400_000)
    words = ("--cca", job["name"], "--seconds", seconds, "--flows", "50", "--sample", "1000")
    with inside.sending(*words) as sender:
        inside.wait_for(
            lambda: sum(flow["state"] != "-" for flow in tree.flows()) == 50,
            timeout_s=80,
            what="50 flows on rows",
            of=sender,
        )
        before = [pick(flow, job) for flow in tree.flows()]
        moved_s = time.monotonic()
        tree.must("ensemble", job["tables"]["moved"])
        taken_s: dict[str, float] = {}
        # An epoch that is running now began before the move, or has taken the new table already.
        epochs = {flow["local"]: flow["epoch"] for flow in (pick(line, job) for line in tree.flows())}
        late: dict[str, int] = {}
        while len(taken_s) < 50 and time.monotonic() < moved_s + 20 * job["patience"]:
            flows = [pick(flow, job) for flow in tree.flows()]
            for flow in flows:
                if has_taken_the_moved_table(flow, job):
                    taken_s.setdefault(flow["local"], time.monotonic() - moved_s)
            if any(is_late(flow, epochs, job) for flow in flows):
                late |= late_for_long(flows, epochs, job)
            time.sleep(0.02)
        time.sleep(1.5)
        after = [pick(flow, job) for flow in tree.flows()]
        status, rows = tree.status(), tree.rows()
        tree.must("ensemble", "clear\n")
        inside.wait_for(
            lambda: all(flow["state"] == "-" for flow in tree.flows()),
            timeout_s=20,
            what="no rows after the clear",
            of=sender,
        )
        cleared = [pick(flow, job) for flow in tree.flows()]
    inside.wait_for(lambda: not tree.flows(), timeout_s=20, what="the flows' end")
    return {
        "before": before,
        "after": after,
        "cleared": cleared,
        "taken_s": sorted(taken_s.values()),
        "epochs_too_late": late,
        "status": status,
        "rows": rows,
    }


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Both."""
    with inside.chain(delay_ms=20), inside.receiver():
        return {"rows": rows_follow_the_rate(job), "many": moved_under_many(job)}

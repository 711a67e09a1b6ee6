# SPDX-License-Identifier: MIT
"""Rows that are recalled: an urgent table, and a clear, under flows whose epoch lasts an hour.

And two things beside it that need a path as well: the sums of a namespace that follows the initial table, and how a
socket reduces its window that has no memory for a flow.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

import inside
import life
import record
import tree

RATE, QUEUE_BYTES, DELAY_MS = "16mbit", 100_000, 40
# Long enough to look at a flow between a transmission and its ACK, and to see that nothing changes.
LONG_DELAY_MS, LOOK_S = 3000, 1.0
_INFO = struct.Struct("8x19I")  # struct tcp_info up to tcpi_snd_cwnd
_SSTHRESH, _CWND = 17, 18


def line_of(connection: socket.socket, job: dict[str, Any]) -> dict[str, int]:
    """The row of the connection's flow, -1 for none, and what tells rows apart."""
    flow = life.flow_of(connection)
    return {"state": int(flow["state"]) if flow["state"] != "-" else -1, "marker": int(flow[job["marker"]])}


def is_on_a_row(connection: socket.socket) -> bool:
    """Whether its flow is on any."""
    return life.flow_of(connection)["state"] != "-"


def push_until(connection: socket.socket, holds: Any, *, what: str) -> None:
    """Send until it holds."""

    def pushed() -> bool:
        record.push(connection, 0.1)
        return bool(holds())

    inside.wait_for(pushed, timeout_s=20, what=what)


def running(job: dict[str, Any], connection: socket.socket) -> dict[str, Any]:
    """What a flow that sends is on, from table to table."""
    tables, seen = job["tables"], {}
    push_until(connection, lambda: is_on_a_row(connection), what="a flow on a row")
    seen["on its row"] = line_of(connection, job)
    epoch = int(life.flow_of(connection)["epoch"])
    tree.must("ensemble", tables["slow_moved"])
    record.push(connection, LOOK_S)
    seen["a table that is not urgent"] = line_of(connection, job)
    seen["epochs begun by then"] = int(life.flow_of(connection)["epoch"]) - epoch
    before = seen["on its row"]["marker"]
    tree.must("ensemble", tables["slow_moved_urgent"])
    push_until(connection, lambda: line_of(connection, job)["marker"] != before, what="the urgent table")
    seen["the same, urgent"] = line_of(connection, job)
    tree.must("ensemble", "clear\n")
    push_until(connection, lambda: not is_on_a_row(connection), what="no row after the clear")
    seen["cleared"] = line_of(connection, job)
    tree.must("ensemble", tables["slow_back_urgent"])
    push_until(connection, lambda: is_on_a_row(connection), what="the urgent table after the clear")
    seen["urgent after a clear"] = line_of(connection, job)
    return seen


def silent(connection: socket.socket) -> dict[str, Any]:
    """A flow that rests while the table is cleared, and then sends over a path of a long delay."""
    inside.wait_for(lambda: not record.unsent(connection), timeout_s=60, what="everything acknowledged")
    inside.set_delay(LONG_DELAY_MS)
    tree.must("ensemble", "clear\n")
    time.sleep(LOOK_S)
    seen = {"while it is silent": "on a row" if is_on_a_row(connection) else "on no row"}
    connection.send(b"x")
    state = "on a row" if is_on_a_row(connection) else "on no row"
    seen["sent, not yet acknowledged"] = state
    seen["acknowledged by then"] = not record.unsent(connection)
    inside.set_delay(DELAY_MS)
    inside.wait_for(lambda: not record.unsent(connection), timeout_s=60, what="the last byte acknowledged")
    return seen


def recorded(job: dict[str, Any]) -> dict[str, Any]:
    """Both, and their recording for a replay on the host."""
    tree.must("ensemble", job["tables"]["slow"])
    with inside.chain(rate=job["slow_rate"] or RATE, queue_bytes=QUEUE_BYTES, delay_ms=DELAY_MS), inside.receiver():
        tree.must("recording", "start 60000\n")
        with record.connect(job["name"]) as connection:
            seen = {"running": running(job, connection), "silent": silent(connection)}
        tree.take_recording(f"recall-{job['cca']}.recording")
        inside.wait_for(lambda: not tree.flows(), timeout_s=20, what="the flow's end")
    return seen


def followers(job: dict[str, Any]) -> dict[str, Any]:
    """A flow of a namespace that follows the initial table: its row's sums, as the initial `status` shows them."""
    tree.must("ensemble", job["tables"]["levels"])
    inside.run("ip", "netns", "add", "box")
    try:
        inside.run(*inside.within("box", "ip", "link", "set", "lo", "up"))
        path = inside.chain(rate=job["slow_rate"] or RATE, queue_bytes=QUEUE_BYTES, delay_ms=DELAY_MS, namespace="box")
        words = ("--cca", job["name"], "--seconds", "60")
        with path, inside.receiver(), inside.sending(*words, namespace="box") as sender:
            inside.wait_for(
                lambda: any(int(row["epochs"]) for row in tree.rows()),
                timeout_s=60,
                what="an epoch on a row",
                of=sender,
            )
            rows = tree.rows() + tree.rows(kind="delay")
            here = str(tree.here())
            table = inside.run(*inside.within("box", "sed", "-n", "s/^table //p", f"{here}/status")).strip()
    finally:
        inside.run("ip", "netns", "del", "box", check=False)
    tree.must("ensemble", "clear\n")
    return {
        "table": table,
        "flows of the rows": sorted({row["flows"] for row in rows}),
        "own flows": tree.status()["flows"],
    }


def window_of(connection: socket.socket) -> tuple[int, int]:
    """cwnd and ssthresh, in packets."""
    info = _INFO.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    return info[_CWND], info[_SSTHRESH]


def plain() -> dict[str, Any]:
    """A socket beyond `max_flows` whose packets are all lost: its window before, and its threshold after."""
    tree.must("settings", "max_flows 0\n")
    try:
        with inside.chain(delay_ms=DELAY_MS), inside.receiver(), record.connect(tree.NAME) as connection:
            name = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            push_until(connection, lambda: window_of(connection)[0] >= 20, what="a window of 20 packets")
            inside.wait_for(lambda: not record.unsent(connection), timeout_s=60, what="everything acknowledged")
            inside.shape(rate="", queue_bytes=0, loss="loss 100%")
            connection.send(record.TRANSFER)
            # Without an ACK the window stays until the timeout, which is near; a silence may have lowered it before.
            windows = [window_of(connection)]
            inside.wait_for(
                lambda: windows.append(window_of(connection)) or windows[-1][1] != windows[0][1],
                timeout_s=20,
                what="a retransmission timeout",
            )
            seen = {"name": name, "cwnd_pkts": windows[0][0], "ssthresh_pkts": windows[-1][1]}
            life.close_at_once(connection)
    finally:
        tree.must("settings", "max_flows 1048576\n")
    return seen


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it."""
    return {**recorded(job), "followers": followers(job), "plain": plain()}

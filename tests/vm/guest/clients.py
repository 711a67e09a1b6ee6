# SPDX-License-Identifier: MIT
"""The file `clients` of R-TCP: who may use it, what a write forgets, and how it is answered."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import inside
import life
import record
import rights
import storm
import tree

_TX_STARTS = (4, 5)  # of enum cca_event_kind
_DATA = b"\0" * 3000


def read_without_the_capability() -> None:
    """In a child: read it as root without CAP_NET_ADMIN. Raises OSError."""
    rights.without_net_admin()
    tree.read("clients")


def known() -> dict[str, str]:
    """The clients' addresses, and the connections of each."""
    lines = (line.split() for line in tree.read("clients").splitlines())
    return {words[0]: next(w[12:] for w in words if w.startswith("connections=")) for words in lines}


def forgotten() -> dict[str, Any]:
    """A client with a connection and one without, and what each write is answered."""
    seen: dict[str, Any] = {}
    tree.write("clients", "forget all\n")
    with life.listening(cca="cubic") as listener, socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        gone = socket.socket(socket.AF_INET6)
        life.choose(gone, tree.NAME)
        gone.connect(other.getsockname())
        life.close_at_once(gone)
        one = life.connected(listener)
        one.send(_DATA)
        time.sleep(0.1)
        seen["known"] = known()
        texts = ("forget", "forget ", "forget 1.2.3", "forget all 1", "keep all", "forget ::1/63", "forget 127.0.0.1/8")
        seen["refused"] = [tree.write("clients", text) for text in texts]
        seen["not there"] = [tree.write("clients", f"forget {name}\n") for name in ("10.1.2.3", "2001:db8::1")]
        seen["all or none"] = tree.write("clients", "forget ::1\nforget 10.1.2.3\n"), known()
        seen["without connections"] = tree.write("clients", "forget ::1\n"), known()
        seen["with one"] = tree.write("clients", "forget 127.0.0.1\n"), known()
        one.send(_DATA)
        server = listener.accept()[0]
        seen["received"] = len(
            server.recv(len(_DATA), socket.MSG_WAITALL) + server.recv(len(_DATA), socket.MSG_WAITALL)
        )
        for end in (one, server):
            life.close_at_once(end)
    seen["all"] = tree.write("clients", "forget all\n"), known()
    return seen


def retransmitted() -> dict[str, int]:
    """Two sends of which the second is lost until its timeout: what was recorded of it."""
    inside.run("modprobe", "sch_netem")
    tree.must("recording", "start 2000\n")
    try:
        with life.listening(cca="cubic") as listener:
            one = life.connected(listener)
            server = listener.accept()[0]
            one.send(_DATA)
            server.recv(len(_DATA), socket.MSG_WAITALL)
            inside.wait_for(lambda: not record.unsent(one), timeout_s=10, what="the first one acknowledged")
            inside.run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "loss", "100%")
            one.send(_DATA)
            inside.wait_for(
                lambda: inside.traffic.tcp_info(one)["retransmits"], timeout_s=10, what="a retransmission timeout"
            )
            inside.run("tc", "qdisc", "del", "dev", "lo", "root")
            server.recv(len(_DATA), socket.MSG_WAITALL)
            for end in (one, server):
                life.close_at_once(end)
    finally:
        found = life.records(tree.take_recording())
    events = [record[1] for record in found if record[0] == life._EVENT]
    return {"starts": sum(kind in _TX_STARTS for kind in events), "timeouts": events.count(life._TIMEOUT)}


def connect_one_after_the_other(to: Path) -> None:
    """In a namespace of its own: whether the clients of two connections are the table's, by their lines in `flows`."""
    inside.run("ip", "link", "set", "lo", "up")
    shared = []
    with life.listening(cca="cubic") as listener:
        for pause_s in (1, 0):
            one = life.connected(listener)
            shared += [flow["shared"] for flow in tree.flows(tree.OWN_PLACE / tree.CCA)]
            time.sleep(pause_s)
            life.close_at_once(one)
    to.write_text(json.dumps(shared))


def first_use() -> list[str]:
    """A namespace's table of clients is made when its first connection begins."""
    to = Path("/tmp/first-use.json")
    inside.run("ip", "netns", "add", "first")
    try:
        os.waitpid(storm.in_child(lambda: connect_one_after_the_other(to), "first"), 0)
        return json.loads(to.read_text())  # type: ignore[no-any-return]
    finally:
        inside.run("ip", "netns", "del", "first")


def main(job: dict[str, Any]) -> dict[str, Any]:
    """All of it."""
    del job
    path = tree.here() / "clients"
    return {
        "mode": oct(path.stat().st_mode & 0o777),
        "root": tree.errno_of(lambda: os.open(path, os.O_RDWR)),
        "nobody": tree.errno_of(lambda: os.open(path, os.O_RDONLY), user=tree.NOBODY),
        "powerless": tree.errno_of(read_without_the_capability),
        "forgotten": forgotten(),
        "retransmitted": retransmitted(),
        "first use": first_use(),
    }

# SPDX-License-Identifier: MIT
"""Many connections alive at once, in a network namespace of their own, and what is left when they have gone.

Each sends over loopback, with Ethernet's MTU, to one of many addresses: R-TCP's clients, for half of which the
namespace's table has places. The near ends are under the algorithm, the far ones under cubic. Throughout, somebody
reads every file.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
from pathlib import Path
from typing import Any

import inside
import life
import limited
import storm
import tree

SPACE = "many"
ROUNDS = 3
BLOCK = b"\0" * 6000  # five segments
# One in so many is closed as a person would, and waits for a minute; the others end with a reset.
GENTLE = 16
TIMEOUT_S = 600.0  # a busy machine reads thousands of lines slowly
FILES = ("flows", "clients", "status", "parameters", "ensemble", "settings")
Pair = tuple[socket.socket, socket.socket]


def address(number: int) -> str:
    """Of loopback."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


def read_on(to: Path) -> None:
    """Read every file, once at least, until told to stop; leave how often, and the most flows that were seen."""
    folder = tree.OWN_PLACE / tree.CCA
    files = [name for name in FILES if (folder / name).exists()]
    most = times = 0
    while not (times and storm.told_to_stop()):
        texts = {name: tree.read(name, folder) for name in files}
        most = max(most, texts["flows"].count("\n"))
        times += 1
    to.write_text(json.dumps({"times": times, "most_flows": most}))


def connect(stack: contextlib.ExitStack, count: int, clients: int) -> list[Pair]:
    """So many connections, and their far ends."""
    with socket.create_server(("0.0.0.0", 0), backlog=64) as listener:
        life.choose(listener, "cubic")
        port = listener.getsockname()[1]
        pairs = []
        for number in range(count):
            near = stack.enter_context(socket.socket())
            life.choose(near, tree.NAME)
            near.connect((address(number % clients), port))
            pairs.append((near, stack.enter_context(listener.accept()[0])))
    return pairs


def send_all(pairs: list[Pair]) -> None:
    """All send, then all receive."""
    for near, _ in pairs:
        near.sendall(BLOCK)
    for _, far in pairs:
        missing = len(BLOCK)
        while missing:
            missing -= len(far.recv(missing))


def look(folder: Path) -> dict[str, Any]:
    """What the files say while all are there."""
    flows = tree.flows(folder)
    status = tree.status(folder)
    found: dict[str, Any] = {
        "flows": len(flows),
        "different": len({flow["local"] + flow["remote"] for flow in flows}),
        "least_acked": min(int(flow["bytes_acked"]) for flow in flows),
        "modes": sorted({flow["mode"] for flow in flows}),
        "status": status["flows"],
        "fallbacks": status["allocation_fallbacks"],
    }
    if (folder / "clients").exists():
        clients = limited.clients(folder)
        found["clients"] = len({client["address"] for client in clients})
        found["connections"] = sum(int(client["connections"]) for client in clients)
        found["shared"] = sum(flow["shared"] == "1" for flow in flows)
    return found


def crowd(count: int, clients: int, to: Path) -> None:
    """In the namespace: connect, send, look, end."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 256, 2 * count + 256))
    inside.run("ip", "link", "set", "lo", "mtu", "1500", "up")
    folder = tree.OWN_PLACE / tree.CCA
    reader = storm.reader(lambda: read_on(to.with_suffix(".read")), "")
    try:
        with contextlib.ExitStack() as stack:
            pairs = connect(stack, count, clients)
            for _ in range(ROUNDS):
                send_all(pairs)
            inside.wait_for(lambda: not unacked(folder), timeout_s=TIMEOUT_S, what="the last ACKs")
            found = look(folder)
            found["slab"] = storm.slab()
            for number, (near, _) in enumerate(pairs):
                if number % GENTLE:
                    life.close_at_once(near)
        inside.wait_for(lambda: tree.status(folder)["flows"] == "0", timeout_s=TIMEOUT_S, what="the flows' end")
    finally:
        os.kill(reader, signal.SIGTERM)
        found_by_reader = os.waitpid(reader, 0)[1]
    if (folder / "clients").exists():
        found["left"] = sum(int(client["connections"]) for client in limited.clients(folder))
    found["reader"] = {"status": found_by_reader, **json.loads(to.with_suffix(".read").read_text())}
    to.write_text(json.dumps(found))


def unacked(folder: Path) -> bool:
    """Whether a flow has sent what is not acknowledged yet."""
    return any(int(flow["bytes_acked"]) < ROUNDS * len(BLOCK) for flow in tree.flows(folder))


def run_in_space(count: int, clients: int) -> dict[str, Any]:
    """A crowd in a namespace that is gone behind it."""
    to = Path("/tmp/many.json")
    inside.run("ip", "netns", "add", SPACE)
    try:
        status = os.waitpid(storm.in_child(lambda: crowd(count, clients, to), SPACE), 0)[1]
        if status:
            raise RuntimeError(f"the crowd of {count} failed: {status}")
        return json.loads(to.read_text())  # type: ignore[no-any-return]
    finally:
        inside.run("ip", "netns", "del", SPACE)


def main(job: dict[str, Any]) -> dict[str, Any]:
    """A small crowd fills the caches; the kernel's memory around the large one is compared."""
    told = job["many"]
    run_in_space(told["connections"] // 20, told["clients"])
    before = storm.slab()
    found = run_in_space(told["connections"], told["clients"])
    users = Path(f"/sys/module/{job['module']}/refcnt")
    inside.wait_for(lambda: users.read_text() == "0\n", timeout_s=TIMEOUT_S, what="the module without users")
    after = storm.slab()
    # The kernel says so in its log where a cache that goes is not empty.
    tree.unload_modules(job)
    tree.load_modules(job)
    return {**found, "before": before, "after": after}

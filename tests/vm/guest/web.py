# SPDX-License-Identifier: MIT
"""A web server behind R-TCP and a client behind a police action: persistent connections, several at a time.

The server is http.server's, with HTTP/1.1; a client's connections stay open over all of its objects, with pauses
between them. The same client is served by the kernel's own algorithm that R-TCP stands on, then by R-TCP, which knows
nothing of it, then by R-TCP again, which does. The bucket is full when each visit begins. How much a visit sends again
depends on how its connections meet, so each kind is repeated, but for the one of R-TCP that does not know the client.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import inside
import traffic
import tree
from limited import BASE, clients, police
from web_client import body

NEAR, PORT = "10.9.1.1", 8080
CLIENT = Path(__file__).with_name("web_client.py")


class Objects(http.server.BaseHTTPRequestHandler):
    """Serves /NUMBER/BYTES, and notes what a connection has sent again when it ends."""

    protocol_version = "HTTP/1.1"
    resent: list[int]

    def do_GET(self) -> None:
        """One object."""
        number, size = (int(word) for word in self.path.strip("/").split("/"))
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(body(number, size))

    def finish(self) -> None:
        """The client has closed."""
        self.resent.append(traffic.tcp_info(self.connection)["total_retrans_pkts"])
        super().finish()

    def log_message(self, *_words: object) -> None:
        """Nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Listens with an algorithm, which its connections inherit."""

    daemon_threads = True

    def __init__(self, cca: str, handler: type[Objects]) -> None:
        self.cca = cca
        super().__init__((NEAR, PORT), handler)

    def server_bind(self) -> None:
        """Without looking up the host's name."""
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self.cca.encode())
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = NEAR, PORT


@contextlib.contextmanager
def serving(cca: str) -> Iterator[list[int]]:
    """The server; what its connections have sent again, each when it ends."""
    resent: list[int] = []
    with Server(cca, type("Handler", (Objects,), {"resent": resent})) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield resent
        finally:
            server.shutdown()
            thread.join()


def visit(cca: str, words: dict[str, Any]) -> dict[str, Any]:
    """A client in FAR loads all objects from a server with an algorithm."""
    time.sleep(words["fill_s"])
    with serving(cca) as resent:
        command = inside.within("far", *inside.PYTHON, CLIENT, NEAR, str(PORT), json.dumps(words))
        connections = json.loads(inside.run(*command))
        inside.wait_for(lambda: len(resent) == words["connections"], timeout_s=30, what="all connections' ends")
    return {"again_pkts": sum(resent), "connections": connections}


def visits(cca: str) -> list[tuple[str, str, int]]:
    """Kinds of visits in their order, the algorithm of each, and how many there are."""
    return [("base", BASE[cca], 2), ("unknown", cca, 1), ("known", cca, 3)]


def main(job: dict[str, Any]) -> dict[str, Any]:
    """What the visits gave, by kind, and the clients that R-TCP knows in the end."""
    told, cca = job["limited"], job["cca"]
    with inside.chain(rate="50mbit", queue_bytes=200_000, delay_ms=40):
        police(told["rate"], told["burst_bytes"])
        inside.run("modprobe", f"tcp_{BASE[cca]}", check=False)  # or it is built in
        found = {kind: [visit(algorithm, job["web"]) for _ in range(count)] for kind, algorithm, count in visits(cca)}
        inside.wait_for(lambda: not tree.flows(), timeout_s=30, what="the flows' end")
        return {**found, "clients": clients()}

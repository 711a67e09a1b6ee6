# SPDX-License-Identifier: MIT
"""A registry that gives recorded answers: to each request the next recorded answer of the same method and path."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Exchange = dict[str, Any]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args

    def _play(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        answers = self.server.answers[self.command, self.path.partition("?")[0]]  # type: ignore[attr-defined]
        played = answers.popleft() if answers else {"status": 404, "answer_headers": {}, "answer": {}}
        self.send_response(played["status"])
        for name, value in played["answer_headers"].items():
            self.send_header(name, value)
        if played["status"] not in {204, 304}:
            body = json.dumps(played["answer"]).encode()
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if played["status"] not in {204, 304}:
            self.wfile.write(body)

    do_GET = do_POST = _play  # noqa: N815 (the base's names)


@contextmanager
def playing(exchanges: list[Exchange]) -> Iterator[str]:
    """Serve the recorded answers on a free port, and give the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    answers: defaultdict[tuple[str, str], deque[Exchange]] = defaultdict(deque)
    for exchange in exchanges:
        answers[exchange["method"], exchange["path"].partition("?")[0]].append(exchange)
    server.answers = answers  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

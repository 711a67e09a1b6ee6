# SPDX-License-Identifier: MIT
"""Records what this version's agent and commands send, what its registry answers, and its databases.

    python -m tests.serving.compatibility.record [FOLDER]

Run it once before each change of the schema or of the protocol is released, and commit its files. They are named after
the schema's revision, and later versions are tested against them:

    schema-NNNN.json             every request and answer of scenario.py, in order
    schema-NNNN.sqlite.sql       a dump of the SQLite database afterwards
    schema-NNNN.postgresql.sql   a dump of the PostgreSQL database afterwards

A recorded kernel release is replaced, so that the files do not depend on the machine.
"""

from __future__ import annotations

import http.client
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from serving.database import Database, migrate
from serving.database.migrate import head_revision
from tests.serving.compatibility import scenario
from tests.serving.postgresql import PostgreSql, postgresql_binaries
from tests.serving.running import Running

KERNEL = "6.1.0-25-amd64"
_KEPT_REQUEST_HEADERS = frozenset({"if-none-match", "if-match", "idempotency-key", "user-agent", "accept"})
_KEPT_ANSWER_HEADERS = frozenset({"etag", "content-type", "cache-control", "location", "retry-after"})


class _Recorder(BaseHTTPRequestHandler):
    """A proxy that notes each exchange."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        to = http.client.HTTPConnection(urlsplit(self.server.registry_url).netloc)  # type: ignore[attr-defined]
        to.request(self.command, self.path, body=body or None, headers=dict(self.headers.items()))
        answer = to.getresponse()
        answered = answer.read()
        self.server.exchanges.append(  # type: ignore[attr-defined]
            {
                "by": "agent" if self.headers.get("User-Agent") == "ccatune-agent" else "operator",
                "method": self.command,
                "path": self.path,
                "headers": _kept(self.headers.items(), _KEPT_REQUEST_HEADERS),
                "body": json.loads(body) if body else None,
                "status": answer.status,
                "answer_headers": _kept(answer.getheaders(), _KEPT_ANSWER_HEADERS),
                "answer": json.loads(answered) if answered else None,
            }
        )
        self.send_response(answer.status)
        for name, value in _kept(answer.getheaders(), _KEPT_ANSWER_HEADERS).items():
            self.send_header(name, value)
        if answer.status not in {204, 304}:
            self.send_header("Content-Length", str(len(answered)))
        self.end_headers()
        self.wfile.write(answered)

    do_GET = do_POST = do_PUT = _pass_on  # noqa: N815 (the base's names)


def _kept(headers: Any, names: frozenset[str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers if name.lower() in names}


@contextmanager
def _proxy(url: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Recorder)
    server.registry_url = url  # type: ignore[attr-defined]
    server.exchanges = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", server.exchanges  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def play(url: str, folder: Path) -> dict[str, Any]:
    """Run the scenario on an empty database, and return the exchanges and what the agent found."""
    database = Database(url)
    try:
        migrate(database)
        with Running(database) as registry, _proxy(registry.url) as (proxy_url, exchanges):
            agent = scenario.AgentOfScenario(proxy_url, folder)
            operator = scenario.Operator(proxy_url)
            scenario.run(agent, lambda step: getattr(operator, step)())
    finally:
        database.close()
    text = json.dumps({"found": agent.found, "exchanges": exchanges}, ensure_ascii=False)
    recorded: dict[str, Any] = json.loads(text.replace(os.uname().release, KERNEL))
    return recorded


def dump_sqlite(file: Path) -> str:
    """Return the database as SQL text."""
    connection = sqlite3.connect(file)
    try:
        return "\n".join(connection.iterdump()).replace(os.uname().release, KERNEL) + "\n"
    finally:
        connection.close()


def dump_postgresql(url: str, binaries: Path) -> str:
    """Return the database as SQL text, without settings that other versions of PostgreSQL may not know."""
    done = subprocess.run(
        [str(binaries / "pg_dump"), "--inserts", "--no-owner", "--no-privileges", url],
        check=True,
        capture_output=True,
        text=True,
    )
    dropped = ("--", "SET ", "SELECT pg_catalog.set_config", "\\")
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith(dropped)]
    return "\n".join(lines).replace(os.uname().release, KERNEL) + "\n"


def record(into: Path) -> None:
    """Write the three files."""
    binaries = postgresql_binaries()
    if binaries is None:
        raise SystemExit("record: expected PostgreSQL's programs, found none; install postgresql")
    stem = f"schema-{head_revision()}"
    with tempfile.TemporaryDirectory(prefix="ccatune-record-") as name:
        folder = Path(name)
        recorded = play(f"sqlite:///{folder}/registry.db", folder)
        text = json.dumps(recorded, indent=1, ensure_ascii=False)
        (into / f"{stem}.json").write_text(f"{text}\n", encoding="utf-8")
        (into / f"{stem}.sqlite.sql").write_text(dump_sqlite(folder / "registry.db"), encoding="utf-8")
        server = PostgreSql(binaries)
        try:
            url = server.empty_database()
            play(url, folder / "second")
            (into / f"{stem}.postgresql.sql").write_text(dump_postgresql(url, binaries), encoding="utf-8")
        finally:
            server.stop()


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)

# SPDX-License-Identifier: MIT
"""A registry behind a real socket, in a thread of the test's own process."""

from __future__ import annotations

import threading

import httpx

from serving.database import Database
from serving.http.tls import RegistryTls
from serving.registry.server import bind, listen
from serving.settings import ServingSettings

CHAMPION = "/v1/channels/gr/champion"
# A wait that no test sits out.
LONG_S = 600


class Running:
    """A registry that answers on a port, in a thread of this process; without accounts, unless the test says so."""

    def __init__(self, database: Database, *, recheck_ms: int = 20, **changed: object) -> None:
        settings = ServingSettings.model_validate(
            {"registry": "lab", "port": 0, "open": True, "recheck_ms": recheck_ms, "max_wait_s": LONG_S, **changed}
        )
        self._socket = bind(settings)
        self._ready = threading.Event()
        self._server = listen(database, settings, self._socket, on_listening=self._listening)
        self._thread = threading.Thread(target=self._server.run_until_stopped)
        self.url = ""

    def __enter__(self) -> Running:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()
        self._socket.close()

    def stop(self) -> None:
        """Begin the orderly stop."""
        self._server.should_exit = True

    @property
    def tls(self) -> RegistryTls:
        """Its TLS."""
        assert self._server.tls is not None
        return self._server.tls

    def _listening(self, url: str, _context: object) -> None:
        self.url = url
        self._ready.set()

    def get(self, *, etag: str | None, wait: float, method: str = "GET") -> httpx.Response:
        """Ask for the champion."""
        headers = {} if etag is None else {"If-None-Match": etag}
        url = f"{self.url}{CHAMPION}"
        return httpx.request(method, url, params={"wait": wait}, headers=headers, timeout=LONG_S)


class Poll:
    """A long poll in a thread of its own."""

    def __init__(self, registry: Running, *, etag: str | None, method: str = "GET") -> None:
        self._thread = threading.Thread(target=self._run, args=(registry, etag, method))
        self._answers: list[httpx.Response] = []
        self._thread.start()

    def _run(self, registry: Running, etag: str | None, method: str) -> None:
        self._answers.append(registry.get(etag=etag, wait=LONG_S, method=method))

    def answer(self) -> httpx.Response:
        """The answer, when it comes."""
        self._thread.join()
        return self._answers[0]

    @property
    def is_held(self) -> bool:
        """Whether it has no answer yet, some time after it was asked."""
        self._thread.join(0.3)
        return self._thread.is_alive()

# SPDX-License-Identifier: MIT
"""A registry with people, and browsers that keep its cookies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from argon2 import PasswordHasher
from fastapi import FastAPI
from sqlalchemy import select

from serving.access.grants import Role, local_caller
from serving.database import AuditRow, Database
from serving.people import service
from serving.people.login import LogIns
from serving.people.passwords import Passwords
from serving.registry.app import create_app
from serving.settings import ServingSettings
from tests.serving.api import Clock

HOST = "registry.example"
PASSWORD = "correct horse battery staple"
_CSRF = re.compile(r'name="csrf_token" value="([^"]*)"')


class CountingHasher(PasswordHasher):
    """Argon2 with the least cost. It counts what it verifies."""

    def __init__(self, *, time_cost: int = 1) -> None:
        super().__init__(time_cost=time_cost, memory_cost=8, parallelism=1)
        self.n_verified = 0

    def verify(self, hash: str | bytes, password: str | bytes) -> bool:  # noqa: A002 - the base's name
        self.n_verified += 1
        return super().verify(hash, password)


@dataclass
class Seconds:
    """A monotonic clock that advances only when the test sets it."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Site:
    """An application with people, called without a socket in one event loop."""

    database: Database
    runner: asyncio.Runner
    settings: ServingSettings
    hasher: CountingHasher = field(default_factory=CountingHasher)
    clock: Clock = field(default_factory=Clock)
    seconds: Seconds = field(default_factory=Seconds)
    app: FastAPI = field(init=False)

    def __post_init__(self) -> None:
        self.app = self.new_process()

    def new_process(self) -> FastAPI:
        """Another application on the same database."""
        app = create_app(self.database, self.settings, clock=self.clock)
        context = app.state.context
        context.add(Passwords(context, hasher=self.hasher))
        context.add(LogIns(context, monotonic=self.seconds))
        return app

    def person(self, name: str = "alice", role: Role = "admin", *, password: str | None = PASSWORD) -> None:
        """Make a person, who has this password."""
        hashed = None if password is None else self.hasher.hash(password)
        with self.database.write() as session:
            service.add_person(
                session, name, role, password_hash=hashed, must_change=False, by=local_caller("init"), now=self.clock()
            )

    def browser(self, **options: Any) -> Browser:
        """A browser without cookies."""
        return Browser(self, **options)

    def logged_in(self, name: str = "alice", **options: Any) -> Browser:
        """A browser in which that person has logged in."""
        browser = self.browser(**options)
        assert browser.log_in(name).status_code == 303
        return browser

    def audit(self, action: str) -> list[tuple[str, str, str]]:
        """Actor, target and details of the rows of an action."""
        self.runner.run(self.app.state.context.part(LogIns).written())
        with self.database.read() as session:
            rows = session.scalars(select(AuditRow).where(AuditRow.action == action).order_by(AuditRow.id))
            return [(row.actor, row.target, row.details) for row in rows]


class Browser:
    """Sends requests as a browser does, and keeps the cookies."""

    def __init__(
        self,
        site: Site,
        *,
        scheme: str = "http",
        host: str = HOST,
        address: str = "192.0.2.1",
        app: FastAPI | None = None,
    ) -> None:
        self.site = site
        self.origin = f"{scheme}://{host}"
        # The cookie of the session, and its token.
        self._csrf: tuple[str | None, str] = (None, "")
        transport = httpx.ASGITransport(app=app or site.app, raise_app_exceptions=False, client=(address, 1))
        self.http = httpx.AsyncClient(transport=transport, base_url=self.origin, headers={"User-Agent": "Browser 1"})

    def send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request as it is."""
        return self.site.runner.run(self.http.request(method, path, **request))

    def get(self, path: str, **request: Any) -> httpx.Response:
        """Load a page."""
        return self.send("GET", path, **request)

    def post(
        self, path: str, *, csrf: str | None = None, headers: dict[str, str] | None = None, **fields: str
    ) -> httpx.Response:
        """Send a form of the site's own page."""
        token = self.csrf() if csrf is None else csrf
        headers = {"Origin": self.origin} if headers is None else headers
        return self.send("POST", path, data={"csrf_token": token, **fields}, headers=headers)

    def csrf(self) -> str:
        """The token of the session, as the page of the account has it; empty without a session."""
        if self._csrf[0] != self.cookie:
            found = _CSRF.search(self.get("/ui/account").text)
            self._csrf = (self.cookie, "" if found is None else found[1])
        return self._csrf[1]

    def log_in(self, name: str = "alice", password: str = PASSWORD, **fields: str) -> httpx.Response:
        """Log in by password."""
        return self.post("/ui/login", csrf="", name=name, password=password, **fields)

    @property
    def cookie(self) -> str | None:
        """The word of the session."""
        return next((cookie.value for cookie in self.http.cookies.jar if cookie.name.endswith("ccatune_session")), None)

    def is_in(self) -> bool:
        """Whether the session is accepted."""
        return self.get("/ui/account").status_code == 200

    def at_once(self, number: int, send: Callable[[httpx.AsyncClient], Any]) -> list[httpx.Response]:
        """Send several requests without waiting for an answer in between."""

        async def all_of_them() -> list[httpx.Response]:
            return list(await asyncio.gather(*(send(self.http) for _ in range(number))))

        return self.site.runner.run(all_of_them())

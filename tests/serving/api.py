# SPDX-License-Identifier: MIT
"""The registry's application as tests speak to it, and what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx
from fastapi import FastAPI

from kmod.ensemble import Ensemble
from serving.access.grants import Role, local_caller
from serving.database import Database, SessionRow
from serving.people import repository as people
from serving.people import sessions
from serving.people.service import add_person
from serving.people.sessions import Browser
from serving.registry.app import create_app
from serving.settings import ServingSettings
from tests.emulation.tables import like_trained

Part = TypeVar("Part")
# Runs a command line, and gives its exit status, output and errors.
Command = Callable[..., tuple[int, str, str]]

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def make_ensemble(number: int = 0, *, cca: str = "gr") -> Ensemble:
    """A small valid ensemble; each number gives another digest."""
    assert cca == "gr", "the one algorithm with tuned parameters"
    rows = tuple((60_000, 3_000, 12_000 + row) for row in range(8))
    return like_trained(rows, classes_ms=(50, 100), number=number)


@dataclass
class Clock:
    """A clock that advances only by `advance`."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, *, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


@dataclass
class Api:
    """The application, called without a socket; every call has an event loop of its own."""

    app: FastAPI
    database: Database
    clock: Clock = field(default_factory=Clock)
    token: str | None = None
    session: str | None = None
    csrf: str = ""

    def with_token(self, token: str | None) -> Api:
        """The same application, called with another token, or with none."""
        return replace(self, token=token)

    def part(self, kind: type[Part]) -> Part:
        """The part of the application's context of this type."""
        found: Part = self.app.state.context.part(kind)
        return found

    @property
    def headers(self) -> dict[str, str]:
        """What every request has: the token, or the cookie of a person's session. Browsers send the Origin of forms."""
        if self.session is not None:
            return {"Cookie": f"ccatune_session={self.session}", "Origin": "http://127.0.0.1"}
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def person(self, role: Role = "admin") -> Api:
        """The same application, called by a person of this role who has logged in to the pages."""
        now, browser = self.clock(), Browser(address=None, user_agent="", is_https=False)
        settings = self.app.state.context.settings
        with self.database.write() as session:
            row = people.person(session, role)
            row = row or add_person(session, role, role, by=local_caller("init"), now=now)
            new = sessions.begin(session, row, browser, settings=settings, now=now)
            csrf = session.get_one(SessionRow, new.session_id).csrf_token
        return replace(self, session=new.word, csrf=csrf)

    def other_process(self) -> Api:
        """An application of its own on the same database."""
        return replace(self, app=create_app(self.database, self.app.state.context.settings, clock=self.clock))

    @property
    def anonymous(self) -> Api:
        """The same application, called without a token."""
        return self.with_token(None)

    def new_token(self, *scopes: str, principal: str = "someone", **limits: Any) -> str:
        """Make a token with these scopes and limits; returns its text."""
        body = {"principal": principal, "kind": "ci", "scopes": scopes, **limits}
        answer = self.request("POST", "/v1/tokens", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def limited(self, *scopes: str, **limits: Any) -> Api:
        """The same application, called with a new token of these scopes and limits."""
        return self.with_token(self.new_token(*scopes, **limits))

    def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send one request."""
        return self.at_once(1, method, path, **request)[0]

    def client(self) -> httpx.AsyncClient:
        """A client of the application, for several requests in one event loop."""
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=self.headers)

    def at_once(self, number: int, method: str, path: str, **request: Any) -> list[httpx.Response]:
        """Send the same request several times, without waiting for an answer in between."""

        async def send() -> list[httpx.Response]:
            async with self.client() as client:
                return await asyncio.gather(*(client.request(method, path, **request) for _ in range(number)))

        return asyncio.run(send())

    def get(self, path: str, **request: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, **request)

    def publish(self, number: int = 0) -> str:
        """Publish the ensemble of that number; returns its digest."""
        answer = self.request("POST", "/v1/ensembles", json=make_ensemble(number).to_json())
        assert answer.status_code in {200, 201}, answer.text
        return str(answer.json()["digest"])

    def move(self, number: int = 0, *, channel: str = "champion", **body: Any) -> dict[str, Any]:
        """Publish the ensemble of that number and point the channel to it; returns the deployment."""
        answer = self.request("PUT", f"/v1/channels/gr/{channel}", json={"digest": self.publish(number), **body})
        assert answer.status_code in {200, 201}, answer.text
        return dict(answer.json())


def api_of(database: Database, **settings: Any) -> Api:
    """The application of an open database, with the time of this machine."""
    return Api(create_app(database, ServingSettings.model_validate(settings)), database)


def problem_of(answer: httpx.Response, *, status: int) -> dict[str, Any]:
    """The problem document of an answer, checked for what each must have."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = dict(answer.json())
    assert document["status"] == status
    assert document["type"].startswith("urn:ccatune:problem:")
    assert document["title"]
    assert document["detail"]
    return document

"""A registry for tests: its API without a socket, on SQLite and on a PostgreSQL that the tests start themselves."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from kmod.ensemble import Axis, DelayClass, Ensemble
from serving.app import create_app
from serving.database import Database, migrate
from serving.settings import ServingSettings
from tests.serving.postgresql import PostgreSql, postgresql_binaries

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def make_ensemble(number: int = 0, *, cca: str = "gr") -> Ensemble:
    """A small valid ensemble; each number gives another digest."""
    assert cca == "gr", "the one algorithm with tuned parameters"
    return Ensemble(
        cca=cca,
        epoch_ms=30_000,
        estimate_ms=250,
        epsilon_pct=25,
        classes=(DelayClass(95, 50_000), DelayClass(95, 100_000)),
        axes=(Axis("throughput_bytes_per_s", "linear", 125_000, 4),),
        columns=("bandwidth_window_us", "adaptation_interval_us", "delay_threshold_us"),
        rows=tuple((60_000, 3_000, 12_000 + row) for row in range(8)),
        provenance={"number": number},
    )


@dataclass
class Clock:
    """A clock that goes when it is told to."""

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

    def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send one request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, path, **request)

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


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSql]:
    """A PostgreSQL server for the session."""
    binaries = postgresql_binaries()
    if binaries is None:
        pytest.skip("not installed: postgresql")
    server = PostgreSql(binaries)
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., str]:
    """Makes databases of one kind: `new_database_url(migrated=False)` is an empty one."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql")
        return lambda *, migrated: server.new_database(migrated=migrated)
    numbers = itertools.count(1)

    def make(*, migrated: bool) -> str:
        url = f"sqlite:///{tmp_path}/test{next(numbers)}.db"
        if migrated:
            database = Database(url)
            migrate(database)
            database.close()
        return url

    return make


@pytest.fixture
def database_url(new_database_url: Callable[..., str]) -> str:
    """The address of a database with the current schema."""
    return new_database_url(migrated=True)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a database file that is not there yet."""
    return f"sqlite:///{tmp_path}/registry.db"


@pytest.fixture
def api(database_url: str) -> Iterator[Api]:
    """A registry named `lab` on an empty database."""
    clock = Clock()
    database = Database(database_url)
    settings = ServingSettings.model_validate({"database_url": database_url, "registry": "lab", "recheck_ms": 20})
    yield Api(create_app(database, settings, clock=clock), database, clock)
    database.close()


@pytest.fixture
def ensemble_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes the ensemble of a number to a file."""

    def write(number: int = 0) -> Path:
        path = tmp_path / f"ensemble{number}.json"
        make_ensemble(number).save(path)
        return path

    return write


@pytest.fixture
def ensemble_json() -> Callable[..., dict[str, Any]]:
    """The document of the ensemble of a number; a copy that may be spoilt."""
    return lambda number=0: json.loads(json.dumps(make_ensemble(number).to_json()))


@pytest.fixture
def problem() -> Callable[..., dict[str, Any]]:
    """Checks that an answer is a problem document of that status, and gives it."""
    return problem_of

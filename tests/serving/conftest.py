# SPDX-License-Identifier: MIT
"""A registry for tests: its API without a socket, on SQLite and on a PostgreSQL that the tests start themselves."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import _IncludedRouter
from starlette.routing import BaseRoute

import ccatune
from serving.access.grants import local_caller
from serving.access.service import create_admin_token
from serving.access.token_text import new_token
from serving.database import Database, migrate
from serving.registry.app import create_app
from serving.settings import ServingSettings
from tests.serving.api import Api, Clock, Command, make_ensemble, problem_of
from tests.serving.postgresql import PostgreSql, postgresql_binaries
from tests.serving.signing import Keys

STUDIES = Path(__file__).resolve().parents[2] / "configs" / "studies"


@pytest.fixture(scope="session", autouse=True)
def routes_are_built_once() -> Iterator[None]:
    """FastAPI builds the routes of each application anew, for most of the time of a brief test. Here all are equal."""
    build, built = _IncludedRouter._build_effective_context, dict[int, tuple[BaseRoute, Any]]()

    def once(self: _IncludedRouter, route: BaseRoute) -> Any:
        # The route is kept, so that no other one gets its id.
        if id(route) not in built:
            built[id(route)] = (route, build(self, route))
        return built[id(route)][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_IncludedRouter, "_build_effective_context", once)
        yield


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the current schema, which is copied."""
    path = tmp_path_factory.mktemp("template") / "registry.db"
    database = Database(f"sqlite:///{path}")
    migrate(database)
    database.close()
    return path


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
def new_database_url(request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path) -> Callable[..., str]:
    """Makes databases of one kind: `new_database_url(migrated=False)` is an empty one."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql")
        return lambda *, migrated: server.migrated_database() if migrated else server.empty_database()
    numbers = itertools.count(1)

    def make(*, migrated: bool) -> str:
        path = tmp_path / f"test{next(numbers)}.db"
        if migrated:
            shutil.copy(sqlite_template, path)
        return f"sqlite:///{path}"

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
    """A registry named `lab` on a database with one principal, called with a token that permits everything."""
    clock = Clock()
    database = Database(database_url)
    settings = ServingSettings.model_validate(
        {"database_url": database_url, "registry": "lab", "recheck_ms": 20, "studies": STUDIES, "datasets": ["made"]}
    )
    app = create_app(database, settings, clock=clock)
    new = new_token()
    with database.write() as session:
        create_admin_token(session, new, by=local_caller("init"), now=clock())
    yield Api(app, database, clock, new.text)
    app.state.context.close()
    database.close()


@pytest.fixture
def keys() -> Keys:
    """Generated keys of a root, of two publishers and of the registry."""
    return Keys()


@pytest.fixture
def run_command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command of `ccatune`; gives its exit status, output and errors."""

    def run(*words: object) -> tuple[int, str, str]:
        status = ccatune.run([*map(str, words)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


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

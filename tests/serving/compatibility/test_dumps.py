# SPDX-License-Identifier: MIT
"""Databases of earlier versions, by the dumps that those versions recorded"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, create_engine, select
from sqlalchemy.engine import Engine

from serving.database import Database, migrate, require_current_schema
from tests.serving.api import api_of, make_ensemble

pytestmark = pytest.mark.service

FOLDER = Path(__file__).parent
SCHEMAS = sorted({path.name.partition(".")[0] for path in FOLDER.glob("schema-*.sql")})
Rows = dict[str, list[dict[str, Any]]]


def load(url: str, schema: str) -> None:
    """Fill an empty database from a dump."""
    kind = url.partition(":")[0]
    text = (FOLDER / f"{schema}.{kind}.sql").read_text(encoding="utf-8")
    if kind == "sqlite":
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(text)
        connection.close()
        return
    engine = engine_of(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(text.replace("%", "%%"))
    engine.dispose()


def engine_of(url: str) -> Engine:
    """An engine without the types of this version's models."""
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def rows_of(url: str) -> Rows:
    """Every row of every table except the revision."""
    engine = engine_of(url)
    metadata = MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        found = {
            table.name: [dict(row) for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()]
            for table in metadata.sorted_tables
            if table.name != "alembic_version"
        }
    engine.dispose()
    return found


@pytest.fixture(params=SCHEMAS)
def old_url(request: pytest.FixtureRequest, new_database_url: Callable[..., str]) -> str:
    """The address of a database as an earlier version left it."""
    url = new_database_url(migrated=False)
    load(url, request.param)
    return url


def test_every_row_survives_the_migration(old_url):
    before = rows_of(old_url)
    assert all(before.values()), "the dump has rows of every table"
    database = Database(old_url)
    migrate(database)
    require_current_schema(database)
    database.close()
    after = rows_of(old_url)
    for table, rows in before.items():
        columns = rows[0].keys()
        assert [{name: row[name] for name in columns} for row in after[table]] == rows, table


def test_a_migrated_registry_answers_as_before_and_goes_on_with_the_next_serial(old_url):
    database = Database(old_url)
    migrate(database)
    api = api_of(database, open=True)
    offer = api.get("/v1/channels/gr/champion").json()
    assert (offer["registry"], offer["serial"], offer["digest"]) == ("lab", 4, make_ensemble(1).digest)
    assert offer["ensemble"] == make_ensemble(1).to_json()
    assert [row["agent_id"] for row in api.get("/v1/agents").json()["items"]] == ["server-1"]
    repeated = api.request(
        "PUT",
        "/v1/channels/gr/champion",
        json={"digest": make_ensemble(0).digest, "note": "first"},
        headers={"Idempotency-Key": "key-1"},
    )
    assert repeated.json()["serial"] == 1
    assert api.move(2)["serial"] == 5
    database.close()

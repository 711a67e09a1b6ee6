# SPDX-License-Identifier: MIT
"""Migrations"""

from __future__ import annotations

from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from serving.database import Base, Database, migrate, require_current_schema
from serving.database.migrate import head_revision
from serving.errors import DatabaseError
from tests.serving.threads import at_once

CHECKS = {"ck_deployments_hold_back_share", "ck_deployments_serial_from_one"}

pytestmark = pytest.mark.service


@pytest.fixture
def empty(new_database_url):
    """An open database without any table."""
    database = Database(new_database_url(migrated=False))
    yield database
    database.close()


def test_the_migrations_make_the_schema_of_the_models(empty):
    migrate(empty)
    with empty.connect_for_schema() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        checks = {check["name"] for check in inspect(connection).get_check_constraints("deployments")}
    assert checks == CHECKS


def test_a_migration_that_fails_leaves_the_schema_as_it_was(empty, monkeypatch):
    def fail(*_arguments, **_options):
        raise RuntimeError("cut")

    monkeypatch.setattr("alembic.operations.Operations.create_index", fail)
    with pytest.raises(RuntimeError, match="cut"):
        migrate(empty)
    with empty.read() as session:
        assert inspect(session.connection()).get_table_names() == []


def test_processes_that_start_at_once_migrate_once(new_database_url):
    url = new_database_url(migrated=False)
    databases = [Database(url, busy_timeout_ms=60_000) for _ in range(3)]
    at_once(partial(migrate, database) for database in databases)
    require_current_schema(databases[0])
    for database in databases:
        database.close()


def test_without_migrating_another_schema_is_refused(empty):
    with pytest.raises(DatabaseError, match="start once without --no-migrate"):
        require_current_schema(empty)


def test_a_schema_of_a_newer_version_is_refused(empty):
    migrate(empty)
    with empty.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseError, match="newer version"):
        migrate(empty)
    with pytest.raises(DatabaseError, match=f"expected schema {head_revision()}, got 9999"):
        require_current_schema(empty)


def test_a_database_out_of_reach_is_an_error_in_words():
    database = Database("postgresql://nobody@/nothing?host=/nonexistent")
    with pytest.raises(DatabaseError, match="expected it to answer"):
        migrate(database)

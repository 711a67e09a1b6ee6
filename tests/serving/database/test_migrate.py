# SPDX-License-Identifier: MIT
"""Migrations"""

from __future__ import annotations

import threading

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from serving.access.first import make_admin_token
from serving.app import create_app
from serving.database import Base, Database, migrate, require_current_schema
from serving.database.migrate import alembic_config, head_revision
from serving.errors import DatabaseError
from serving.settings import ServingSettings
from tests.serving.api import START, Api

CHECKS = {"ck_deployments_hold_back_share", "ck_deployments_serial_from_one"}

pytestmark = pytest.mark.service


@pytest.fixture
def empty(new_database_url):
    """An open database without any table."""
    database = Database(new_database_url(migrated=False))
    yield database
    database.close()


def tables(database):
    """Names of the tables."""
    with database.read() as session:
        return set(inspect(session.connection()).get_table_names())


def test_the_migrations_make_the_schema_of_the_models(empty):
    migrate(empty)
    with empty.connect_for_schema() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        checks = {check["name"] for check in inspect(connection).get_check_constraints("deployments")}
    assert checks == CHECKS


def test_migrating_again_changes_nothing(empty):
    migrate(empty)
    migrate(empty)
    require_current_schema(empty)


def test_down_and_up_again_gives_the_same_schema(empty):
    migrate(empty)
    before = tables(empty)
    with empty.connect_for_schema() as connection:
        command.downgrade(alembic_config(connection), "base")
    assert tables(empty) == {"alembic_version"}
    migrate(empty)
    assert tables(empty) == before


def urgent_of_moves(database):
    """Serial and mark of every move."""
    with database.read() as session:
        return session.execute(text("SELECT serial, urgent FROM deployments ORDER BY serial")).all()


def test_moves_from_before_the_mark_are_not_urgent_and_every_move_survives_the_way_back(empty):
    insert = "INSERT INTO deployments (channel_id, serial, digest, hold_back_permille, note, deployed_at"
    with empty.connect_for_schema() as connection:
        command.upgrade(alembic_config(connection), "0001")
    with empty.write() as session:
        session.execute(text(
            "INSERT INTO ensembles (id, digest, cca, n_states, n_classes, size_bytes, document, published_at) "
            "VALUES (1, 'd', 'gr', 1, 1, 2, '{}', '2026-03-01 12:00:00')"
        ))  # fmt: skip
        session.execute(text("INSERT INTO channels (id, cca, name, serial) VALUES (1, 'gr', 'champion', 2)"))
        session.execute(text(f"{insert}) VALUES (1, 1, 'd', 10, 'first', '2026-03-01 12:00:00')"))
    migrate(empty)
    assert urgent_of_moves(empty) == [(1, False)]
    with empty.write() as session:
        # As a process of the version before writes, and as this one does.
        session.execute(text(f"{insert}) VALUES (1, 2, 'd', 0, '', '2026-03-01 12:00:01')"))
        session.execute(text(f"{insert}, urgent) VALUES (1, 3, 'd', 0, 'back', '2026-03-01 12:00:02', true)"))
    assert urgent_of_moves(empty) == [(1, False), (2, False), (3, True)]
    with empty.connect_for_schema() as connection:
        command.downgrade(alembic_config(connection), "0001")
        found = inspect(connection)
        assert "urgent" not in {column["name"] for column in found.get_columns("deployments")}
        assert {check["name"] for check in found.get_check_constraints("deployments")} == CHECKS
    with empty.read() as session:
        rows = session.execute(text("SELECT serial, hold_back_permille, note FROM deployments ORDER BY serial")).all()
    assert rows == [(1, 10, "first"), (2, 0, ""), (3, 0, "back")]
    migrate(empty)
    assert urgent_of_moves(empty) == [(1, False), (2, False), (3, False)]


def test_a_migration_that_fails_leaves_the_schema_as_it_was(empty, monkeypatch):
    def fail(*_arguments, **_options):
        raise RuntimeError("cut")

    monkeypatch.setattr("alembic.operations.Operations.create_index", fail)
    with pytest.raises(RuntimeError, match="cut"):
        migrate(empty)
    assert tables(empty) == set()


def test_two_processes_that_start_at_once_migrate_once(new_database_url):
    url = new_database_url(migrated=False)
    databases = [Database(url, busy_timeout_ms=60_000) for _ in range(3)]
    errors: list[BaseException] = []

    def start(database: Database) -> None:
        try:
            migrate(database)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    require_current_schema(databases[0])
    for database in databases:
        database.close()


def test_without_migrating_an_old_schema_is_refused(empty):
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


def test_a_registry_from_before_the_accounts_keeps_its_rows_and_gets_its_first_token(new_database_url):
    url = new_database_url(migrated=False)
    database = Database(url)
    with database.connect_for_schema() as connection:
        command.upgrade(alembic_config(connection), "0003")
    values = {"digest": "sha256:" + "0" * 64}
    rows = (
        "INSERT INTO registry (id, name, created_at) VALUES (1, 'lab', '2026-03-01 12:00:00')",
        "INSERT INTO ensembles (id, digest, cca, n_states, n_classes, size_bytes, document, published_at) "
        "VALUES (1, :digest, 'gr', 1, 1, 2, '{}', '2026-03-01 12:00:00')",
        "INSERT INTO channels (id, cca, name, serial) VALUES (1, 'gr', 'champion', 1)",
        "INSERT INTO deployments (channel_id, serial, digest, hold_back_permille, note, deployed_at, idempotency_key) "
        "VALUES (1, 1, :digest, 10, 'first', '2026-03-01 12:00:00', 'k')",
    )
    with database.write() as session:
        for row in rows:
            session.execute(text(row), values if ":digest" in row else {})
    settings = ServingSettings.model_validate({"database_url": url})
    new, registry = make_admin_token(settings, is_first=True, token_file=None, now=START)
    assert registry == "lab"
    api = Api(create_app(database, settings), database, token=new.text)
    assert [row["note"] for row in api.get("/v1/channels/gr/champion/history").json()["items"]] == ["first"]
    assert {row["actor"] for row in api.get("/v1/audit").json()["items"]} == {"init"}
    with database.connect_for_schema() as connection:
        command.downgrade(alembic_config(connection), "0003")
    with database.read() as session:
        kept = session.execute(text("SELECT serial, note, idempotency_key FROM deployments")).all()
    database.close()
    assert kept == [(1, "first", "k")]

# SPDX-License-Identifier: MIT
"""The number of connections to the database"""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, text

from serving.database import Database, open_database
from serving.errors import DatabaseError
from serving.settings import ServingSettings
from tests.serving.threads import at_once

pytestmark = pytest.mark.service

# PostgreSQL's defaults: max_connections 100, of which superusers have 3.
POSTGRESQL_DEFAULT = 97


def test_three_processes_stay_below_the_default_of_postgresql():
    assert 3 * ServingSettings().database_connections < POSTGRESQL_DEFAULT


def test_many_threads_share_the_connections_of_a_process(postgresql):
    database = Database(postgresql.migrated_database(), max_connections=4)
    own = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"

    def look() -> int:
        with database.read() as session:
            count = int(session.scalar(text(own)) or 0)
            session.execute(text("SELECT pg_sleep(0.05)"))
            return count

    counts = at_once([look] * 20)
    database.close()
    assert max(counts) <= 4


def test_a_server_that_allows_fewer_connections_is_an_error_in_words(postgresql):
    settings = ServingSettings.model_validate(
        {"database_url": postgresql.migrated_database(), "database_connections": 500}
    )
    with pytest.raises(DatabaseError, match=r"expected 500 connections .* allows 97; raise its max_connections"):
        open_database(settings)


def test_a_server_without_a_free_connection_is_an_error_in_words(postgresql):
    url = postgresql.migrated_database()
    taker = Database(url, max_connections=200)
    taken: list[Connection] = []
    try:
        while len(taken) < POSTGRESQL_DEFAULT + 3:
            # The tests' user is a superuser, who may take the reserved connections as well.
            taken.append(taker._engine.connect())
        with pytest.raises(DatabaseError, match=r"too many clients .*lower database_connections"):
            open_database(ServingSettings.model_validate({"database_url": url}))
    finally:
        for connection in taken:
            connection.close()
        taker.close()

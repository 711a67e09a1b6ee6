# SPDX-License-Identifier: MIT
"""The registry's name"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from serving.database import Database, open_database, registry_name
from serving.errors import SettingsError
from serving.settings import ServingSettings
from tests.serving.threads import at_once

pytestmark = pytest.mark.service

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def database(database_url):
    """An open database of a registry without a name yet."""
    database = open_database(ServingSettings.model_validate({"database_url": database_url}))
    yield database
    database.close()


def test_the_first_start_writes_the_name_and_later_ones_read_it(database):
    assert registry_name(database, wanted="lab", now=NOW) == "lab"
    assert registry_name(database, wanted=None, now=NOW) == "lab"
    assert registry_name(database, wanted="lab", now=NOW) == "lab"


def test_another_name_is_refused_for_serials_were_given_out_under_the_first(database):
    registry_name(database, wanted="lab", now=NOW)
    with pytest.raises(SettingsError, match=r"expected 'lab'.*got 'other'"):
        registry_name(database, wanted="other", now=NOW)


def test_processes_that_start_at_once_agree_on_the_name(database_url):
    databases = [Database(database_url, busy_timeout_ms=60_000) for _ in range(3)]
    names = at_once(partial(registry_name, database, wanted=None, now=NOW) for database in databases)
    for database in databases:
        database.close()
    assert names == ["local"] * 3

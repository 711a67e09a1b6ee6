# SPDX-License-Identifier: MIT
"""A registry with people for tests"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from serving.database import Database
from serving.settings import ServingSettings
from tests.serving.people.browser import HOST, Site


@pytest.fixture
def site_settings() -> dict[str, Any]:
    """Further settings of the site."""
    return {}


@pytest.fixture
def site(database_url: str, site_settings: dict[str, Any]) -> Iterator[Site]:
    """A registry with the person alice, an administrator."""
    database = Database(database_url)
    settings = ServingSettings.model_validate({"registry": "lab", "host_names": (HOST,), **site_settings})
    with asyncio.Runner() as runner:
        made = Site(database, runner, settings)
        made.person()
        yield made
        made.app.state.context.close()
    database.close()

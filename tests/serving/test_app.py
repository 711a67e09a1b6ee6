# SPDX-License-Identifier: MIT
"""The application's own pages"""

from __future__ import annotations

import re

import pytest

# What is tested here is in front of any database: one kind is enough.
pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


def test_anonymous_callers_see_that_the_registry_lives_and_how_it_is_spoken_to(api):
    api = api.anonymous
    assert api.get("/healthz").json() == {"status": "ok", "registry": "lab"}
    assert api.get("/v1/docs").status_code == 200
    assert api.get("/v1/openapi.json").status_code == 200


def test_the_docs_page_shows_every_operation_and_loads_nothing_from_elsewhere(api):
    page = api.get("/v1/docs").text
    for path, operations in api.get("/v1/openapi.json").json()["paths"].items():
        for method in operations:
            assert f"<h2><b>{method.upper()}</b> {path}</h2>" in page
    assert "https://" not in page
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["/v1/openapi.json"]


def test_every_parameter_and_field_of_the_api_says_what_it_is(api):
    document = api.get("/v1/openapi.json").json()
    silent = [
        f"{method} {path} {parameter['name']}"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        for parameter in operation.get("parameters", [])
        if not (parameter.get("description") or parameter["schema"].get("description"))
    ]
    for name, schema in document["components"]["schemas"].items():
        if name in {"HTTPValidationError", "ValidationError"}:
            continue
        silent += [f"{name}.{part}" for part, said in schema["properties"].items() if not said.get("description")]
    assert silent == []

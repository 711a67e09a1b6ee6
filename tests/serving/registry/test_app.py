# SPDX-License-Identifier: MIT
"""The application's own pages"""

from __future__ import annotations

import asyncio
import re
from html import escape
from types import SimpleNamespace

import httpx
import pytest

# What is tested here is in front of any database: one kind is enough.
pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


def test_the_docs_page_shows_every_operation_and_loads_nothing_from_elsewhere(api):
    page = api.get("/v1/docs").text
    for path, operations in api.get("/v1/openapi.json").json()["paths"].items():
        for method in operations:
            assert f"<h2><b>{method.upper()}</b> {path}</h2>" in page
    assert "https://" not in page
    links = set(re.findall(r'(?:src|href)="([^"]*)"', page)) - {"openapi.json"}
    assert links == {f"#{name}" for name in re.findall(r'id="([^"]*)"', page)} & links
    for shown in ("Idempotency-Key", "Retry-After: 1", "ETag: ", "X-Request-Id: ", '"hold_back_permille": 0'):
        assert escape(shown) in page, shown


def test_pages_and_docs_are_reached_from_the_root_also_behind_a_prefix(api):
    async def proxy(scope, receive, send):
        """A reverse proxy that serves the registry below /lab."""
        await api.app({**scope, "path": scope["path"].removeprefix("/lab")}, receive, send)

    async def scenario():
        transport = httpx.ASGITransport(app=proxy)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", follow_redirects=True) as client:
            first = await client.get("/lab/")
            docs = await client.get(first.url.join(re.search(r'href="([^"]*/v1/docs)"', first.text)[1]))
            link = re.search(r'href="(openapi\.json)"', docs.text)
            document = await client.get(docs.url.join(link[1]))
            server = document.url.join(document.json()["servers"][0]["url"]).path
            return (first.url.path, docs.url.path, server), document.json()

    paths, document = asyncio.run(scenario())
    assert paths == ("/lab/ui/login", "/lab/v1/docs", "/lab/")
    assert "/v1/channels" in document["paths"]


@pytest.mark.parametrize("path", ["/v1/docs", "/v1/openapi.json"])
def test_the_pages_for_everyone_are_made_once_and_have_an_etag(api, monkeypatch, path):
    made = []

    def note(document):
        made.append(1)
        return str(document)

    monkeypatch.setattr("serving.registry.app.docs_html", note)
    monkeypatch.setattr("serving.registry.app.json", SimpleNamespace(dumps=note))
    first, second = api.anonymous.get(path), api.anonymous.get(path)
    assert (len(made), first.content) == (1, second.content)
    again = api.anonymous.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


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
        silent += [f"{name}.{part}" for part, said in schema["properties"].items() if not said.get("description")]
    assert silent == []

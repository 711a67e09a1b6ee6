# SPDX-License-Identifier: MIT
"""What is checked of a request before the application sees it"""

from __future__ import annotations

import asyncio
import json

import pytest

from serving.database import open_database
from serving.registry.app import create_app
from serving.settings import ServingSettings
from tests.serving.api import Api

LIMIT_BYTES = 2 * 1024 * 1024

# What is tested here is in front of any database: one kind is enough.
pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


def test_a_body_over_the_limit_is_a_413_problem(api, problem):
    answer = api.request("POST", "/v1/ensembles", content=b" " * (LIMIT_BYTES + 1))
    assert problem(answer, status=413)["detail"].startswith(f"expected a body of at most {LIMIT_BYTES} bytes")


def test_a_body_over_the_limit_that_hides_its_length_is_a_413_problem(api, problem):
    sent_bytes = 0

    async def endless():
        nonlocal sent_bytes
        while True:
            sent_bytes += 65536
            yield b" " * 65536

    problem(api.request("POST", "/v1/ensembles", content=endless()), status=413)
    assert sent_bytes <= LIMIT_BYTES + 65536


def test_a_body_at_the_limit_reaches_the_application(api, problem, ensemble_json):
    body = ensemble_json()
    body["padding"] = ""
    text = json.dumps(body)
    body["padding"] = "x" * (LIMIT_BYTES - len(text))
    answer = api.request(
        "POST", "/v1/ensembles", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert problem(answer, status=422)["type"].endswith("ensemble-invalid")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[", "localhost:80@evil.example"])
def test_a_request_to_another_name_is_refused_with_those_that_are_taken(api, problem, host):
    detail = problem(api.get("/v1/ensembles", headers={"Host": host}), status=403)["detail"]
    assert detail.startswith("expected a request to 127.0.0.1, ::1, localhost, got one to ")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_supervisors_and_prometheus_may_use_the_address_of_each_process_but_of_an_open_registry(api, problem, path):
    address = {"Host": "10.0.0.7:8640"}
    assert api.get(path, headers=address).status_code == 200
    opened = Api(create_app(api.database, ServingSettings(open=True), clock=api.clock), api.database)
    problem(opened.get(path, headers=address), status=403)
    opened.app.state.context.close()


@pytest.mark.parametrize("host", ["localhost", "localhost:8640", "127.0.0.1:1", "[::1]:8640"])
def test_a_request_to_this_machine_passes(api, host):
    assert api.get("/v1/ensembles", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9", "http://["])
def test_a_write_from_another_site_is_refused(api, problem, origin):
    api.move(0)
    answer = api.request("POST", "/v1/channels/gr/champion/rollback", headers={"Origin": origin})
    assert problem(answer, status=403)["type"].endswith("foreign-request")


def test_a_write_from_the_registrys_own_site_passes(api, ensemble_json):
    headers = {"Origin": "http://127.0.0.1"}
    assert api.request("POST", "/v1/ensembles", json=ensemble_json(), headers=headers).status_code == 201


def test_a_caller_that_goes_in_the_middle_of_its_body_does_no_harm(api):
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/v1/ensembles", "raw_path": b"/v1/ensembles", "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-length", b"9")], "http_version": "1.1", "scheme": "http",
        "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2), "root_path": "", "asgi": {"version": "3.0"},
    }  # fmt: skip
    asyncio.run(api.app(scope, receive, send))
    assert api.get("/v1/ensembles").json()["items"] == []


def names_taken(sqlite_url, **settings):
    """Which of three names a registry with those settings answers to."""
    given = ServingSettings.model_validate({"database_url": sqlite_url, **settings})
    database = open_database(given)
    api = Api(create_app(database, given), database)
    names = ["localhost", "registry.example", "other.example"]
    taken = [name for name in names if api.get("/v1/docs", headers={"Host": name}).status_code == 200]
    database.close()
    return taken


def test_a_proxys_name_is_taken_when_it_is_given(sqlite_url, new_database_url):
    del new_database_url
    assert names_taken(sqlite_url) == ["localhost"]
    assert names_taken(sqlite_url, host_names=["Registry.Example"]) == ["localhost", "registry.example"]


def test_an_insecure_bind_takes_every_name_unless_some_are_given(sqlite_url, new_database_url):
    del new_database_url
    assert len(names_taken(sqlite_url, insecure_bind=True)) == 3
    names = names_taken(sqlite_url, insecure_bind=True, host_names=["registry.example"])
    assert names == ["localhost", "registry.example"]

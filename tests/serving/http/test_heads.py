# SPDX-License-Identifier: MIT
"""HEAD is GET without the body"""

from __future__ import annotations

import http.client

import pytest

from tests.serving.running import CHAMPION, LONG_S, Poll, Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


def test_head_has_the_status_and_the_headers_of_every_get(api):
    digest = api.move(0)["digest"]
    named = {"digest": digest, "cca": "gr", "name": "champion", "agent_id": "a"}
    numbers = dict.fromkeys(("version", "root_version", "number", "job_id"), "1")
    paths = [
        path.format(**named, **numbers)
        for path, operations in api.app.openapi()["paths"].items()
        if "get" in operations
    ]
    assert len(paths) >= 7
    for path in [*paths, "/v1/docs", "/v1/openapi.json", f"{CHAMPION}?wait=0", "/v1/channels/gr/none"]:
        got, head = api.get(path), api.request("HEAD", path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        for name in ("content-type", "content-length", "etag", "cache-control"):
            assert head.headers.get(name) == got.headers.get(name), (path, name)


def test_head_of_a_path_without_a_get_is_405_without_a_body(api):
    answer = api.request("HEAD", "/v1/agents/a/reports")
    assert (answer.status_code, answer.content, answer.headers["allow"]) == (405, b"", "POST")
    assert api.request("POST", "/healthz").headers["allow"] == "GET, HEAD"


def test_refusal_of_a_foreign_head_has_no_body(api):
    answer = api.request("HEAD", "/v1/docs", headers={"Host": "elsewhere"})
    assert (answer.status_code, answer.content) == (403, b"")


def test_connection_is_usable_after_a_head_and_a_head_is_held_like_a_get(api):
    api.move(0)
    with Running(api.database) as registry:
        connection = http.client.HTTPConnection(registry.url.removeprefix("http://"), timeout=LONG_S)
        etag = None
        for method in ("HEAD", "GET", "HEAD"):
            connection.request(method, CHAMPION, headers={} if etag is None else {"If-None-Match": etag})
            answer = connection.getresponse()
            body = answer.read()
            assert (answer.status, bool(body)) == (200 if etag is None else 304, etag is None and method == "GET")
            etag = answer.headers["ETag"] if method == "GET" else None
        connection.close()
        poll = Poll(registry, etag=registry.get(etag=None, wait=0).headers["etag"], method="HEAD")
        assert poll.is_held
        api.move(1)
        assert poll.answer().status_code == 200

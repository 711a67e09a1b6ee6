# SPDX-License-Identifier: MIT
"""Errors as problem documents"""

from __future__ import annotations

import logging

import pytest
from sqlalchemy.exc import OperationalError

# What is tested here is in front of any database: one kind is enough.
pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


def test_an_unknown_path_is_a_404_problem(api, problem):
    problem(api.get("/v1/nothing"), status=404)


def test_a_method_that_is_not_there_is_a_405_problem_that_lists_the_others(api, problem):
    answer = api.request("DELETE", "/v1/ensembles")
    problem(answer, status=405)
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_a_fault_is_a_500_problem_without_its_inside(api, problem, monkeypatch):
    def fail(*_arguments, **_options):
        raise RuntimeError("the inside")

    monkeypatch.setattr("serving.ensembles.repository.page_newest_first", fail)
    document = problem(api.get("/v1/ensembles"), status=500)
    assert "inside" not in str(document)


def test_a_database_that_does_not_answer_is_a_503_problem_to_try_again(api, problem, monkeypatch, caplog):
    def fail(*_arguments, **_options):
        raise OperationalError("SELECT", {}, Exception("gone"))

    monkeypatch.setattr("serving.ensembles.repository.page_newest_first", fail)
    monkeypatch.setattr(api.database, "ping", fail)
    with caplog.at_level(logging.WARNING):
        answer = api.get("/v1/ensembles")
        problem(api.get("/healthz"), status=503)
    problem(answer, status=503)
    assert answer.headers["retry-after"] == "1"
    assert "gone" in caplog.text


@pytest.mark.parametrize(("kind", "is_told"), [("text/plain", True), ("application/json", False)])
def test_a_body_of_another_content_type_is_told_which_one_is_read(api, problem, kind, is_told):
    answer = api.request("POST", "/v1/ensembles", content="[]" if kind.endswith("json") else "{}",
                         headers={"Content-Type": kind})  # fmt: skip
    told = "Content-Type: application/json" in problem(answer, status=422)["detail"]
    assert told == is_told


@pytest.mark.parametrize(
    ("method", "path", "known"),
    [("GET", "/v1/agents?stat=Offline", "one of the parameters cca, channel, cursor, limit, state"),
     ("GET", "/v1/channels/gr/champion?wiat=1", "one of the parameters wait"),
     ("GET", "/v1/roots?limit=1", "no parameter"),
     ("POST", "/v1/agents/a/reports?x=1", "no parameter")],
)  # fmt: skip
def test_an_unknown_query_parameter_is_refused_with_the_known_ones(api, problem, method, path, known):
    body = {"json": {"cca": "gr", "channel": "champion", "state": "InSync"}} if method == "POST" else {}
    document = problem(api.request(method, path, **body), status=422)
    name = path.partition("?")[2].partition("=")[0]
    assert document["errors"] == [{"where": f"query.{name}", "message": f"expected {known}, got an unknown one"}]


def test_the_values_of_an_invalid_request_are_not_repeated(api, problem):
    answer = api.request("PUT", "/v1/channels/gr/champion", json={"digest": "secret-value", "note": 7})
    assert "secret-value" not in str(problem(answer, status=422))

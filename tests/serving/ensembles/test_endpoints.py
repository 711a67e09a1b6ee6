# SPDX-License-Identifier: MIT
"""/v1/ensembles"""

from __future__ import annotations

import json

import pytest

from kmod.ensemble import Ensemble

pytestmark = pytest.mark.service


def test_a_published_ensemble_is_given_back_with_its_digest(api, ensemble_json):
    document = ensemble_json(7)
    answer = api.request("POST", "/v1/ensembles", json=document)
    assert answer.status_code == 201
    assert answer.headers["location"] == f"ensembles/{document['digest']}"
    assert answer.json() == {
        "digest": document["digest"],
        "cca": "gr",
        "n_states": 4,
        "n_classes": 2,
        "size_bytes": len(json.dumps(document, separators=(",", ":"))),
        "published_at": "2026-03-01T12:00:00Z",
        "created": True,
    }
    given = api.get(str(answer.url.join(answer.headers["location"])))
    assert given.json() == document
    assert Ensemble.from_json(given.json()).digest == document["digest"]


def test_publishing_again_answers_200_and_changes_nothing(api, ensemble_json):
    first = api.request("POST", "/v1/ensembles", json=ensemble_json())
    api.clock.advance(seconds=60)
    again = api.request("POST", "/v1/ensembles", json=ensemble_json())
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {**first.json(), "created": False}
    assert len(api.get("/v1/ensembles").json()["items"]) == 1


def test_publishing_at_once_from_many_clients_makes_one_row(api, ensemble_json):
    answers = api.at_once(8, "POST", "/v1/ensembles", json=ensemble_json())
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len(api.get("/v1/ensembles").json()["items"]) == 1


def test_an_ensemble_may_be_kept_for_ever_by_its_etag(api):
    digest = api.publish()
    given = api.get(f"/v1/ensembles/{digest}")
    assert given.headers["etag"] == f'"{digest}"'
    assert "immutable" in given.headers["cache-control"]
    again = api.get(f"/v1/ensembles/{digest}", headers={"If-None-Match": given.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_list_is_newest_first_and_pages_to_its_end(api):
    digests = [api.publish(number) for number in range(5)]
    found, cursor = [], None
    while True:
        page = api.get("/v1/ensembles", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        found += [item["digest"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == digests[::-1]


def test_the_list_can_be_asked_for_one_algorithm(api):
    api.publish()
    assert len(api.get("/v1/ensembles", params={"cca": "gr"}).json()["items"]) == 1
    assert api.get("/v1/ensembles", params={"cca": "reno"}).json()["items"] == []


def spoilt(document, how):
    """The document with one thing wrong."""
    if how == "digest":
        document["provenance"]["number"] = 99
    elif how == "value out of range":
        document["rows"][0][0] = 1
    elif how == "row missing":
        document["rows"].pop()
    elif how == "unknown key":
        document["extra"] = 1
    elif how == "axis name no text":
        document["axes"][0]["name"] = [1]
    elif how == "infinite":
        document["provenance"]["number"] = float("inf")
    elif how == "another schema":
        document["schema"] = "ccatune-ensemble/2"
    return document


@pytest.mark.parametrize(
    "how",
    ["digest", "value out of range", "row missing", "unknown key", "axis name no text", "infinite", "another schema"],
)
def test_an_invalid_ensemble_is_refused_with_422_and_not_kept(api, ensemble_json, problem, how):
    body = json.dumps(spoilt(ensemble_json(), how))
    answer = api.request("POST", "/v1/ensembles", content=body, headers={"Content-Type": "application/json"})
    assert problem(answer, status=422)["type"].endswith("ensemble-invalid")
    assert api.get("/v1/ensembles").json()["items"] == []


NESTED = b'{"provenance":' + b"[" * 5_000 + b"]" * 5_000 + b"}"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000, NESTED])
def test_a_body_that_is_no_json_object_is_a_problem_and_not_a_fault(api, body):
    answer = api.request("POST", "/v1/ensembles", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 422}
    assert answer.headers["content-type"] == "application/problem+json"


def test_deeply_nested_provenance_is_refused(api, ensemble_json):
    document = json.dumps(ensemble_json()).replace('{"number": 0}', '{"number": ' + "[" * 3000 + "]" * 3000 + "}")
    answer = api.request("POST", "/v1/ensembles", content=document, headers={"Content-Type": "application/json"})
    assert answer.status_code in {400, 422}
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_unknown_digest_is_a_404_problem(api, problem):
    answer = api.get("/v1/ensembles/sha256:" + "0" * 64)
    assert problem(answer, status=404)["type"].endswith("ensemble-not-found")


@pytest.mark.parametrize("path", ["/v1/ensembles/sha256:0", "/v1/ensembles?cca=nothing", "/v1/ensembles?limit=0"])
def test_a_malformed_question_is_a_422_problem(api, problem, path):
    document = problem(api.get(path), status=422)
    assert document["errors"][0]["where"].split(".")[0] in {"path", "query"}

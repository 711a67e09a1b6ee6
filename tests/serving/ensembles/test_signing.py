# SPDX-License-Identifier: MIT
"""/v1/ensembles/{digest}/signatures, and documents with a signature inside"""

from __future__ import annotations

from functools import partial

import pytest

from serving.signatures import PrivateKey
from tests.serving.signing import add_root, add_signature, signature
from tests.serving.threads import at_once

pytestmark = pytest.mark.service


def key_ids(answer) -> list[str]:
    """The keys whose signatures an answer lists."""
    return [row["key_id"] for row in answer.json()["signatures"]]


def test_a_publishers_signature_is_stored_and_listed(api, keys):
    digest = api.publish()
    add_root(api, keys.envelope())
    answer = add_signature(api, digest, keys.publisher)
    assert (answer.status_code, answer.json()) == (201, {
        "digest": digest,
        "root_version": 1,
        "threshold": 1,
        "is_signed": True,
        "signatures": [{
            "key_id": keys.publisher.public.key_id,
            "counts": True,
            "added_at": "2026-03-01T12:00:00Z",
            "envelope": signature(digest, keys.publisher),
        }],
    })  # fmt: skip
    assert api.get(f"/v1/ensembles/{digest}/signatures").json() == answer.json()


def test_publishers_sign_one_after_the_other_until_they_are_enough(api, keys):
    digest = api.publish()
    add_root(api, keys.envelope(publishers=[keys.publisher, keys.second_publisher], threshold=2))
    assert add_signature(api, digest, keys.publisher).json()["is_signed"] is False
    both = add_signature(api, digest, keys.publisher, keys.second_publisher)
    assert (both.status_code, both.json()["is_signed"]) == (201, True)
    assert key_ids(both) == sorted(key.public.key_id for key in (keys.publisher, keys.second_publisher))


def test_uploading_a_signature_again_changes_nothing(api, keys):
    digest = api.publish()
    add_root(api, keys.envelope())
    first = add_signature(api, digest, keys.publisher)
    api.clock.advance(seconds=60)
    again = add_signature(api, digest, keys.publisher)
    assert (again.status_code, again.json()) == (200, first.json())


def test_without_a_root_document_no_signature_is_stored(api, keys, problem):
    digest = api.publish()
    assert problem(add_signature(api, digest, keys.publisher), status=409)["type"].endswith("root-missing")
    assert api.get(f"/v1/ensembles/{digest}/signatures").json() == {
        "digest": digest,
        "root_version": None,
        "threshold": None,
        "is_signed": False,
        "signatures": [],
    }


def test_only_valid_signatures_of_publishers_are_stored(api, keys, problem):
    digest = api.publish()
    add_root(api, keys.envelope())
    strangers = (keys.root, keys.registry, keys.second_publisher, PrivateKey.generate())
    assert problem(add_signature(api, digest, *strangers), status=422)["type"].endswith("signature-invalid")
    forged = signature(digest, PrivateKey.generate())
    forged["signatures"][0]["keyid"] = keys.publisher.public.key_id
    answer = api.request("POST", f"/v1/ensembles/{digest}/signatures", json=forged)
    assert problem(answer, status=422)["type"].endswith("signature-invalid")
    assert key_ids(add_signature(api, digest, keys.publisher, *strangers)) == [keys.publisher.public.key_id]


@pytest.mark.parametrize("other", ["digest", "algorithm"])
def test_a_signature_of_something_else_is_refused(api, keys, problem, other):
    digest = api.publish()
    add_root(api, keys.envelope())
    body = (
        signature(api.publish(1), keys.publisher)
        if other == "digest"
        else signature(digest, keys.publisher, cca="reno")
    )  # fmt: skip
    answer = api.request("POST", f"/v1/ensembles/{digest}/signatures", json=body)
    assert "expected one of gr sha256:" in problem(answer, status=422)["detail"]
    assert key_ids(api.get(f"/v1/ensembles/{digest}/signatures")) == []


def test_a_signature_of_an_ensemble_that_is_not_published_is_a_404_problem(api, keys, problem):
    add_root(api, keys.envelope())
    digest = f"sha256:{'0' * 64}"
    assert problem(add_signature(api, digest, keys.publisher), status=404)["type"].endswith("ensemble-not-found")
    assert problem(api.get(f"/v1/ensembles/{digest}/signatures"), status=404)["type"].endswith("ensemble-not-found")


def test_a_signature_counts_no_more_when_its_key_is_removed_and_again_when_it_returns(api, keys):
    digest = api.publish()
    path = f"/v1/ensembles/{digest}/signatures"
    add_root(api, keys.envelope())
    add_signature(api, digest, keys.publisher)
    found = []
    for version, publishers in ((2, [keys.second_publisher]), (3, [keys.publisher])):
        add_root(api, keys.envelope(version, publishers=publishers))
        listed = api.get(path).json()
        found.append((listed["is_signed"], listed["signatures"][0]["counts"]))
    assert found == [(False, False), (True, True)]


def test_one_signature_that_many_clients_upload_at_once_is_stored_once(api, keys):
    digest = api.publish()
    add_root(api, keys.envelope())
    answers = at_once([partial(add_signature, api, digest, keys.publisher)] * 6)
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    assert len(key_ids(api.get(f"/v1/ensembles/{digest}/signatures"))) == 1


@pytest.mark.parametrize("value", [None, "", {"key": "k1", "ed25519": "AA=="}])
def test_a_document_with_a_signature_inside_is_refused_for_nothing_would_verify_it(api, ensemble_json, problem, value):
    answer = api.request("POST", "/v1/ensembles", json={**ensemble_json(), "signature": value})
    document = problem(answer, status=422)
    assert document["type"].endswith("ensemble-invalid")
    assert "expected no key `signature`" in document["detail"]
    assert api.get("/v1/ensembles").json()["items"] == []

# SPDX-License-Identifier: MIT
"""/v1/roots"""

from __future__ import annotations

from functools import partial

import pytest

from serving.signatures import Envelope, PrivateKey, Root
from tests.serving.api import START, Api
from tests.serving.signing import Keys, add_root, envelope_of, signing_api
from tests.serving.threads import at_once

pytestmark = pytest.mark.service


def version_of(api: Api) -> int:
    """The version of the newest root document, as an agent reads it."""
    envelope = Envelope.parse(api.get("/v1/roots").content)
    return Root.from_payload(envelope.payload).version


def test_the_first_document_is_taken_as_it_is_and_served_unchanged(api, keys):
    assert api.get("/v1/roots").status_code == 404
    envelope = keys.envelope(3)
    answer = add_root(api, envelope)
    assert answer.status_code == 201
    assert answer.headers["location"] == "roots/3"
    assert answer.json() == {
        "registry": "lab",
        "version": 3,
        "expires": "2027-03-01T12:00:00Z",
        "added_at": "2026-03-01T12:00:00Z",
        "created": True,
    }
    assert api.get("/v1/roots").json() == api.get("/v1/roots/3").json() == envelope


def test_versions_follow_each_other_and_all_are_kept(api, keys):
    envelopes = [keys.envelope(version) for version in (1, 2, 3)]
    assert [add_root(api, envelope).status_code for envelope in envelopes] == [201, 201, 201]
    assert [api.get(f"/v1/roots/{version}").json() for version in (1, 2, 3)] == envelopes
    assert version_of(api) == 3


def test_uploading_a_document_again_changes_nothing(api, keys):
    first = add_root(api, keys.envelope())
    add_root(api, keys.envelope(2))
    api.clock.advance(seconds=60)
    again = add_root(api, keys.envelope())
    assert (again.status_code, again.json()) == (200, {**first.json(), "created": False})
    assert version_of(api) == 2


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_version_that_does_not_follow_the_newest_is_a_conflict(api, keys, problem, version):
    for known in (1, 2):
        add_root(api, keys.envelope(known))
    answer = add_root(api, keys.envelope(version, threshold=1, publishers=[keys.second_publisher]))
    document = problem(answer, status=409)
    assert document["type"].endswith("root-conflict")
    assert "expected version 3" in document["detail"]
    assert version_of(api) == 2


def test_a_successor_needs_the_root_keys_of_both_versions(api, keys, problem):
    add_root(api, keys.envelope())
    successor = Keys(publisher=keys.publisher, registry=keys.registry)
    document = successor.document(2)
    for signers in ([successor.root], [keys.root], [PrivateKey.generate()], []):
        answer = add_root(api, envelope_of(document, signers).to_json())
        assert problem(answer, status=422)["type"].endswith("signature-invalid")
    assert add_root(api, envelope_of(document, [keys.root, successor.root]).to_json()).status_code == 201


def test_a_first_document_that_does_not_sign_itself_is_refused(api, keys, problem):
    answer = add_root(api, envelope_of(keys.document(), [keys.publisher]).to_json())
    assert problem(answer, status=422)["type"].endswith("signature-invalid")
    assert api.get("/v1/roots").status_code == 404


def test_a_document_of_another_registry_is_refused(api, keys, problem):
    answer = add_root(api, keys.envelope(registry="other"))
    assert "expected a document of this registry, lab, got other" in problem(answer, status=422)["detail"]


def test_a_document_that_does_not_name_the_own_signing_key_is_refused(api, keys, problem, tmp_path):
    signing = signing_api(api, keys.registry, tmp_path)
    another = PrivateKey.generate()
    for version in (1, 2):
        answer = add_root(signing, keys.envelope(version, registry_keys=[another]))
        assert problem(answer, status=409)["type"].endswith("signing-key-not-named")
        assert add_root(signing, keys.envelope(version, registry_keys=[another, keys.registry])).status_code == 201


def test_an_expired_document_is_accepted_for_a_newer_one_may_have_to_follow(api, keys):
    assert add_root(api, keys.envelope(expires_s=int(START.timestamp()) - 1)).status_code == 201
    assert add_root(api, keys.envelope(2)).status_code == 201


@pytest.mark.parametrize(
    "changed",
    [
        {"payload": "%"},
        {"payload": "e30="},
        {"payload": "W1tb" * 9_000},
        {"payloadType": "application/vnd.ccatune.ensemble+json"},
        {"signatures": [{"keyid": "0" * 64, "sig": "A" * 88}]},
        {"signatures": [{"keyid": "k", "sig": "A" * 88}]},
        {"extra": 1},
    ],
)
def test_a_malformed_document_is_a_422_problem(api, keys, problem, changed):
    problem(add_root(api, {**keys.envelope(), **changed}), status=422)
    assert api.get("/v1/roots").status_code == 404


@pytest.mark.parametrize("version", ["0", "-1", "x", "9223372036854775808"])
def test_a_version_that_cannot_be_is_a_422_problem(api, problem, version):
    problem(api.get(f"/v1/roots/{version}"), status=422)


def test_a_version_that_was_not_uploaded_is_a_404_problem(api, keys, problem):
    add_root(api, keys.envelope())
    for path in ("/v1/roots/2", "/v1/roots/9223372036854775807"):
        assert problem(api.get(path), status=404)["type"].endswith("root-not-found")


def test_of_documents_that_are_uploaded_at_once_one_becomes_the_next_version(api, keys):
    add_root(api, keys.envelope())
    envelopes = [keys.envelope(2, publishers=[PrivateKey.generate()]) for _ in range(6)]
    answers = at_once(partial(add_root, api, envelope) for envelope in envelopes)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 5
    assert version_of(api) == 2

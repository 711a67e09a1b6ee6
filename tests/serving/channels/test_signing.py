# SPDX-License-Identifier: MIT
"""Signed offers, and moves that need signed ensembles"""

from __future__ import annotations

import hashlib
import logging
import threading

import pytest

from serving.access.grants import local_caller
from serving.channels.watch import ChannelWatch
from serving.roots import service as roots
from serving.signatures import Envelope, PrivateKey, Root, check_deployment, check_ensemble
from tests.serving.api import START, Api
from tests.serving.channels.test_offers import count_queries
from tests.serving.running import CHAMPION
from tests.serving.signing import Keys, add_root, add_signature, signing_api

pytestmark = pytest.mark.service

VALIDITY_S = 800
STEP_S = 100
START_S = int(START.timestamp())


@pytest.fixture
def signing(api, keys, tmp_path) -> Api:
    """A registry that signs, with a root document. The clock stands at the begin of a step."""
    assert START_S % STEP_S == 0
    signing = signing_api(api, keys.registry, tmp_path, signature_validity_s=VALIDITY_S)
    assert add_root(signing, keys.envelope()).status_code == 201
    return signing


def signed_move(api: Api, keys: Keys, number: int = 0) -> None:
    """Publish and sign the ensemble of that number, and point the champion to it."""
    add_signature(api, api.publish(number), keys.publisher)
    api.move(number)


def statement_in(answer, root: Root, *, now_s: float):
    """The verified statement of an offer's deployment signature."""
    envelope = Envelope.from_json(answer.json()["signatures"]["deployment"])
    return check_deployment(root, envelope, now_s=now_s)[0]


def test_an_offer_of_a_registry_without_keys_has_no_signatures(api):
    api.move()
    answer = api.get(CHAMPION)
    assert answer.json()["signatures"] == {"deployment": None, "ensemble": [], "root_version": None}
    assert answer.headers["etag"] == f'"lab:1:{answer.json()["digest"]}"'


def test_an_offer_is_signed_by_the_registry_and_by_the_publishers(signing, keys):
    digest = signing.publish()
    add_signature(signing, digest, keys.publisher)
    signing.request("PUT", CHAMPION, json={"digest": digest, "hold_back_permille": 100, "urgent": True})
    answer = signing.get(CHAMPION)
    root = keys.document()
    statement = statement_in(answer, root, now_s=START_S)
    assert statement.__dict__ == {
        "registry": "lab",
        "cca": "gr",
        "channel": "champion",
        "serial": 1,
        "digest": digest,
        "hold_back_permille": 100,
        "urgent": True,
        "issued_s": START_S,
        "expires_s": START_S + VALIDITY_S,
    }
    found = answer.json()["signatures"]
    envelopes = [Envelope.from_json(envelope) for envelope in found["ensemble"]]
    assert check_ensemble(root, envelopes, cca="gr", digest=digest) == {keys.publisher.public.key_id}
    assert found["root_version"] == 1


def test_a_signing_key_signs_without_a_root_document_too(api, keys, tmp_path):
    signing = signing_api(api, keys.registry, tmp_path)
    signing.move()
    found = signing.get(CHAMPION)
    assert statement_in(found, keys.document(), now_s=START_S).serial == 1
    assert found.json()["signatures"]["root_version"] is None


def test_a_signature_and_its_etag_are_the_same_during_a_step_and_new_after_it(signing, keys):
    signed_move(signing, keys)
    first = signing.get(CHAMPION)
    signing.clock.advance(seconds=STEP_S - 1)
    last = signing.get(CHAMPION)
    assert (last.content, last.headers["etag"]) == (first.content, first.headers["etag"])
    signing.clock.advance(seconds=1)
    known = {"If-None-Match": first.headers["etag"]}
    # The second request is a long poll, which a cached answer could end.
    for query in ({}, {"wait": 30}):
        after = signing.get(CHAMPION, params=query, headers=known)
        assert after.status_code == 200
        assert after.headers["etag"] != first.headers["etag"]
        assert statement_in(after, keys.document(), now_s=START_S).issued_s == START_S + STEP_S


def test_a_step_ends_the_wait_of_no_held_poll_and_the_next_poll_is_answered(signing, keys):
    signed_move(signing, keys)
    etag = signing.get(CHAMPION).headers["etag"]
    waits = []
    watch = signing.part(ChannelWatch)
    wait = watch.wait

    async def through_a_step(*arguments, **options):
        signing.clock.advance(seconds=STEP_S)
        waits.append(await wait(*arguments, **options))
        return waits[-1]

    watch.wait = through_a_step
    held = signing.get(CHAMPION, params={"wait": 0.2}, headers={"If-None-Match": etag})
    assert (waits, held.status_code, held.headers["etag"]) == ([False], 304, etag)
    assert signing.get(CHAMPION, params={"wait": 0.2}, headers={"If-None-Match": etag}).status_code == 200


def test_a_deployment_is_signed_once_a_step_and_not_once_a_request(signing, keys, monkeypatch):
    signed_move(signing, keys)
    signed = []
    sign = PrivateKey.sign
    monkeypatch.setattr(PrivateKey, "sign", lambda key, message: signed.append(message) or sign(key, message))
    for _ in range(3):
        for _ in range(5):
            signing.get(CHAMPION)
        signing.clock.advance(seconds=STEP_S)
    assert len(signed) == 3


def test_polls_with_the_current_signature_cost_no_query(signing, keys):
    signed_move(signing, keys)
    known = {"If-None-Match": signing.get(CHAMPION).headers["etag"]}
    statements = count_queries(signing.database, "deployments") + count_queries(signing.database, "roots")
    assert signing.get(CHAMPION, params={"wait": 0.01}, headers=known).status_code == 304
    assert statements == []


def test_processes_on_one_database_make_the_same_bytes(api, signing, keys, tmp_path):
    signed_move(signing, keys)
    other = signing_api(api, keys.registry, tmp_path, signature_validity_s=VALIDITY_S)
    for seconds in (0, STEP_S // 2, STEP_S):
        signing.clock.advance(seconds=seconds)
        answers = [one.get(CHAMPION) for one in (signing, other)]
        assert len({(answer.headers["etag"], hashlib.sha256(answer.content).hexdigest()) for answer in answers}) == 1


def polled_until_changed(api: Api, etag: str):
    """The first answer to a row of short polls that is no 304."""
    for _ in range(100):
        answer = api.get(CHAMPION, params={"wait": 0.1}, headers={"If-None-Match": etag})
        if answer.status_code != 304:
            return answer
    raise AssertionError("the offer did not change")


def test_a_new_root_document_of_this_process_reaches_the_very_next_poll(signing, keys):
    signed_move(signing, keys)
    etag = signing.get(CHAMPION).headers["etag"]
    add_root(signing, keys.envelope(2))
    answer = signing.get(CHAMPION, params={"wait": 30}, headers={"If-None-Match": etag})
    assert (answer.status_code, answer.json()["signatures"]["root_version"]) == (200, 2)


def test_a_new_root_document_or_signature_of_another_process_reaches_the_polls(api, signing, keys):
    signed_move(signing, keys)
    etag = signing.get(CHAMPION).headers["etag"]
    add_root(api, keys.envelope(2, publishers=[keys.publisher, keys.second_publisher]))
    second = polled_until_changed(signing, etag)
    assert second.json()["signatures"]["root_version"] == 2
    add_signature(api, second.json()["digest"], keys.second_publisher)
    third = polled_until_changed(signing, second.headers["etag"])
    assert len(third.json()["signatures"]["ensemble"]) == 2


def test_an_offer_contains_no_signature_of_a_removed_publisher(signing, keys):
    signed_move(signing, keys)
    add_root(signing, keys.envelope(2, publishers=[keys.second_publisher]))
    assert signing.get(CHAMPION).json()["signatures"]["ensemble"] == []


def test_a_key_that_a_newer_root_document_removes_signs_no_more(api, signing, keys, caplog):
    signed_move(signing, keys)
    # Another process of the same registry, which has no signing key, accepts the document.
    assert add_root(api, keys.envelope(2, registry_keys=[PrivateKey.generate()])).status_code == 201
    with caplog.at_level(logging.ERROR):
        answers = [signing.get(CHAMPION) for _ in range(3)]
    assert [answer.json()["signatures"]["deployment"] for answer in answers] == [None] * 3
    assert [record.message[:30] for record in caplog.records] == ["version 2 of the root document"]


def test_a_moves_condition_is_about_the_deployment_and_not_its_signatures(signing, keys):
    signed_move(signing, keys)
    digest = signing.publish()
    etag = signing.get(CHAMPION).headers["etag"]
    signing.clock.advance(seconds=STEP_S)
    body = {"digest": digest}
    held = signing.request("PUT", CHAMPION, json=body, headers={"If-None-Match": etag})
    moved = signing.request("PUT", CHAMPION, json=body, headers={"If-Match": etag})
    again = signing.request("PUT", CHAMPION, json=body, headers={"If-Match": etag})
    assert (held.status_code, moved.status_code, again.status_code) == (412, 200, 412)


def test_with_a_root_document_a_channel_moves_only_to_a_signed_ensemble(signing, keys, problem):
    digest = signing.publish()
    answer = signing.request("PUT", CHAMPION, json={"digest": digest})
    document = problem(answer, status=409)
    assert document["type"].endswith("ensemble-unsigned")
    assert "expected the signature of 1 of the 1 keys of the role publisher" in document["detail"]
    assert signing.get("/v1/channels").json()["items"] == []
    add_signature(signing, digest, keys.publisher)
    assert signing.request("PUT", CHAMPION, json={"digest": digest}).json()["serial"] == 1


def test_the_key_of_a_removed_publisher_permits_no_move_and_no_roll_back(signing, keys, problem):
    signed_move(signing, keys, 0)
    signed_move(signing, keys, 1)
    add_root(signing, keys.envelope(2, publishers=[keys.second_publisher]))
    refused = [
        signing.request("PUT", CHAMPION, json={"digest": signing.publish(0)}),
        signing.request("POST", f"{CHAMPION}/rollback"),
    ]
    assert {problem(answer, status=409)["type"] for answer in refused} == {"urn:ccatune:problem:ensemble-unsigned"}
    add_signature(signing, signing.publish(0), keys.second_publisher)
    assert signing.request("POST", f"{CHAMPION}/rollback").json()["serial"] == 3


def test_a_move_waits_for_a_root_document_that_is_being_added_and_obeys_it(signing, keys):
    signed_move(signing, keys)
    digest = signing.publish()
    codes: list[int] = []
    thread = threading.Thread(
        target=lambda: codes.append(signing.request("PUT", CHAMPION, json={"digest": digest}).status_code)
    )
    envelope = Envelope.from_json(keys.envelope(2, publishers=[]))
    with signing.database.write() as session:
        roots.add(session, envelope, registry="lab", signing_key_id=None, now=START, by=local_caller("root-owner"))
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
    thread.join()
    assert codes == [409]


def test_an_ensemble_that_was_deployed_before_the_first_root_document_stays_and_needs_a_signature_to_return(
    api, keys, problem
):
    digest = api.move(0)["digest"]
    add_root(api, keys.envelope())
    assert api.get(CHAMPION).json()["digest"] == digest
    signed_move(api, keys, 1)
    problem(api.request("POST", f"{CHAMPION}/rollback"), status=409)
    add_signature(api, digest, keys.publisher)
    assert api.request("POST", f"{CHAMPION}/rollback").json()["digest"] == digest


def test_an_expired_root_document_refuses_moves_while_offers_go_on_being_signed(signing, keys, problem):
    signed_move(signing, keys, 0)
    signed_move(signing, keys, 1)
    add_root(signing, keys.envelope(2, expires_s=START_S + STEP_S))
    signing.clock.advance(seconds=STEP_S)
    refused = [
        signing.request("PUT", CHAMPION, json={"digest": signing.publish(0)}),
        signing.request("POST", f"{CHAMPION}/rollback"),
    ]
    documents = [problem(answer, status=409) for answer in refused]
    assert {document["type"] for document in documents} == {"urn:ccatune:problem:root-expired"}
    assert "version 2 has expired" in documents[0]["detail"]
    answer = signing.get(CHAMPION)
    assert statement_in(answer, keys.document(), now_s=START_S).issued_s == START_S + STEP_S
    add_root(signing, keys.envelope(3))
    assert signing.request("POST", f"{CHAMPION}/rollback").status_code == 201


def test_a_repeated_request_is_answered_although_its_ensembles_publisher_is_removed(signing, keys):
    add_signature(signing, signing.publish(), keys.publisher)
    request = {"json": {"digest": signing.publish()}, "headers": {"Idempotency-Key": "k1"}}
    first = signing.request("PUT", CHAMPION, **request)
    add_root(signing, keys.envelope(2, publishers=[]))
    assert signing.request("PUT", CHAMPION, **request).json() == first.json()

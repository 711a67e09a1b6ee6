# SPDX-License-Identifier: MIT
"""Moves that a client sends again, because it received no answer"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.serving.running import CHAMPION

pytestmark = pytest.mark.service

KEY = {"Idempotency-Key": "3f1c"}


def serials(api) -> list[int]:
    """The channel's serials, newest first."""
    return [row["serial"] for row in api.get(f"{CHAMPION}/history").json()["items"]]


def test_a_roll_back_that_is_sent_again_goes_back_once(api):
    for number in range(3):
        api.move(number)
    first = api.request("POST", f"{CHAMPION}/rollback", headers=KEY)
    again = api.request("POST", f"{CHAMPION}/rollback", headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["etag"] == first.headers["etag"]
    assert first.json()["restores_serial"] == 2
    assert serials(api) == [4, 3, 2, 1]


def test_a_move_that_is_sent_again_has_its_first_answer_even_if_the_channel_has_gone_on(api):
    digest = api.publish(0)
    headers = {**KEY, "If-None-Match": "*"}
    first = api.request("PUT", CHAMPION, json={"digest": digest}, headers=headers)
    api.move(1)
    again = api.request("PUT", CHAMPION, json={"digest": digest}, headers=headers)
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    assert serials(api) == [2, 1]


def test_the_same_request_many_times_at_once_is_one_move(api):
    api.move(0)
    body = {"digest": api.publish(1)}
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: api.request("PUT", CHAMPION, json=body, headers=KEY), range(8)))
    assert {(answer.status_code, answer.json()["serial"]) for answer in answers} == {(200, 2)}


def test_a_key_of_another_request_is_a_422_problem(api, problem):
    api.move(0)
    assert api.request("PUT", CHAMPION, json={"digest": api.publish(1)}, headers=KEY).status_code == 200
    document = problem(api.request("POST", f"{CHAMPION}/rollback", headers=KEY), status=422)
    assert document["type"] == "urn:ccatune:problem:idempotency-key-reused"
    assert "that of serial 2" in document["detail"]


def test_a_key_counts_for_its_own_channel(api):
    digest = api.publish(0)
    for channel in ("champion", "canary"):
        answer = api.request("PUT", f"/v1/channels/gr/{channel}", json={"digest": digest}, headers=KEY)
        assert answer.json()["channel"] == channel


@pytest.mark.parametrize("key", ["", "two words", "k" * 129])
def test_an_invalid_key_is_a_422_problem(api, problem, key):
    problem(api.request("POST", f"{CHAMPION}/rollback", headers={"Idempotency-Key": key}), status=422)

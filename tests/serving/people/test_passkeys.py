# SPDX-License-Identifier: MIT
"""Passkeys, with an authenticator in software"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from serving.people.login import MAX_FROM_ADDRESS
from tests.serving.people.authenticator import Authenticator
from tests.serving.people.browser import HOST, PASSWORD

pytestmark = pytest.mark.service

sqlite_alone = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)

OPTIONS = "/ui/account/passkeys/options"
LOG_IN = "/ui/login/passkey"


def new_authenticator() -> Authenticator:
    """An authenticator in a browser that shows the site."""
    return Authenticator(origin=f"http://{HOST}", rp_id=HOST)


def creation_options(browser, password=PASSWORD) -> dict:
    """A challenge for a new passkey."""
    answer = browser.post(OPTIONS, password=password)
    assert answer.status_code == 200, answer.text
    return answer.json()


def add_passkey(browser, name="laptop") -> Authenticator:
    """Add a passkey to the account of the browser's person."""
    authenticator = new_authenticator()
    answer = browser.post("/ui/account/passkeys", credential=authenticator.create(creation_options(browser)), name=name)
    assert answer.status_code == 303, answer.text
    return authenticator


def challenge_of(browser) -> dict:
    """A challenge for a log-in."""
    answer = browser.post(f"{LOG_IN}/options", csrf="")
    assert answer.status_code == 200, answer.text
    return answer.json()


def log_in(browser, credential, **fields):
    """Log in by the answer of an authenticator."""
    return browser.post(LOG_IN, csrf="", credential=credential, **fields)


def test_a_person_logs_in_by_a_passkey_without_a_name(site):
    authenticator = add_passkey(site.logged_in())
    browser = site.browser()
    for number in range(2):
        answer = log_in(browser, authenticator.get(challenge_of(browser)), next="fleet")
        assert (answer.status_code, answer.headers["location"]) == (303, "../fleet")
        assert browser.is_in(), number
    assert site.audit("log-in")[-1] == ("alice", "person alice", '{"method": "passkey"}')
    assert site.audit("add-passkey") == [("alice", "person alice", '{"name": "laptop"}')]


@sqlite_alone
def test_an_answer_is_accepted_once_and_not_after_its_time(site):
    authenticator = add_passkey(site.logged_in())
    browser = site.browser()
    answer = authenticator.get(challenge_of(browser))
    assert log_in(browser, answer).status_code == 303
    assert log_in(site.browser(), answer).status_code == 401
    late = authenticator.get(challenge_of(browser))
    site.clock.advance(seconds=301)
    assert log_in(site.browser(), late).status_code == 401


@sqlite_alone
def test_a_challenge_is_used_up_by_an_answer_that_is_refused(site):
    authenticator = add_passkey(site.logged_in())
    options = challenge_of(site.browser())
    stranger = replace(new_authenticator(), credential_id=authenticator.credential_id)
    assert log_in(site.browser(), stranger.get(options)).status_code == 401
    assert log_in(site.browser(), authenticator.get(options)).status_code == 401


@sqlite_alone
def test_an_answer_of_another_page_key_or_user_is_refused(site):
    authenticator = add_passkey(site.logged_in())
    browser = site.browser()
    for _ in range(2):
        assert log_in(browser, authenticator.get(challenge_of(browser))).status_code == 303
    spoilt = ({"origin": "http://evil.example"}, {"origin": f"https://{HOST}"}, {"rp_id": "evil.example"},
              {"is_verified": False}, {"sign_count": 0}, {"credential_id": b"another"},
              {"key": new_authenticator().key})  # fmt: skip
    for changed in spoilt:
        answer = log_in(site.browser(), replace(authenticator, **changed).get(challenge_of(browser)))
        assert (answer.status_code, "expected a passkey of a person" in answer.text) == (401, True), changed


@sqlite_alone
def test_a_new_passkey_of_another_page_or_user_is_refused(site):
    browser = site.logged_in()
    for changed in ({"origin": "http://evil.example"}, {"rp_id": "evil.example"}, {"is_verified": False}):
        credential = replace(new_authenticator(), **changed).create(creation_options(browser))
        answer = browser.post("/ui/account/passkeys", credential=credential, name="x")
        assert (answer.status_code, "expected a passkey for this page" in answer.text) == (400, True), changed
    assert site.audit("add-passkey") == []


@sqlite_alone
def test_a_challenge_for_a_new_passkey_belongs_to_its_person_and_to_its_purpose(site):
    site.person("bob", "viewer")
    alice, bob = site.logged_in(), site.logged_in("bob")
    for options in (creation_options(alice), {**creation_options(bob), "challenge": challenge_of(bob)["challenge"]}):
        answer = bob.post("/ui/account/passkeys", credential=new_authenticator().create(options), name="x")
        assert (answer.status_code, "a challenge that is open" in answer.text) == (400, True)
    authenticator = add_passkey(alice)
    options = {**challenge_of(alice), "challenge": creation_options(alice)["challenge"]}
    assert log_in(site.browser(), authenticator.get(options)).status_code == 401


@sqlite_alone
def test_a_key_is_registered_once_and_its_answer_not_replayed(site):
    site.person("bob", "viewer")
    alice, bob = site.logged_in(), site.logged_in("bob")
    authenticator = new_authenticator()
    credential = authenticator.create(creation_options(alice))
    assert alice.post("/ui/account/passkeys", credential=credential, name="x").status_code == 303
    assert alice.post("/ui/account/passkeys", credential=credential, name="x").status_code == 400
    answer = bob.post("/ui/account/passkeys", credential=authenticator.create(creation_options(bob)), name="x")
    assert "expected a new passkey" in answer.text
    listed = creation_options(alice)["excludeCredentials"]
    assert [key["type"] for key in listed] == ["public-key"]


@sqlite_alone
def test_a_new_passkey_needs_the_password_again(site):
    browser = site.logged_in()
    for password in ("", "not the present one"):
        answer = browser.post(OPTIONS, password=password)
        assert (answer.status_code, "expected the present password" in answer.text) == (401, True)


@sqlite_alone
def test_passkeys_are_renamed_and_removed_by_their_person_alone(site):
    site.person("bob", "viewer")
    alice, bob = site.logged_in(), site.logged_in("bob")
    authenticator = add_passkey(alice, name='<img src=x onerror="x">')
    page = alice.get("/ui/account").text
    assert "&lt;img src=x onerror=&#34;x&#34;&gt;" in page
    assert "<img" not in page
    assert bob.post("/ui/account/passkeys/1/rename", name="mine").status_code == 404
    assert bob.post("/ui/account/passkeys/1/remove").status_code == 303
    assert alice.post("/ui/account/passkeys/1/rename", name="phone").status_code == 303
    assert alice.post("/ui/account/passkeys/1/rename", name="x" * 64).status_code == 422
    assert 'value="phone"' in alice.get("/ui/account").text
    assert log_in(site.browser(), authenticator.get(challenge_of(alice))).status_code == 303
    assert alice.post("/ui/account/passkeys/1/remove").status_code == 303
    assert log_in(site.browser(), authenticator.get(challenge_of(alice))).status_code == 401
    assert site.audit("remove-passkey") == [("alice", "person alice", '{"name": "phone"}')]


@sqlite_alone
def test_a_reset_account_keeps_no_passkey(site):
    site.person("bob", "viewer")
    authenticator = add_passkey(site.logged_in("bob"))
    assert site.logged_in().post("/ui/people/bob/reset").status_code == 200
    assert log_in(site.browser(), authenticator.get(challenge_of(site.browser()))).status_code == 401


@sqlite_alone
def test_malformed_answers_are_refused_and_counted(site):
    good = json.loads(add_passkey(site.logged_in()).get(challenge_of(site.browser())))
    malformed = ["", "x", "[]", "{}", "[" * 9000, json.dumps({"response": {"clientDataJSON": "é"}})]
    malformed += [json.dumps({**good, "response": {**good["response"], name: "AAAA"}}) for name in good["response"]]
    malformed += [json.dumps({**good, "rawId": 7})]
    assert len(malformed) == MAX_FROM_ADDRESS
    stranger = site.browser(address="198.51.100.1")
    for credential in malformed:
        assert log_in(stranger, credential).status_code in {400, 401}, credential[:80]
    assert log_in(stranger, json.dumps(good)).status_code == 429

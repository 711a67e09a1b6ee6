# SPDX-License-Identifier: MIT
"""Log-in by password, and attacks on it"""

from __future__ import annotations

import json

import pytest

from serving.errors import PasswordRefusedError
from serving.people.login import MAX_FOR_NAME, MAX_FROM_ADDRESS, WINDOW_S
from serving.people.passwords import require_good
from tests.serving.people.browser import PASSWORD, CountingHasher

pytestmark = pytest.mark.service

sqlite_alone = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)

WRONG = "another horse battery staple"


@sqlite_alone
def test_a_person_logs_in_and_the_page_is_shown_that_was_wanted(site):
    browser = site.browser()
    sent = browser.get("/ui/fleet?channel=gr%2Fchampion&name=a")
    assert (sent.status_code, sent.headers["location"]) == (
        303,
        "./login?next=fleet%3Fchannel%3Dgr%252Fchampion%26name%3Da",
    )
    form = browser.get("/ui/login?next=fleet%3Fchannel%3Dgr%252Fchampion")
    assert 'name="next" value="fleet?channel=gr%2Fchampion"' in form.text
    answer = browser.log_in(next="fleet?channel=gr%2Fchampion")
    assert (answer.status_code, answer.headers["location"]) == (303, "./fleet?channel=gr%2Fchampion")
    assert browser.is_in()
    assert site.audit("log-in") == [("alice", "person alice", '{"method": "password"}')]


@sqlite_alone
def test_cookies_are_hidden_from_scripts_and_other_sites_and_tied_to_the_host_with_tls(site):
    for scheme, prefix, secure in (("http", "", ""), ("https", "__Host-", "; Secure")):
        cookies = site.browser(scheme=scheme).log_in().headers.get_list("set-cookie")
        assert [cookie.partition("=")[0] for cookie in cookies] == [
            f"{prefix}ccatune_session",
            f"{prefix}ccatune_device",
        ]
        assert all(cookie.endswith(f"; HttpOnly; Path=/; SameSite=lax{secure}") for cookie in
                   (cookie.replace("; Max-Age=7776000", "") for cookie in cookies))  # fmt: skip


@sqlite_alone
def test_a_session_that_was_begun_without_tls_is_not_accepted_with_it(site):
    word = site.logged_in().cookie
    secure = site.browser(scheme="https")
    assert secure.get("/ui/account", headers={"Cookie": f"ccatune_session={word}"}).status_code == 303
    assert secure.get("/ui/account", headers={"Cookie": f"__Host-ccatune_session={word}"}).status_code == 200


@sqlite_alone
def test_no_answer_and_no_time_tells_which_people_there_are(site):
    site.person("fresh", password=None)
    site.person("gone")
    site.logged_in().post("/ui/people/gone/disable")
    answers = []
    tries = [
        ("alice", WRONG),
        ("nobody", WRONG),
        ("fresh", WRONG),
        ("gone", PASSWORD),
        ("ali\x00ce", WRONG),
        ("", WRONG),
    ]
    for number, (name, password) in enumerate(tries):
        before = site.hasher.n_verified
        answer = site.browser(address=f"192.0.2.{number}").log_in(name, password)
        assert site.hasher.n_verified == before + 1, "a hash is computed for each name"
        answers.append((answer.status_code, answer.text.replace(f'value="{name}"', 'value=""'), sorted(answer.headers)))
    assert answers == [answers[0]] * len(tries)
    assert answers[0][0] == 401


@sqlite_alone
def test_a_session_that_the_browser_brought_along_is_not_the_one_it_gets(site):
    attacker = site.logged_in()
    victim = site.browser()
    for planted in (attacker.cookie, "chosen"):
        answer = victim.send(
            "POST", "/ui/login", data={"name": "alice", "password": PASSWORD},
            headers={"Origin": victim.origin, "Cookie": f"ccatune_session={planted}"},
        )  # fmt: skip
        assert answer.status_code == 303
        assert victim.cookie not in {planted, None}
    # The session of the planted cookie ended with the log-in.
    assert not attacker.is_in()
    assert victim.is_in()


UNSAFE = (
    "//evil.example", "https://evil.example", "https:evil.example", "/\\evil.example", "\\\\evil.example",
    "/ui/../v1/docs", "../v1/docs", "%2e%2e/v1/docs", "a/%2E%2e/%2e%2E/x", "a/..", "javascript:alert(1)",
    "%2F%2Fevil.example", "a//b", "x\r\nSet-Cookie: a=b", "a\tb", "%5c%5cevil", "x" * 1001, "é",
    "http:%2f%2fevil.example",
)  # fmt: skip


@sqlite_alone
def test_a_log_in_leads_to_no_other_place_than_a_page(site):
    browser = site.browser()
    for place in UNSAFE:
        location = browser.log_in(next=place).headers["location"]
        assert location.startswith("./"), place
        # Browsers resolve dots, also encoded ones, and take backslashes for slashes.
        assert ".." not in location.lower().replace("%2e", "."), place
        assert "\\" not in location.lower().replace("%5c", "\\"), place
        assert "//" not in location.lower().replace("%2f", "/"), place
    for place in ("", "fleet", "channels/gr/champion?x=1&y=%2F", "agents/a:b"):
        assert browser.log_in(next=place).headers["location"] == f"./{place}"


@sqlite_alone
def test_writes_and_parts_of_pages_without_a_session_are_refused(site, problem):
    browser = site.browser()
    problem(browser.post("/ui/account/password", csrf=""), status=401)
    part = browser.get("/ui/channels/gr/champion", headers={"HX-Request": "true"})
    assert (part.status_code, part.headers["hx-redirect"]) == (401, "../../login?next=channels%2Fgr%2Fchampion")
    assert browser.get("/ui").headers["location"].startswith("ui/login")
    assert browser.get("/ui/static/passkeys.js").status_code == 200
    assert browser.get("/ui/static/%2E%2E/people").status_code == 404


@sqlite_alone
def test_an_address_that_guesses_is_blocked_for_a_time_and_others_are_not(site):
    guesser = site.browser()
    for _ in range(MAX_FROM_ADDRESS):
        assert guesser.log_in(password=WRONG).status_code == 401
    verified = site.hasher.n_verified
    answer = guesser.log_in()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "300")
    assert guesser.post("/ui/login/passkey/options", csrf="").status_code == 429
    assert site.hasher.n_verified == verified
    assert site.browser(address="192.0.2.2").log_in().status_code == 303
    site.seconds.now_s += WINDOW_S
    assert guesser.log_in().status_code == 303


@sqlite_alone
def test_guesses_from_many_addresses_block_the_name_but_no_browser_that_the_person_has_used(site):
    own = site.logged_in()
    own.post("/ui/logout")
    for number in range(MAX_FOR_NAME):
        assert site.browser(address=f"198.51.100.{number}").log_in(password=WRONG).status_code == 401
    stranger = site.browser(address="203.0.113.1")
    assert stranger.log_in().status_code == 429
    assert own.log_in().status_code == 303
    site.seconds.now_s += WINDOW_S
    assert stranger.log_in().status_code == 303


@sqlite_alone
def test_a_browser_that_the_person_has_used_has_a_limit_of_its_own(site):
    own = site.logged_in()
    own.post("/ui/logout")
    assert [own.log_in(password=WRONG).status_code for _ in range(MAX_FROM_ADDRESS + 1)] == [401] * 10 + [429]
    assert site.browser().log_in().status_code == 303


@sqlite_alone
def test_guesses_at_the_same_time_cannot_exceed_the_limit(site):
    fields = {"name": "alice", "password": WRONG}
    guesser = site.browser()
    answers = guesser.at_once(
        3 * MAX_FROM_ADDRESS, lambda http: http.post("/ui/login", data=fields, headers={"Origin": guesser.origin})
    )
    assert sorted({answer.status_code for answer in answers}) == [401, 429]
    assert site.hasher.n_verified == MAX_FROM_ADDRESS


@sqlite_alone
def test_failed_attempts_are_counted_in_the_audit_log_and_do_not_fill_it(site):
    for number in range(12):
        site.browser(address=f"198.51.100.{number}").log_in(password=WRONG)
        site.browser(address=f"198.51.100.{number}").log_in("<b>x", WRONG)
    assert site.audit("fail-log-in") == [
        ("anonymous", "person alice", '{"attempts": 1}'), ("anonymous", "unknown person", '{"attempts": 1}')
    ]  # fmt: skip
    site.seconds.now_s += 600
    site.browser(address="198.51.100.77").log_in(password=WRONG)
    assert site.audit("fail-log-in")[2] == ("anonymous", "person alice", '{"attempts": 12}')
    site.logged_in(address="198.51.100.78")
    assert json.loads(site.audit("log-in")[0][2]) == {"failed_before": 13, "method": "password"}
    site.logged_in(address="198.51.100.78")
    assert "failed_before" not in site.audit("log-in")[1][2]


@sqlite_alone
def test_a_password_is_hashed_anew_when_the_parameters_have_changed(site):
    site.hasher = CountingHasher(time_cost=2)
    app = site.new_process()
    assert site.browser(app=app).log_in().status_code == 303
    with site.database.read() as session:
        stored = session.connection().exec_driver_sql("SELECT password_hash FROM people").scalar_one()
    assert "t=2" in stored
    assert site.browser(app=app).log_in().status_code == 303
    app.state.context.close()


@pytest.mark.parametrize(
    ("password", "expected"),
    [("short words", "expected 12 to 1024 characters, got 11"), ("x" * 1025, "got 1025"),
     ("abababababab", "more than three"), ("my name is Alice and so on", "without the person's name"),
     (" " * 30, "got 0")],
)  # fmt: skip
def test_a_password_that_is_easy_to_guess_is_refused(password, expected):
    with pytest.raises(PasswordRefusedError, match=expected):
        require_good(password, name="alice")


@sqlite_alone
def test_a_long_text_is_no_password_and_costs_no_more(site):
    assert site.browser().log_in(password="x" * 100_000).status_code == 401
    assert site.browser().log_in(password="x" * 300_000).status_code == 413

# SPDX-License-Identifier: MIT
"""Sessions: their ends, their limits, and forms that do not come from the session's own pages"""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from fastapi.routing import APIRoute
from sqlalchemy import event, func, select
from sqlalchemy.exc import OperationalError

from serving.access.check import caller_of
from serving.access.grants import local_caller
from serving.access.service import create_admin_token
from serving.access.token_text import new_token
from serving.dashboard.pages import PageRoute
from serving.database import OneTimeRow, SessionRow
from serving.errors import NotAuthenticatedError
from serving.people.gate import PageGate
from tests.serving.people.browser import PASSWORD

pytestmark = pytest.mark.service

FOREIGN = (
    {}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://registry.example:81"},
    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "none"},
)  # fmt: skip

sqlite_alone = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)


def with_cookie(site, word, *, app=None) -> int:
    """The status with which the page of the account is answered to a cookie."""
    browser = site.browser(app=app)
    return browser.get("/ui/account", headers={"Cookie": f"ccatune_session={word}"}).status_code


def token_of(site) -> str:
    """A token with all rights."""
    new = new_token()
    with site.database.write() as session:
        create_admin_token(session, new, by=local_caller("init"), now=site.clock())
    return new.text


def test_a_stolen_cookie_is_worth_nothing_after_the_log_out_in_any_process(site):
    browser, other = site.logged_in(), site.new_process()
    stolen = browser.cookie
    assert with_cookie(site, stolen) == with_cookie(site, stolen, app=other) == 200
    answer = browser.post("/ui/logout")
    assert (answer.status_code, answer.headers["location"]) == (303, "./login")
    assert browser.cookie is None
    assert with_cookie(site, stolen) == with_cookie(site, stolen, app=other) == 303
    assert site.audit("log-out") == [("alice", "person alice", "{}")]
    other.state.context.close()


def test_logging_out_everywhere_ends_all_sessions_of_the_person_alone(site):
    site.person("bob", "viewer")
    one, two, bob = site.logged_in(), site.logged_in(), site.logged_in("bob")
    one.post("/ui/account/sessions/end")
    assert (one.is_in(), two.is_in(), bob.is_in()) == (False, False, True)


def test_a_person_ends_own_sessions_and_those_of_nobody_else(site):
    site.person("bob", "viewer")
    bob, one, two = site.logged_in("bob"), site.logged_in(), site.logged_in()
    for session_id in (1, 3):
        assert one.post(f"/ui/account/sessions/{session_id}/end").status_code == 303
    assert (bob.is_in(), one.is_in(), two.is_in()) == (True, True, False)
    assert site.audit("end-sessions") == [("alice", "person alice", '{"sessions": 1}')]


@sqlite_alone
@pytest.mark.parametrize("site_settings", [{"session_idle_s": 600, "session_lifetime_s": 3600}])
def test_a_session_ends_when_it_is_idle_and_at_the_end_of_its_lifetime(site):
    idle, busy = site.logged_in(), site.logged_in()
    for _ in range(7):
        site.clock.advance(seconds=500)
        assert busy.is_in()
    assert not idle.is_in()
    site.clock.advance(seconds=100)
    assert not busy.is_in()


@sqlite_alone
def test_a_request_costs_one_query_and_the_last_use_is_written_once_a_minute(site):
    browser = site.logged_in()
    statements: list[str] = []
    event.listen(site.database._engine, "before_cursor_execute", lambda *a: statements.append(a[2]))
    for _ in range(4):
        site.clock.advance(seconds=30)
        browser.get("/ui/nothing")
    found = [statement for statement in statements if "sessions" in statement]
    assert len([one for one in found if one.startswith("SELECT")]) == 4
    assert len([one for one in found if one.startswith("UPDATE")]) == 2
    assert len(found) == 6
    with site.database.read() as session:
        plan = session.connection().exec_driver_sql("EXPLAIN QUERY PLAN SELECT id FROM sessions WHERE digest = 'x'")
        assert "INDEX" in str(plan.all())


def test_a_new_password_ends_every_other_session_and_changes_the_own_one(site):
    browser, other = site.logged_in(), site.logged_in()
    before = browser.cookie
    fields = {"new": "a whole new password", "again": "a whole new password"}
    refused = browser.post("/ui/account/password", current="not the present one", **fields)
    assert (refused.status_code, "expected the present password" in refused.text) == (401, True)
    assert browser.post("/ui/account/password", current=PASSWORD, new="a" * 20, again="b" * 20).status_code == 422
    answer = browser.post("/ui/account/password", current=PASSWORD, **fields)
    assert answer.status_code == 303, answer.text
    assert browser.cookie != before
    assert (browser.is_in(), other.is_in(), with_cookie(site, before)) == (True, False, 303)
    assert site.browser().log_in().status_code == 401
    assert site.browser().log_in(password=fields["new"]).status_code == 303


@sqlite_alone
def test_the_own_password_cannot_be_guessed_in_an_open_browser(site):
    browser = site.logged_in()
    answers = [browser.post("/ui/account/password", current=f"wrong {number}").status_code for number in range(11)]
    assert answers == [401] * 10 + [429]


def test_disabling_the_principal_and_changing_the_role_end_the_sessions(site):
    admin = site.logged_in()
    site.person("bob", "viewer")
    site.person("carol", "viewer")
    bob, carol = site.logged_in("bob"), site.logged_in("carol")
    held = [held_caller(site, browser.cookie) for browser in (bob, carol)]
    assert admin.post("/ui/people/bob/role", role="operator").status_code == 303
    headers = {"Authorization": f"Bearer {token_of(site)}"}
    assert admin.send("DELETE", "/v1/principals/carol", headers=headers).status_code == 200
    for browser, caller in zip((bob, carol), held, strict=True):
        caller.require("read")
        assert not browser.is_in()
        # A request that is still held notices it with the next one of its session.
        with pytest.raises(NotAuthenticatedError):
            caller.require("read")
    assert "operator" in site.logged_in("bob").get("/ui/account").text
    assert carol.log_in("carol").status_code == 401


def held_caller(site, word):
    """The caller of a request that is still held; None if the session is not accepted."""
    scope = {"type": "http", "method": "GET", "path": "/ui/events", "query_string": b"", "scheme": "http",
             "headers": [(b"cookie", f"ccatune_session={word}".encode())]}  # fmt: skip
    refusal = site.runner.run(site.app.state.context.part(PageGate)(scope))
    return None if refusal is not None else caller_of(scope)


@sqlite_alone
def test_sessions_are_not_accepted_by_the_api_and_tokens_not_by_pages(site, problem):
    browser = site.logged_in()
    problem(browser.get("/v1/channels"), status=401)
    stranger = site.browser()
    headers = {"Authorization": f"Bearer {token_of(site)}"}
    assert stranger.get("/v1/channels", headers=headers).status_code == 200
    assert stranger.get("/ui/", headers=headers).status_code == 303


def forms_of(site) -> list[str]:
    """The paths of all forms of pages, with something in place of their parameters."""
    routes = [route for route in all_routes(site.app) if route.path.startswith("/ui")]
    assert all(route.methods <= {"GET", "HEAD", "POST"} for route in routes)
    writes = [route for route in routes if "POST" in route.methods]
    # This class checks the token before the endpoint runs.
    assert all(isinstance(route, PageRoute) for route in writes)
    assert len(writes) > 12
    return [
        route.path.replace("{key_id}", "1").replace("{session_id}", "1").replace("{", "").replace("}", "")
        for route in writes
    ]


def all_routes(app) -> list[APIRoute]:
    """Every route of the application."""
    found = []
    for one in app.router.routes:
        inner = getattr(one, "original_router", None)
        found += [one] if inner is None else inner.routes
    return [route for route in found if isinstance(route, APIRoute)]


@sqlite_alone
def test_every_form_is_refused_without_the_sessions_token_and_without_an_origin_of_this_host(site):
    browser, other = site.logged_in(), site.logged_in()
    own, foreign = browser.csrf(), other.csrf()
    assert own != foreign
    for number, path in enumerate(forms_of(site)):
        for headers in FOREIGN if number == 0 else FOREIGN[:2]:
            answer = browser.post(path, csrf=own, headers=headers)
            assert (answer.status_code, "foreign-request" in answer.text) == (403, True), (path, headers)
        if path.startswith(("/ui/login", "/ui/set-up")):
            continue
        for token in ("", foreign, own[:-1]):
            answer = browser.post(path, csrf=token)
            assert (answer.status_code, "Foreign form" in answer.text) == (403, True), (path, token)
    assert browser.is_in()
    assert site.audit("end-sessions") == site.audit("log-out") == []


@sqlite_alone
def test_a_form_of_this_host_passes_by_origin_or_by_what_the_browser_says_of_the_site(site):
    for headers in (
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://registry.example", "Sec-Fetch-Site": "same-origin"},
    ):
        assert site.logged_in().post("/ui/logout", headers=headers).status_code == 303
    browser = site.logged_in()
    answer = browser.send("POST", "/ui/logout", headers={"Origin": browser.origin, "X-CSRF-Token": browser.csrf()})
    assert answer.status_code == 303


@sqlite_alone
def test_a_page_without_tls_cannot_send_a_form_with_tls(site):
    browser = site.logged_in(scheme="https")
    answer = browser.post("/ui/logout", headers={"Origin": "http://registry.example"})
    assert (answer.status_code, "open the page by https" in answer.text) == (403, True)


@sqlite_alone
@pytest.mark.parametrize("site_settings", [{"open": True, "host_names": ()}])
def test_an_open_registry_needs_no_log_in_and_its_forms_the_token_of_the_process(site):
    browser = site.browser(host="localhost")
    assert browser.get("/ui/login").headers["location"] == "./"
    page = browser.get("/ui/people")
    assert page.status_code == 200
    token = page.text.split('name="csrf_token" value="')[1].split('"')[0]
    assert len(token) > 20
    fields = {"name": "carol", "role": "viewer"}
    assert browser.post("/ui/people", csrf="", **fields).status_code == 403
    assert browser.post("/ui/people", csrf=token, headers={}, **fields).status_code == 403
    assert browser.post("/ui/people", csrf=token, **fields).status_code == 201
    assert site.audit("create-person")[-1][0] == "open"
    assert browser.post("/ui/logout", csrf=token).status_code == 303


@sqlite_alone
def test_roles_do_not_cross_and_nobody_changes_the_own_account_by_mistake(site):
    site.person("viewer", "viewer")
    site.person("operator", "operator")
    viewer, operator, admin = site.logged_in("viewer"), site.logged_in("operator"), site.logged_in()
    for browser, path in ((viewer, "/ui/people"), (operator, "/ui/people")):
        answer = browser.get(path)
        assert (answer.status_code, "expected a role that permits the scope admin" in answer.text) == (403, True)
        assert browser.post("/ui/people", name="eve", role="admin").status_code == 403
        assert browser.post("/ui/people/viewer/role", role="admin").status_code == 403
        assert browser.post("/ui/agents/web-1/remove").status_code == 403
        assert 'people"' not in browser.get("/ui/").text
        assert "admin" not in browser.get("/ui/account").text
    for path, fields in (("role", {"role": "viewer"}), ("reset", {}), ("disable", {})):
        answer = admin.post(f"/ui/people/alice/{path}", **fields)
        assert (answer.status_code, "expected another person than the caller" in answer.text) == (409, True)
    assert admin.get("/ui/people").status_code == 200
    assert site.audit("set-role") == site.audit("reset-person") == site.audit("disable-principal") == []


@sqlite_alone
def test_html_in_what_strangers_choose_is_shown_as_text(site):
    browser = site.browser()
    browser.http.headers["User-Agent"] = "<script>alert(1)</script>"
    assert "<script>alert" not in browser.log_in('"><script>alert(1)</script>', "x").text
    browser.log_in()
    page = browser.get("/ui/account")
    assert "&lt;script&gt;alert(1)" in page.text
    assert "<script>alert" not in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert " style=" not in page.text
    assert " onclick=" not in page.text
    refused = browser.post("/ui/people", name="<b>x", role="viewer")
    assert (refused.status_code, "<b>x" in refused.text) == (422, False)


@sqlite_alone
def test_old_rows_are_deleted_with_a_log_in(site):
    site.logged_in().post("/ui/login/passkey/options", csrf="")
    site.clock.advance(seconds=timedelta(days=98).total_seconds())
    site.logged_in()
    with site.database.read() as session:
        assert session.scalar(select(func.count(SessionRow.id))) == 1
        assert session.scalar(select(func.count(OneTimeRow.digest))) == 0


@sqlite_alone
def test_a_database_that_does_not_answer_admits_nobody(site, monkeypatch):
    browser = site.logged_in()

    def fail(*_arguments, **_options):
        raise OperationalError("SELECT", {}, Exception("gone"))

    monkeypatch.setattr("serving.people.repository.live_session", fail)
    answer: httpx.Response = browser.get("/ui/account")
    assert answer.status_code == 503

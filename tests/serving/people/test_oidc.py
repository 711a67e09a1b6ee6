# SPDX-License-Identifier: MIT
"""Log-in by a provider of OpenID Connect, against one on loopback"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.errors import SettingsError
from serving.people.oidc import Provider
from serving.settings import load_settings
from tests.serving.api import START
from tests.serving.people.browser import HOST
from tests.serving.people.provider import CLIENT, OTHER_KEY, SECRET, SmallProvider

pytestmark = pytest.mark.service

sqlite_alone = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)

CALLBACK = "/ui/login/provider/callback"
REFUSED = "expected a log-in that this browser began here"


@pytest.fixture
def provider() -> Iterator[SmallProvider]:
    """A provider with the user dora."""
    made = SmallProvider(START.timestamp)
    yield made
    made.close()


@pytest.fixture
def site_settings(provider: SmallProvider, tmp_path: Path) -> dict[str, Any]:
    """The settings of a registry whose people log in by the provider."""
    secret = tmp_path / "client.secret"
    secret.write_text(SECRET + "\n", encoding="utf-8")
    secret.chmod(0o600)
    roles = {"net": "operator", "chiefs": "admin", "all": "viewer"}
    named = {"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT, "oidc_client_secret_file": secret}
    return {**named, "oidc_roles": roles}


def begin(browser, place="fleet") -> str:
    """Begin a log-in; returns the address at the provider."""
    answer = browser.get(f"/ui/login/provider?next={place}")
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def log_in(browser, provider, place="fleet"):
    """Log in by the provider; returns the answer to the browser that comes back."""
    return browser.get(CALLBACK + provider.confirm(begin(browser, place)))


def test_a_user_of_the_provider_becomes_a_person_with_the_role_of_the_groups(site, provider):
    browser = site.browser()
    assert 'href="./login/provider?next=fleet"' in browser.get("/ui/login?next=fleet").text
    answer = log_in(browser, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "../../fleet"), answer.text
    page = browser.get("/ui/account").text
    assert ("dora" in page, "operator" in page, "Present password" in page) == (True, True, False)
    assert len(provider.exchanges[0]["code_verifier"]) >= 43
    assert provider.exchanges[0]["redirect_uri"] == f"http://{HOST}{CALLBACK}"
    assert site.audit("log-in") == [("dora", "person dora", '{"method": "provider"}')]
    # The same person, with another role: the session before has ended.
    provider.claims["groups"] = ["all", "chiefs"]
    assert log_in(site.browser(), provider).status_code == 303
    assert not browser.is_in()
    assert len(site.audit("create-person")) == 2
    assert json.loads(site.audit("set-role")[0][2]) == {"before": "operator", "role": "admin"}


SPOILT = (
    {"nonce": "another"}, {"nonce": None}, {"aud": "another-client"}, {"aud": ["another-client"]}, {"aud": None},
    {"iss": "http://127.0.0.1:1"}, {"exp": int(START.timestamp()) - 3600}, {"exp": None}, {"sub": None},
    {"iat": int(START.timestamp()) + 3600}, {"azp": "another-client", "aud": [CLIENT, "another-client"]},
)  # fmt: skip


@sqlite_alone
def test_an_id_token_for_another_log_in_or_client_is_refused(site, provider):
    for number, spoilt in enumerate(SPOILT):
        provider.spoilt = spoilt
        browser = site.browser(address=f"198.51.100.{number}")
        answer = log_in(browser, provider)
        assert (answer.status_code, REFUSED in answer.text, browser.cookie) == (401, True, None), spoilt
    assert site.audit("fail-log-in") == [("anonymous", "unknown person", '{"attempts": 1}')]
    provider.spoilt = {"aud": [CLIENT]}
    assert log_in(site.browser(), provider).status_code == 303


@sqlite_alone
def test_an_id_token_that_the_provider_has_not_signed_is_refused(site, provider):
    for provider.algorithm, provider.signing_key in (("none", None), ("HS256", None), ("RS256", OTHER_KEY)):
        answer = log_in(site.browser(), provider)
        assert (answer.status_code, REFUSED in answer.text) == (401, True), provider.algorithm


@sqlite_alone
def test_a_state_is_accepted_once_in_its_browser_and_for_its_time(site, provider):
    browser = site.browser()
    query = provider.confirm(begin(browser))
    # Another browser must not complete it: its person would work in the account of somebody else.
    assert site.browser().get(CALLBACK + query).status_code == 401
    assert browser.get(CALLBACK + query).status_code == 401
    query = provider.confirm(begin(browser))
    assert browser.get(CALLBACK + query).status_code == 303
    replayed = browser.get(CALLBACK + query)
    assert (replayed.status_code, REFUSED in replayed.text) == (401, True)
    late = provider.confirm(begin(browser))
    site.clock.advance(seconds=601)
    assert browser.get(CALLBACK + late).status_code == 401
    for query in ("", "?state=x&code=y", "?error=access_denied&state=x", late + "&iss=http://evil.example"):
        assert browser.get(CALLBACK + query).status_code == 401
    assert len(provider.exchanges) == 1


@sqlite_alone
def test_the_groups_and_the_name_decide_who_enters(site, provider):
    for groups in ([], ["strangers"], None, "nets", {"net": 1}):
        provider.claims = {"sub": "1", "preferred_username": "eve", "groups": groups}
        answer = log_in(site.browser(address=f"198.51.100.{len(str(groups))}"), provider)
        assert (answer.status_code, "expected one of the groups" in answer.text) == (401, True)
    for number, name in enumerate(("alice", "<b>x", "init", "", None)):
        provider.claims = {"sub": "2", "preferred_username": name, "groups": "chiefs"}
        answer = log_in(site.browser(address=f"203.0.113.{number}"), provider)
        assert answer.status_code in {401, 409}
        assert "<b>x" not in answer.text
    assert [row[1] for row in site.audit("create-person")] == ["person alice"]


@sqlite_alone
def test_nobody_is_led_to_another_site_after_the_log_in(site, provider):
    for place in ("//evil.example", "https:%2F%2Fevil.example", "%5C%5Cevil.example"):
        assert log_in(site.browser(), provider, place).headers["location"] == "../../"


@sqlite_alone
def test_a_disabled_person_does_not_enter_by_the_provider(site, provider):
    browser = site.browser()
    log_in(browser, provider)
    # A password would be a way around the provider.
    assert site.logged_in().post("/ui/people/dora/reset").status_code == 409
    site.logged_in().post("/ui/people/dora/disable")
    assert not browser.is_in()
    assert log_in(site.browser(), provider).status_code == 401


@sqlite_alone
def test_a_provider_that_says_something_else_is_named(site, provider):
    provider.metadata = {"issuer": "http://127.0.0.1:1"}
    answer = site.browser().get("/ui/login/provider")
    assert (answer.status_code, "correct oidc_issuer" in answer.text) == (502, True)
    provider.metadata = {"token_endpoint": "http://token.example/"}
    assert "expected token_endpoint with https" in site.browser().get("/ui/login/provider").text
    provider.metadata = {}
    browser = site.browser()
    location = begin(browser)
    provider.codes.clear()
    answer = browser.get(CALLBACK + provider.confirm(location).replace("code=", "code=x"))
    assert answer.status_code == 502


@sqlite_alone
def test_without_the_extra_the_start_says_what_to_install(site, monkeypatch):
    monkeypatch.setattr("serving.people.oidc.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"install ccatune\[oidc\]"):
        Provider(site.app.state.context)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"oidc_client_id": None}, "expected oidc_client_id and oidc_roles"), ({"oidc_roles": {}}, "and oidc_roles"),
     ({"oidc_issuer": "http://login.example"}, "oidc_issuer: expected an address with https"),
     ({"oidc_issuer": "https:"}, "expected an address"), ({"oidc_roles": {"a": "root"}}, "viewer"),
     ({"oidc_redirect_url": "http://a.example/ui"}, "oidc_redirect_url: expected")],
)  # fmt: skip
def test_settings_of_a_provider_that_cannot_work_are_refused(settings, expected):
    good = {"oidc_issuer": "https://login.example", "oidc_client_id": "x", "oidc_roles": {"net": "viewer"}}
    with pytest.raises(SettingsError, match=expected):
        load_settings(**{**good, **settings})


@sqlite_alone
def test_a_registry_without_a_provider_shows_no_button_and_takes_no_answer(site):
    plain = site.settings.model_copy(update={"oidc_issuer": None})
    site.settings = plain
    app = site.new_process()
    browser = site.browser(app=app)
    assert "login/provider" not in browser.get("/ui/login").text
    assert browser.get(f"{CALLBACK}?code=x&state=y").status_code == 401
    app.state.context.close()

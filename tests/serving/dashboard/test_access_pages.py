# SPDX-License-Identifier: MIT
"""The pages of tokens, of the audit log and of keys"""

from __future__ import annotations

import asyncio
import re
from html import unescape

import pytest

from serving.access.audit import record
from serving.access.grants import local_caller
from tests.serving.api import Api
from tests.serving.dashboard.forms import opened, send
from tests.serving.people.browser import HOST, Site
from tests.serving.signing import Keys, add_root, add_signature, key_file

# One database is enough for pages whose queries the API has, too.
pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]

HTML = "<img src=x onerror=alert(1)>"
TOKENS, AUDIT = "/ui/tokens", "/ui/audit"
DAY_S = 86_400


@pytest.fixture
def site(api) -> Api:
    """An open registry."""
    return opened(api)


def test_a_token_is_shown_once_and_permits_what_the_form_says_until_it_is_revoked(api, site):
    made = send(site, TOKENS, TOKENS, principal="web-1", kind="agent", scopes=["report", "read"], days="7",
                channels="champion canary", agent_id="web-1")  # fmt: skip
    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    (text,) = re.findall(r"ccat_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", made.text)
    found = api.with_token(text).get("/v1/token").json()
    assert (found["principal"], found["scopes"], found["agent_id"]) == ("web-1", ["read", "report"], "web-1")
    assert (found["channels"], found["expires_at"]) == (["canary", "champion"], "2026-03-08T12:00:00Z")
    for page in (TOKENS, f"{TOKENS}?principal=web-1", AUDIT):
        assert "web-1" in site.get(page).text
        assert text.rpartition("_")[2] not in site.get(page).text
    assert send(site, TOKENS, f"{TOKENS}/{found['id']}/revoke").status_code == 303
    assert api.other_process().with_token(text).get("/v1/token").status_code == 401
    assert "revoked" in site.get(f"{TOKENS}?principal=web-1").text


def test_a_principal_that_is_disabled_loses_all_its_tokens(api, site):
    texts = [api.new_token("read", principal="build") for _ in range(2)]
    assert send(site, f"{TOKENS}?principal=build", "/ui/principals/build/disable").status_code == 303
    assert [api.other_process().with_token(text).get("/v1/token").status_code for text in texts] == [401, 401]
    refused = send(site, TOKENS, TOKENS, principal="build", scopes=["read"], days="never")
    assert refused.status_code == 409
    assert "expected a principal that is enabled, got build" in refused.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"principal": "new", "kind": "ci"}, "scopes: "),
        ({"principal": "new one", "kind": "ci", "scopes": "read"}, "principal: expected 1 to 128"),
        ({"principal": "new", "kind": "ci", "scopes": "admin", "ccas": "gr"}, "expected no limits"),
        ({"principal": "new", "kind": "ci", "scopes": "read", "days": "x"}, "days: expected one of"),
    ],
)
def test_a_wrong_request_for_a_token_makes_none(api, site, fields, words):
    n_tokens = len(api.get("/v1/tokens").json()["items"])
    answer = send(site, TOKENS, TOKENS, **fields)
    assert answer.status_code == 422
    assert words in unescape(answer.text)
    assert len(api.get("/v1/tokens").json()["items"]) == n_tokens


def test_the_audit_log_is_filtered_and_leads_to_what_was_changed(site):
    digest = site.move(0, note=HTML)["digest"]
    site.clock.advance(seconds=DAY_S)
    with site.database.write() as session:
        for number in range(50):
            details = {"target": "channel gr/canary", "now": site.clock(), "note": f"move {number}"}
            record(session, by=local_caller("alice"), action="move", **details)
    assert "<img" not in (page := site.get(AUDIT).text)
    assert page.index("move 49") < page.index("move 48"), "newest first"
    older = unescape(re.findall(r'<a href="(\./audit\?cursor=[0-9]+)">Older', site.get(AUDIT).text)[0])
    assert "img src" in (last := site.get(f"/ui/{older}").text)
    assert f'<a href="./ensembles/{digest}"' in last
    canary = site.get(AUDIT, params={"target": "channel gr/canary", "action": "move", "actor": "alice"}).text
    assert canary.count('href="./channels/gr/canary"') == 50
    assert "channels/gr/champion" not in canary
    assert "No change is like this" in site.get(AUDIT, params={"actor": "someone"}).text
    since = site.get(AUDIT, params={"since": "2026-03-02T00:00", "target": "channel gr/champion"}).text
    assert "No change is like this" in since
    assert site.get(AUDIT, params={"since": "yesterday"}).status_code == 422


def test_keys_say_who_signed_what_and_what_needs_attention(api, tmp_path):
    keys = Keys()
    site = opened(api, signing_key_file=key_file(keys.registry, tmp_path))
    assert "There is no root document" in site.get("/ui/keys").text
    signed = site.publish(0)
    site.move(1, channel="staged")
    expires_s = int(site.clock().timestamp()) + 40 * DAY_S
    add_root(site, keys.envelope(expires_s=expires_s, publishers=[keys.publisher, keys.second_publisher]))
    add_signature(site, signed, keys.second_publisher)
    page = site.get("/ui/keys").text
    for key in (keys.root, keys.publisher, keys.second_publisher, keys.registry):
        assert key.public.key_id in page
    assert f'href="./ensembles/{signed}"' in page
    assert "signed the ensemble of gr/staged" in page
    assert "Offers are signed until 2026-03-0" in page
    assert "The root document expires in" not in page
    site.clock.advance(seconds=12 * DAY_S)
    assert "The root document expires in 28 days" in site.get("/ui/keys").text
    site.clock.advance(seconds=30 * DAY_S)
    assert "The root document has expired" in site.get("/ui/keys").text


def test_each_page_and_form_needs_its_role(api):
    settings = api.app.state.context.settings.model_copy(update={"host_names": (HOST,)})
    api.request("POST", "/v1/jobs", json={"study": "gr-demo", "datasets": ["made"]})
    with asyncio.Runner() as runner:
        people = Site(api.database, runner, settings, clock=api.clock)
        for name, role in (("vera", "viewer"), ("olaf", "operator")):
            people.person(name, role)
        viewer, operator = people.logged_in("vera"), people.logged_in("olaf")
        for path in ("/ui/jobs", "/ui/jobs/1", "/ui/links", "/ui/links/made", "/ui/keys"):
            page = viewer.get(path)
            assert (page.status_code, page.text.count('method="post"')) == (200, 1), "the log-out alone"
        forms = ("/ui/jobs", "/ui/jobs/1/cancel", TOKENS, f"{TOKENS}/{'0' * 16}/revoke", "/ui/principals/p/disable")
        of_job = {"study": "gr-demo", "datasets": "made"}
        answers = [[one.post(path, **of_job).status_code for path in forms] for one in (viewer, operator)]
        assert answers == [[403] * 5, [303, 403, 403, 403, 403]], "an operator cancels jobs of their own"
        assert [one.get(path).status_code for one in (viewer, operator) for path in (TOKENS, AUDIT)] == [403] * 4
        assert operator.post("/ui/jobs/2/cancel").status_code == 303
        assert operator.post("/ui/jobs", **of_job, csrf="x").status_code == 403
        people.app.state.context.close()
    assert [job["state"] for job in api.get("/v1/jobs").json()["items"]] == ["cancelled", "queued"]

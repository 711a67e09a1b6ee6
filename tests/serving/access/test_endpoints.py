# SPDX-License-Identifier: MIT
"""/v1/tokens, /v1/principals and /v1/audit"""

from __future__ import annotations

import json

import pytest
from sqlalchemy import select

from serving.database import Base

pytestmark = pytest.mark.service

CHAMPION = "/v1/channels/gr/champion"
WEB = {
    "principal": "web-1", "kind": "agent", "scopes": ["report", "read", "read"], "ccas": ["gr"],
    "channels": ["champion"], "agent_id": "web-1", "lifetime_s": 3600,
}  # fmt: skip


def make(api, **changes):
    """Make a token."""
    return api.request("POST", "/v1/tokens", json={**WEB, **changes})


def rows_of(table):
    """A query for all columns of a table."""
    return select(Base.metadata.tables[table])


def audit(api, **filters):
    """The changes, newest first, each as (actor, action, target)."""
    rows = api.get("/v1/audit", params=filters).json()["items"]
    return [(row["actor"], row["action"], row["target"]) for row in rows]


def test_a_token_is_shown_once_and_kept_only_as_its_digest(api):
    answer = make(api)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()
    token = made.pop("token")
    assert token.startswith(f"ccat_{made['id']}_")
    assert made == {
        "id": made["id"],
        "principal": "web-1",
        "kind": "agent",
        "state": "active",
        "scopes": ["read", "report"],
        "ccas": ["gr"],
        "channels": ["champion"],
        "agent_id": "web-1",
        "created_at": "2026-03-01T12:00:00Z",
        "expires_at": "2026-03-01T13:00:00Z",
        "revoked_at": None,
        "last_used_at": None,
    }
    assert api.get("/v1/tokens").json()["items"][0] == made
    with api.database.read() as session:
        stored = [str(row) for table in ("tokens", "audit", "principals") for row in session.execute(rows_of(table))]
    assert token[-43:] not in "".join(stored)


def test_the_list_pages_to_its_end_and_can_be_of_one_principal(api):
    for name in ("a", "b", "a"):
        api.new_token("read", principal=name)
    first = api.get("/v1/tokens", params={"limit": 3}).json()
    rest = api.get("/v1/tokens", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert [row["principal"] for row in first["items"] + rest["items"]] == ["a", "b", "a", "admin"]
    assert len(api.get("/v1/tokens", params={"principal": "a"}).json()["items"]) == 2


def test_a_new_principal_needs_a_kind_that_it_keeps(api, problem):
    assert "kind: expected" in problem(make(api, kind=None), status=409)["detail"]
    assert make(api).status_code == make(api, kind=None).status_code == 201
    assert "expected agent" in problem(make(api, kind="human"), status=409)["detail"]
    assert len(api.get("/v1/tokens", params={"principal": "web-1"}).json()["items"]) == 2


@pytest.mark.parametrize(
    "changes",
    [{"scopes": []}, {"scopes": ["all"]}, {"ccas": []}, {"ccas": ["x y"]}, {"channels": [".."]}, {"agent_id": "a b"},
     {"lifetime_s": 0}, {"lifetime_s": -5}, {"lifetime_s": 10**12}, {"principal": "a b"}, {"principal": "open"},
     {"principal": "init"}, {"kind": "robot"}, {"other": 1}],
)  # fmt: skip
def test_an_invalid_token_is_a_422_problem(api, problem, changes):
    problem(make(api, **changes), status=422)
    assert len(api.get("/v1/tokens").json()["items"]) == 1


def test_a_repeated_revocation_changes_nothing(api, problem):
    token_id = make(api).json()["id"]
    first = api.request("DELETE", f"/v1/tokens/{token_id}").json()
    api.clock.advance(seconds=5)
    assert api.request("DELETE", f"/v1/tokens/{token_id}").json() == first
    assert len(audit(api, action="revoke-token")) == 1
    problem(api.request("DELETE", "/v1/tokens/0123456789abcdef"), status=404)
    problem(api.request("DELETE", "/v1/tokens/x"), status=422)


def test_a_disabled_principal_has_no_token_and_gets_none(api, problem):
    callers = [api.limited("read", principal="leaver") for _ in range(2)]
    assert api.request("DELETE", "/v1/principals/leaver").json()["disabled_at"] == "2026-03-01T12:00:00Z"
    for caller in callers:
        problem(caller.get("/v1/channels"), status=401)
    problem(make(api, principal="leaver", kind=None), status=409)
    problem(api.request("DELETE", "/v1/principals/nobody"), status=404)
    assert [action for _, action, _ in audit(api, actor="admin")][:3] == [
        "revoke-token", "revoke-token", "disable-principal",
    ]  # fmt: skip


def test_every_change_is_in_the_audit_log_with_its_actor_and_request(api):
    builds = api.limited("publish", "move", principal="builds")
    digest = builds.publish()
    headers = {"X-Request-Id": "job-17", "Idempotency-Key": "k"}
    for _ in range(2):
        builds.request("PUT", CHAMPION, json={"digest": digest, "note": "n"}, headers=headers)
    builds.publish(0)
    builds.move(1)
    builds.request("POST", f"{CHAMPION}/rollback", json={"note": "worse"})
    other = builds.publish(1)
    assert audit(api, actor="builds") == [
        ("builds", "roll-back", "channel gr/champion"),
        ("builds", "move", "channel gr/champion"),
        ("builds", "publish", f"ensemble {other}"),
        ("builds", "move", "channel gr/champion"),
        ("builds", "publish", f"ensemble {digest}"),
    ]
    row = api.get("/v1/audit", params={"target": "channel gr/champion"}).json()["items"][-1]
    token_id = api.get("/v1/tokens", params={"principal": "builds"}).json()["items"][0]["id"]
    assert row == {
        "id": row["id"],
        "at": "2026-03-01T12:00:00Z",
        "actor": "builds",
        "token_id": token_id,
        "request_id": "job-17",
        "address": "127.0.0.1",
        "action": "move",
        "target": "channel gr/champion",
        "details": {"serial": 1, "digest": digest, "hold_back_permille": 0, "urgent": False, "note": "n",
                    "restores_serial": None},
    }  # fmt: skip
    assert audit(api)[-1] == ("init", "create-principal", "principal admin")


def test_a_change_that_fails_leaves_no_row_in_the_audit_log(api, problem):
    before = audit(api)
    problem(api.request("PUT", CHAMPION, json={"digest": "sha256:" + "0" * 64}), status=404)
    digest = api.publish()
    stale = {"If-Match": '"7"'}
    problem(api.request("PUT", CHAMPION, json={"digest": digest}, headers=stale), status=412)
    assert audit(api)[1:] == before


def test_the_audit_log_pages_to_its_end_and_its_details_contain_no_token(api):
    tokens = [api.new_token("read", principal=f"p{number}") for number in range(4)]
    first = api.get("/v1/audit", params={"limit": 6}).json()
    rest = api.get("/v1/audit", params={"limit": 6, "cursor": first["next_cursor"]}).json()
    ids = [row["id"] for row in first["items"] + rest["items"]]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 2 * 5
    assert rest["next_cursor"] is None
    assert not any(token in json.dumps([first, rest]) for token in tokens)

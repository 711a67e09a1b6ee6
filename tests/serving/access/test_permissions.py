# SPDX-License-Identifier: MIT
"""Every endpoint against every scope and limit"""

from __future__ import annotations

import json

import pytest

from serving.access.check import PUBLIC_PATHS
from serving.access.grants import SCOPES
from serving.channels.repository import channel_for_move
from serving.database import RetrainingRow
from tests.serving.advice.test_endpoints import report as advice_report
from tests.serving.api import Api, make_ensemble
from tests.serving.observations.files import made_file
from tests.serving.retraining.loop import POLICY
from tests.serving.signing import Keys, add_root, add_signature, signature

# Scopes are checked before the database is read.
pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]

CHAMPION = "/v1/channels/gr/champion"
DIGEST = make_ensemble(0).digest
REPORT = {"cca": "gr", "channel": "champion", "state": "InSync"}
KEYS = Keys()
ROOT = KEYS.envelope(publishers=[KEYS.publisher, KEYS.second_publisher])
OF_CHANNEL, STAGED = "/v1/channels/{cca}/{name}", "/v1/channels/gr/staged"
JOB = {"study": "gr-demo", "datasets": ["made"]}
LEASE = "x" * 16
FACTS = {"runner": "r", "content": "0" * 64, "recordings": 1, "hours": 0.5, "mean_mbps": 8, "p5_mbps": 1, "p95_mbps": 9,
         "variation": [], "rates_mbps": []}  # fmt: skip
FORCED = {"force": "nothing was compared"}
FILE = made_file()
UPLOAD = f"/v1/agents/web-1/observations/{FILE[0]}"
TOKEN = {"principal": "p", "kind": "ci", "scopes": ["read"]}

# Each operation of the API: its scope, and a request that the registry of `moved` answers with a success.
OPERATIONS = {
    ("post", "/v1/ensembles"): ("publish", "/v1/ensembles", make_ensemble(7).to_json()),
    ("get", "/v1/ensembles"): ("read", "/v1/ensembles", None),
    ("get", "/v1/ensembles/{digest}"): ("read", f"/v1/ensembles/{DIGEST}", None),
    ("post", "/v1/ensembles/{digest}/signatures"): (
        "publish",
        f"/v1/ensembles/{DIGEST}/signatures",
        signature(DIGEST, KEYS.second_publisher),
    ),
    ("get", "/v1/ensembles/{digest}/signatures"): ("read", f"/v1/ensembles/{DIGEST}/signatures", None),
    ("post", "/v1/roots"): ("admin", "/v1/roots", ROOT),
    ("get", "/v1/roots"): ("read", "/v1/roots", None),
    ("get", "/v1/roots/{version}"): ("read", "/v1/roots/1", None),
    ("get", "/v1/channels"): ("read", "/v1/channels", None),
    ("get", "/v1/channels/{cca}/{name}"): ("read", CHAMPION, None),
    ("get", "/v1/channels/{cca}/{name}/history"): ("read", f"{CHAMPION}/history", None),
    ("get", "/v1/channels/{cca}/{name}/drift"): ("read", f"{CHAMPION}/drift", None),
    ("put", "/v1/channels/{cca}/{name}"): ("move", CHAMPION, {"digest": DIGEST}),
    ("post", "/v1/channels/{cca}/{name}/rollback"): ("move", f"{CHAMPION}/rollback", {}),
    ("post", f"{OF_CHANNEL}/rollouts"): ("roll-out", f"{STAGED}/rollouts", {"digest": DIGEST}),
    ("get", f"{OF_CHANNEL}/rollouts"): ("read", f"{STAGED}/rollouts", None),
    ("post", f"{OF_CHANNEL}/rollouts/rehearsal"): ("read", f"{STAGED}/rollouts/rehearsal", {}),
    ("get", f"{OF_CHANNEL}/rollouts/{{number}}"): ("read", f"{STAGED}/rollouts/1", None),
    ("get", f"{OF_CHANNEL}/rollouts/{{number}}/events"): ("read", f"{STAGED}/rollouts/1/events", None),
    ("post", f"{OF_CHANNEL}/rollouts/{{number}}/{{action}}"): ("roll-out", f"{STAGED}/rollouts/1/abort", {}),
    ("put", f"{OF_CHANNEL}/advice"): ("train", f"{CHAMPION}/advice", advice_report()),
    ("get", f"{OF_CHANNEL}/advice"): ("read", f"{CHAMPION}/advice", None),
    ("put", f"{OF_CHANNEL}/retraining"): ("roll-out", f"{CHAMPION}/retraining", POLICY),
    ("get", f"{OF_CHANNEL}/retraining"): ("read", f"{CHAMPION}/retraining", None),
    ("post", f"{OF_CHANNEL}/retrainings"): ("train", f"{CHAMPION}/retrainings", {}),
    ("get", f"{OF_CHANNEL}/retrainings"): ("read", f"{CHAMPION}/retrainings", None),
    ("get", f"{OF_CHANNEL}/retrainings/{{number}}"): ("read", f"{STAGED}/retrainings/1", None),
    ("post", f"{OF_CHANNEL}/retrainings/{{number}}/training"): (
        "train",
        "/v1/channels/gr/other/retrainings/2/training",
        {},
    ),
    ("post", f"{OF_CHANNEL}/retrainings/{{number}}/roll-out"): ("roll-out", f"{STAGED}/retrainings/1/roll-out", FORCED),
    ("post", f"{OF_CHANNEL}/retrainings/{{number}}/dismiss"): ("train", f"{CHAMPION}/retrainings/3/dismiss", {}),
    ("delete", f"{OF_CHANNEL}/retraining"): ("roll-out", f"{CHAMPION}/retraining", None),
    ("post", "/v1/agents/{agent_id}/reports"): ("report", "/v1/agents/web-1/reports", REPORT),
    ("get", "/v1/agents"): ("read", "/v1/agents", None),
    ("put", "/v1/agents/{agent_id}/observations/{digest}"): ("report", UPLOAD, FILE[1]),
    ("get", "/v1/observations"): ("read", "/v1/observations", None),
    ("get", "/v1/observations/{digest}"): ("read", f"/v1/observations/{FILE[0]}", None),
    ("get", "/v1/qos"): ("read", "/v1/qos", None),
    ("delete", "/v1/agents/{agent_id}"): ("admin", "/v1/agents/web-9", None),
    ("post", "/v1/jobs"): ("train", "/v1/jobs", JOB),
    ("get", "/v1/jobs"): ("read", "/v1/jobs", None),
    ("get", "/v1/jobs/{job_id}"): ("read", "/v1/jobs/1", None),
    ("get", "/v1/jobs/{job_id}/logs"): ("read", "/v1/jobs/1/logs", None),
    ("post", "/v1/jobs/{job_id}/heartbeat"): ("run-jobs", "/v1/jobs/1/heartbeat", {"lease": LEASE}),
    ("post", "/v1/jobs/{job_id}/end"): ("run-jobs", "/v1/jobs/1/end", {"lease": LEASE, "outcome": "interrupted"}),
    ("post", "/v1/jobs/leases"): ("run-jobs", "/v1/jobs/leases", {"runner": "r", "lease": LEASE, "datasets": []}),
    ("post", "/v1/jobs/{job_id}/cancel"): ("train", "/v1/jobs/2/cancel", {}),
    ("get", "/v1/datasets"): ("read", "/v1/datasets", None),
    ("put", "/v1/datasets/{dataset}"): ("run-jobs", "/v1/datasets/made", FACTS),
    ("post", "/v1/tokens"): ("admin", "/v1/tokens", TOKEN),
    ("get", "/v1/tokens"): ("admin", "/v1/tokens", None),
    ("delete", "/v1/tokens/{token_id}"): ("admin", "/v1/tokens/OF-ANOTHER", None),
    ("delete", "/v1/principals/{name}"): ("admin", "/v1/principals/another", None),
    ("get", "/v1/audit"): ("admin", "/v1/audit", None),
    ("post", "/v1/people"): ("admin", "/v1/people", {"name": "dora", "role": "viewer"}),
    ("get", "/v1/people"): ("admin", "/v1/people", None),
    ("put", "/v1/people/{name}/role"): ("admin", "/v1/people/dora/role", {"role": "operator"}),
    ("post", "/v1/people/{name}/reset"): ("admin", "/v1/people/dora/reset", {}),
    ("delete", "/v1/channels/{cca}/{name}"): ("move", CHAMPION, None),
}
# Any token permits to ask about itself.
OWN_TOKEN = ("get", "/v1/token")


@pytest.fixture
def moved(api) -> Api:
    """A registry with a root document, two signed ensembles, two channels, agents, a leased job, and `another`."""
    add_root(api, ROOT)
    for number in (0, 1):
        add_signature(api, api.publish(number), KEYS.publisher)
    api.move(0)
    api.move(1)
    api.move(1, channel="staged")
    report(api, "web-1")
    report(api, "web-9")
    for number in range(40):
        report(api, f"staged-{number}", channel="staged")
    api.move(1, channel="other")
    for channel, state in (("staged", "trained"), ("other", "proposed")):
        assert api.request("PUT", f"/v1/channels/gr/{channel}/retraining", json=POLICY).is_success
        with api.database.write() as session:
            session.add(
                RetrainingRow(
                    channel=channel_for_move(session, cca="gr", name=channel), state=state, reasons="[]",
                    objections="[]", baseline=make_ensemble(1).digest, candidate=DIGEST, note="", started_by="someone",
                    started_at=api.clock(), changed_at=api.clock(),
                )
            )  # fmt: skip
    assert api.limited("train").request("POST", "/v1/jobs", json=JOB).is_success
    wanted = {"runner": "r", "lease": LEASE, "datasets": ["made"]}
    assert api.request("POST", "/v1/jobs/leases", json=wanted).status_code == 200
    api.new_token("read", principal="another")
    return api


def report(api, agent_id, **changes):
    """Send a report."""
    return api.request("POST", f"/v1/agents/{agent_id}/reports", json={**REPORT, **changes})


def everything(api):
    """All that a request could change, but the times at which tokens were used."""
    lists = [api.get(path, params={"limit": 200}).json()["items"] for path in (
        "/v1/ensembles", "/v1/channels", "/v1/agents", "/v1/tokens", "/v1/audit", "/v1/jobs")]  # fmt: skip
    return lists, api.get(f"{CHAMPION}/history").json()


def send(api, operation, *, admin):
    """Send the request of an operation."""
    method, _ = operation
    _, path, body = OPERATIONS[operation]
    if "OF-ANOTHER" in path:
        ids = [row["id"] for row in admin.get("/v1/tokens", params={"principal": "another"}).json()["items"]]
        path = path.replace("OF-ANOTHER", ids[0])
    if isinstance(body, bytes):
        return api.request(method.upper(), path, content=body, headers={"Content-Type": "application/octet-stream"})
    return api.request(method.upper(), path, **({} if body is None else {"json": body}))


def test_the_table_has_every_operation_and_each_declares_that_it_needs_a_token(api):
    paths = api.get("/v1/openapi.json").json()["paths"]
    found = {(method, path): paths[path][method] for path in paths for method in paths[path]}
    public = {(method, path) for method, path in found if path in PUBLIC_PATHS}
    assert {*OPERATIONS, OWN_TOKEN} == set(found) - public
    for key in {*OPERATIONS, OWN_TOKEN}:
        assert found[key]["security"] == [{"token": []}]
        assert {"401", "403"} <= set(found[key]["responses"])
        if key != OWN_TOKEN:
            assert f"The token needs the scope `{OPERATIONS[key][0]}`." in found[key]["description"]
    assert all("security" not in found[key] for key in public)


def test_each_operation_needs_its_scope_and_a_refusal_changes_nothing(moved, problem):
    callers = {scope: moved.limited(scope) for scope in SCOPES}
    before = everything(moved)
    for operation, (needed, _, _) in OPERATIONS.items():
        for scope in set(SCOPES) - {needed, "admin"}:
            document = problem(send(callers[scope], operation, admin=moved), status=403)
            assert document["type"] == "urn:ccatune:problem:not-permitted"
            assert f"the scope {needed}, got the scopes {scope}" in document["detail"], operation
        problem(send(moved.anonymous, operation, admin=moved), status=401)
    assert everything(moved) == before
    for operation, (needed, _, _) in OPERATIONS.items():
        assert send(callers[needed], operation, admin=moved).is_success, operation
    assert everything(moved) != before


def test_any_token_is_told_what_it_permits_and_for_which_agent(api, problem):
    problem(api.anonymous.get("/v1/token"), status=401)
    for scope in SCOPES:
        assert api.limited(scope).get("/v1/token").json()["scopes"] == [scope]
    limited = api.limited("read", "report", ccas=["gr"], channels=["b", "a"], agent_id="web-1", lifetime_s=60)
    found = limited.get("/v1/token").json()
    assert found == {
        "id": found["id"], "principal": "someone", "scopes": ["read", "report"], "ccas": ["gr"],
        "channels": ["a", "b"], "agent_id": "web-1", "expires_at": "2026-03-01T12:01:00Z",
    }  # fmt: skip
    assert found["id"] in [row["id"] for row in api.get("/v1/tokens").json()["items"]]


def test_a_move_of_another_algorithm_or_channel_is_refused_and_changes_nothing(moved, problem):
    canary, reno = moved.limited("move", "read", channels=["canary"]), moved.limited("move", "read", ccas=["reno"])
    before = everything(moved)
    for caller, named in ((canary, "the channel champion, got one for canary"), (reno, "the algorithm gr, got one")):
        for method, path, body in (
            ("PUT", CHAMPION, {"digest": DIGEST}),
            ("POST", f"{CHAMPION}/rollback", {}),
            ("DELETE", CHAMPION, None),
            ("GET", CHAMPION, None),
            ("GET", f"{CHAMPION}?wait=1", None),
            ("GET", f"{CHAMPION}?wait=1&unusual=1", None),
            ("GET", f"{CHAMPION}/history", None),
        ):
            answer = caller.request(method, path, **({} if body is None else {"json": body}))
            assert named in problem(answer, status=403)["detail"]
    assert everything(moved) == before
    assert canary.request("PUT", "/v1/channels/gr/canary", json={"digest": DIGEST}).status_code == 201


def test_an_ensemble_of_another_algorithm_is_neither_published_nor_read(moved, problem):
    reno = moved.limited("publish", "read", ccas=["reno"])
    before = everything(moved)
    document = problem(reno.request("POST", "/v1/ensembles", json=make_ensemble(7).to_json()), status=403)
    assert "publish for the algorithm gr" in document["detail"]
    problem(reno.get(f"/v1/ensembles/{DIGEST}"), status=403)
    assert everything(moved) == before


def test_a_report_in_the_name_of_another_agent_is_refused_and_changes_nothing(moved, problem):
    agent = moved.limited("report", "read", agent_id="web-2")
    before = everything(moved)
    # The endpoint answers a report of an unusual type. The shortcut in front of it answers all others.
    for kind in ("application/json", "application/x+json"):
        headers = {"Content-Type": kind}
        answer = agent.request("POST", "/v1/agents/web-1/reports", content=json.dumps(REPORT), headers=headers)
        document = problem(answer, status=403)
        assert "report for the agent web-1, got one for web-2" in document["detail"]
    assert everything(moved) == before
    assert report(agent, "web-2").status_code == 204


def test_lists_show_only_what_the_caller_may_read(moved):
    add_signature(moved, moved.publish(2), KEYS.publisher)
    moved.move(2, channel="canary")
    report(moved, "web-2", channel="canary")
    report(moved, "web-3", cca="reno")
    gr = moved.limited("read", ccas=["gr"], channels=["canary"])
    assert [row["channel"] for row in gr.get("/v1/channels").json()["items"]] == ["canary"]
    assert [row["agent_id"] for row in gr.get("/v1/agents").json()["items"]] == ["web-2"]
    assert len(gr.get("/v1/ensembles").json()["items"]) == 3
    reno = moved.limited("read", ccas=["reno"])
    assert reno.get("/v1/channels").json()["items"] == reno.get("/v1/ensembles").json()["items"] == []
    assert [row["agent_id"] for row in reno.get("/v1/agents").json()["items"]] == ["web-3"]
    agent = moved.limited("read", "report", agent_id="web-1")
    assert [row["agent_id"] for row in agent.get("/v1/agents").json()["items"]] == ["web-1"]


def test_an_expired_and_a_revoked_token_are_refused_and_change_nothing(moved, problem):
    expired = moved.limited("publish", "move", "report", "read", lifetime_s=60)
    revoked = moved.limited("admin", principal="leaver")
    assert expired.get(CHAMPION).status_code == revoked.get(CHAMPION).status_code == 200
    token_id = moved.get("/v1/tokens", params={"principal": "leaver"}).json()["items"][0]["id"]
    assert moved.request("DELETE", f"/v1/tokens/{token_id}").json()["state"] == "revoked"
    moved.clock.advance(seconds=60)
    before = everything(moved)
    details = set()
    for number, caller in enumerate((expired, revoked, moved.with_token("ccat_0123456789abcdef_" + "x" * 43))):
        # Three operations each, because a tenth refused token is the last one that is looked up.
        for operation in list(OPERATIONS)[number::7][:3]:
            document = problem(send(caller, operation, admin=moved), status=401)
            assert document["type"] == "urn:ccatune:problem:not-authenticated"
            details.add(document["detail"])
    assert len(details) == 1, "the words do not tell an unknown token from an expired or a revoked one"
    assert everything(moved) == before


def test_a_token_with_all_rights_can_have_no_limits(moved, problem):
    for limit in ({"ccas": ["gr"]}, {"channels": ["canary"]}, {"agent_id": "web-1"}):
        answer = moved.request("POST", "/v1/tokens", json={**TOKEN, "scopes": ["admin"], **limit})
        assert "expected no limits" in problem(answer, status=422)["detail"]

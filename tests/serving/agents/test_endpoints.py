# SPDX-License-Identifier: MIT
"""/v1/agents"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.service

DIGEST = "sha256:" + "a" * 64
REPORT = {
    "cca": "gr",
    "channel": "champion",
    "state": "InSync",
    "error": None,
    "offered_digest": DIGEST,
    "offered_serial": 4,
    "effective_digest": DIGEST,
    "effective_serial": 4,
    "kernel_version": "6.1.0-25-amd64",
    "module_version": "0.1.0",
}


def report(api, agent_id="server-1", **changes):
    """Send a report with those changes."""
    return api.request("POST", f"/v1/agents/{agent_id}/reports", json={**REPORT, **changes})


def test_the_latest_report_of_an_agent_is_listed_with_its_age(api):
    report(api, state="Starting")
    assert api.get("/v1/agents").json()["items"][0]["labels"] == {}
    api.clock.advance(seconds=10)
    report(api, labels={"site": "fra1"})
    api.clock.advance(seconds=2.5)
    assert api.get("/v1/agents").json()["items"] == [
        {
            **REPORT,
            "agent_version": None,
            "agent_id": "server-1",
            "received_at": "2026-03-01T12:00:10Z",
            "age_s": 2.5,
            "labels": {"site": "fra1"},
            "run_id": None,
            "shared_id": False,
        }
    ]


def test_each_agent_and_algorithm_has_a_row_of_its_own(api):
    report(api)
    report(api, cca="reno")
    report(api, agent_id="server-2", channel="canary")
    rows = api.get("/v1/agents").json()["items"]
    assert [(row["agent_id"], row["cca"]) for row in rows] == [
        ("server-1", "gr"),
        ("server-1", "reno"),
        ("server-2", "gr"),
    ]
    assert len(api.get("/v1/agents", params={"cca": "gr"}).json()["items"]) == 2
    assert [row["agent_id"] for row in api.get("/v1/agents", params={"channel": "canary"}).json()["items"]] == [
        "server-2"
    ]


def test_the_list_pages_to_its_end(api):
    names = [f"server-{number}" for number in range(5)]
    for name in names:
        report(api, agent_id=name)
    first = api.get("/v1/agents", params={"limit": 3}).json()
    rest = api.get("/v1/agents", params={"limit": 3, "cursor": first["next_cursor"]}).json()
    assert [row["agent_id"] for row in first["items"] + rest["items"]] == names
    assert rest["next_cursor"] is None


def test_an_agent_without_a_table_reports_no_digest_and_serial_zero(api):
    nothing = {"offered_digest": None, "offered_serial": 0, "effective_digest": None, "effective_serial": 0}
    assert report(api, **nothing, module_version=None, state="Incompatible", error="no module").status_code == 204
    row = api.get("/v1/agents").json()["items"][0]
    assert (row["effective_digest"], row["effective_serial"], row["error"]) == (None, 0, "no module")


def test_an_agent_newer_than_the_registry_is_still_heard(api):
    assert report(api, state="Paused", flows=12).status_code == 204
    assert "flows" not in api.get("/v1/agents").json()["items"][0]


def test_an_error_of_any_length_and_text_does_not_lose_the_report(api):
    assert report(api, error="\x00" + "e" * 10_000).status_code == 204
    assert api.get("/v1/agents").json()["items"][0]["error"] == "\ufffd" + "e" * 3999


@pytest.mark.parametrize(
    "changes",
    [{"cca": "nothing"}, {"run_id": ""}, {"run_id": "r" * 65},
     {"state": ""}, {"state": "two words"}, {"offered_digest": "x"}, {"offered_serial": -1},
     {"effective_serial": 2**63}, {"channel": ".."}, {"labels": {"site": "a b"}}],
)  # fmt: skip
def test_an_invalid_report_is_a_422_problem(api, problem, changes):
    problem(report(api, **changes), status=422)
    assert api.get("/v1/agents").json()["items"] == []


def test_an_age_is_unknown_after_the_clock_was_set_back(api):
    report(api)
    api.clock.advance(seconds=-60)
    assert api.get("/v1/agents").json()["items"][0]["age_s"] is None
    report(api)
    assert api.get("/v1/agents").json()["items"][0]["age_s"] == 0.0


def test_an_operator_removes_an_agent_with_all_its_reports(api, problem):
    report(api)
    report(api, cca="reno")
    report(api, agent_id="server-2")
    assert api.request("DELETE", "/v1/agents/server-1").status_code == 204
    assert [row["agent_id"] for row in api.get("/v1/agents").json()["items"]] == ["server-2"]
    assert problem(api.request("DELETE", "/v1/agents/server-1"), status=404)["type"].endswith(":agent-not-found")
    report(api)
    assert len(api.get("/v1/agents").json()["items"]) == 2


def test_agents_are_listed_by_their_state(api, problem):
    report(api)
    report(api, "server-2", state="Offline")
    listed = api.get("/v1/agents", params={"state": "Offline"}).json()["items"]
    assert [row["agent_id"] for row in listed] == ["server-2"]
    assert api.get("/v1/agents", params={"state": "Degraded", "cca": "gr"}).json()["items"] == []
    problem(api.get("/v1/agents", params={"state": "two words"}), status=422)

# SPDX-License-Identifier: MIT
"""Two agents under one id, and agents that are silent"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from serving import retention
from serving.agents import repository, service
from serving.agents.retention import AgentRetention
from tests.serving.agents.test_intake import a_report
from tests.serving.api import START
from tests.serving.running import Running

pytestmark = pytest.mark.service

DAY_S = 86_400.0


def report(api: Any, run_id: str | None, *, agent_id: str = "server-1", after_s: float = 30.0) -> dict[str, Any]:
    """Report some seconds after the report before, and return the row."""
    api.clock.advance(seconds=after_s)
    body = {"cca": "gr", "channel": "champion", "state": "InSync", "run_id": run_id}
    assert api.request("POST", f"/v1/agents/{agent_id}/reports", json=body).status_code == 204
    rows = api.get("/v1/agents").json()["items"]
    return dict(next(row for row in rows if row["agent_id"] == agent_id))


def shared(api: Any, runs: str, *, after_s: float = 30.0) -> list[bool]:
    """Whether the id is marked after each report of these runs, `-` for a report without one."""
    return [report(api, None if run == "-" else run, after_s=after_s)["shared_id"] for run in runs]


def test_two_agents_that_alternate_under_one_id_are_marked_until_one_is_gone(api):
    assert shared(api, "aabab") == [False, False, False, True, True]
    assert report(api, "b")["run_id"] == "b"
    assert report(api, "b", after_s=601)["shared_id"] is False


def test_an_agent_that_is_started_again_and_again_is_not_marked(api):
    assert shared(api, "aabbcdefg") == [False] * 9


def test_an_agent_that_returns_after_a_long_time_is_not_marked(api):
    assert shared(api, "ab") == [False, False]
    assert report(api, "a", after_s=601)["shared_id"] is False


def test_reports_without_a_run_change_nothing(api):
    assert shared(api, "-a-a-") == [False] * 5
    assert report(api, None)["run_id"] == "a"


def test_runs_that_alternate_within_one_batch_are_marked(api):
    reports = [a_report(1, run_id=run) for run in ("a", "a", "b")]
    with api.database.write() as session:
        service.store(session, reports)
    with api.database.write() as session:
        service.store(session, [a_report(1, run_id=run) for run in ("a", "b")])
    (row,) = api.get("/v1/agents").json()["items"]
    assert (row["run_id"], row["shared_id"]) == ("b", True)


def sweep(api: Any, *, step_rows: int = 500) -> list[str]:
    """Sweep once, and return the ids of the agents that are left."""
    asyncio.run(api.part(AgentRetention).round(step_rows=step_rows))
    return [row["agent_id"] for row in api.get("/v1/agents").json()["items"]]


def test_silent_agents_are_deleted_after_the_retention_time_and_not_before(api):
    for number in range(5):
        report(api, "a", agent_id=f"old-{number}")
    report(api, "a", agent_id="young", after_s=DAY_S)
    report(api, "a", agent_id="old-2")
    api.clock.advance(seconds=29 * DAY_S - 300)
    kept = ["old-0", "old-1", "old-2", "old-3", "old-4", "young"]
    assert sorted(sweep(api, step_rows=2)) == kept
    api.clock.advance(seconds=600)
    assert sorted(sweep(api, step_rows=2)) == ["old-2", "young"]


def test_an_agent_that_reports_while_it_is_being_deleted_stays(api):
    report(api, "a")
    before = api.clock.now + timedelta(days=1)
    with api.database.read() as session:
        ids = repository.ids_older(session, before=before, after_id=0, limit=10)
    report(api, "a", after_s=2 * DAY_S)
    with api.database.write() as session:
        repository.delete_older(session, ids, before=before)
    assert len(api.get("/v1/agents").json()["items"]) == len(ids) == 1


def test_a_running_registry_sweeps_by_itself(api, monkeypatch):
    monkeypatch.setattr(retention.Retention, "first_s", 0.01)
    with api.database.write() as session:
        service.store(session, [replace(a_report(1), received_at=START - timedelta(days=365))])
    with Running(api.database):
        deadline_s = time.monotonic() + 20
        while api.get("/v1/agents").json()["items"]:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)

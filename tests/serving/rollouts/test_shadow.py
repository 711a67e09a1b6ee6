# SPDX-License-Identifier: MIT
"""The shadow gate of a registry"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import ccatune
from tests.serving.api import Api
from tests.serving.rollouts.test_service import AGENTS, PLAN, ROLLOUTS, report
from tests.serving.running import Running

pytestmark = pytest.mark.service


@pytest.fixture
def fleet(api: Api) -> Api:
    """A registry that requires the gate, whose champion has forty agents."""
    api.move(0)
    for agent in AGENTS:
        report(api, agent, serial=1, within=0.9, sequence=1)
    settings = api.app.state.context.settings
    object.__setattr__(settings, "shadow_gate", "required")
    return api


def shadow(api: Api, change: float = 0.0, *, half: float = 0.005, **changes: Any) -> dict[str, Any]:
    """A comparison in which the candidate changes the share within the target so much."""
    by = {"change": change, "interval": [change - half, change + half]}
    none = {"change": 0.0, "interval": [-0.01, 0.01]}
    return {"baseline_digest": api.publish(0), "candidate_digest": api.publish(1), "recordings": 3, "hours": 1.5,
            "datasets": ["made"], "path": {"rtt_ms": 100.0}, "further": 1,
            "targets": [{"target_ms": 50.0, "within_target": by, "goodput": none}], **changes}  # fmt: skip


def start(api: Api, **body: Any) -> Any:
    """Request a roll-out."""
    return api.request("POST", ROLLOUTS, json={"digest": api.publish(1), "plan": PLAN, **body})


def test_a_candidate_that_was_not_compared_or_is_worse_is_refused(fleet: Api, problem: Any) -> None:
    for given, words in (
        (None, "were not compared in the simulator"),
        (shadow(fleet, -0.03), "within_target of the target 50 ms is worse by 3.0 % [2.5, 3.5], the margin is 2 %"),
        (shadow(fleet, baseline_digest=fleet.publish(2)), "as its baseline, and the roll-out has"),
        (shadow(fleet, candidate_digest=fleet.publish(2)), "as its candidate, and the roll-out has"),
    ):
        document = problem(start(fleet, shadow=given), status=409)
        assert document["type"] == "urn:ccatune:problem:shadow-gate"
        assert words in document["detail"]
    assert fleet.get(ROLLOUTS).json()["items"] == []
    problem(start(fleet, shadow=shadow(fleet, targets=[])), status=422)


@pytest.mark.parametrize(("change", "half"), [(0.0, 0.005), (-0.019, 0.001), (-0.03, 0.04)])
def test_a_candidate_that_is_not_worse_begins_and_the_record_has_the_figures(
    fleet: Api, change: float, half: float
) -> None:
    given = shadow(fleet, change, half=half)
    begun = start(fleet, shadow=given).json()
    event = fleet.get(f"{ROLLOUTS}/{begun['id']}/events").json()["items"][0]
    assert event["reasons"][2] == "In the simulator the candidate is not worse than the baseline by more than a margin."
    assert event["evidence"]["shadow"]["targets"] == given["targets"]


def test_a_reason_overrides_the_gate_and_the_audit_log_keeps_it(fleet: Api) -> None:
    begun = start(fleet, shadow=shadow(fleet, -0.03), force="the path model is old")
    assert begun.status_code == 201, begun.text
    row = fleet.get("/v1/audit", params={"action": "override-shadow-gate"}).json()["items"][0]
    assert row["details"]["reason"] == "the path model is old"
    assert "is worse by 3.0 %" in row["details"]["objections"][0]
    reasons = fleet.get(f"{ROLLOUTS}/{begun.json()['id']}/events").json()["items"][0]["reasons"]
    assert reasons[-1] == "It begins nevertheless: the path model is old"


def test_without_the_setting_only_a_comparison_that_is_given_counts(fleet: Api, problem: Any) -> None:
    object.__setattr__(fleet.app.state.context.settings, "shadow_gate", "off")
    problem(start(fleet, shadow=shadow(fleet, -0.03)), status=409)
    assert start(fleet).status_code == 201


@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_the_command_sends_file_and_reason(
    fleet: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CCATUNE_TOKEN", fleet.token or "")
    file = tmp_path / "shadow.json"
    # The registry on the port has the time of this machine.
    fleet.clock.now = datetime.now(UTC)
    for agent in AGENTS:
        report(fleet, agent, serial=1, within=0.9, sequence=2)
    with Running(fleet.database, open=False, shadow_gate="required") as registry:
        usual = ["rollout", "start", "gr", "champion", fleet.publish(1), "--url", registry.url]
        file.write_text("{}")
        assert ccatune.run([*usual, "--shadow", str(file)]) == 2
        assert "expected what `ccatune evaluate --baseline --json` prints" in capsys.readouterr().err
        file.write_text(json.dumps(shadow(fleet, -0.03)))
        assert ccatune.run([*usual, "--shadow", str(file)]) == 2
        assert "is worse by 3.0 %" in capsys.readouterr().err
        assert ccatune.run([*usual, "--shadow", str(file), "--force", "the path model is old"]) == 0
        assert "It is running in step 1 of 4" in capsys.readouterr().out

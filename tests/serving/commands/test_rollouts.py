# SPDX-License-Identifier: MIT
"""ccatune rollout, against a registry behind a socket."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.serving.api import Api, Command
from tests.serving.rollouts.test_service import AGENTS, PLAN, Fleet, report
from tests.serving.rollouts.test_switchback import Switching
from tests.serving.running import Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


def test_an_aborted_roll_out_is_explained_in_words_and_figures(api: Api, run_command: Command) -> None:
    fleet = Fleet(api)
    fleet.report(candidate=0.8)
    fleet.judge(after_s=900)
    with Running(api.database) as registry:
        status, out, _ = run_command("rollout", "explain", "gr", "champion", "--url", registry.url)
        assert status == 0
        words = " ".join(out.split())
        assert "aborted in step 1 of 1, with the candidate on 8 of 40 servers. All are offered the baseline" in words
        assert f"8 of 40 servers get the ensemble {fleet.digest}, the candidate." in words
        assert "is 9.9 percentage points lower on the 8 servers with the candidate (80.2 %) than on the 32" in words
        assert "12:15 UTC: abort, by the registry itself" in words
        assert "the difference cannot be explained by chance. The roll-out is therefore aborted." in words
        assert max(map(len, out.splitlines()[1:])) <= 80
        found = json.loads(run_command("rollout", "explain", "gr", "champion", "--json", "--url", registry.url)[1])
        assert [event["action"] for event in found["events"]] == ["start", "abort"]
        listed = run_command("rollout", "status", "gr", "champion", "--url", registry.url)[1]
        assert "aborted" in listed
        assert "8 of 40" in listed
        status, _, errors = run_command("rollout", "resume", "gr", "champion", "--url", registry.url)
        assert status != 0
        assert "expected it to be paused for resume, it is aborted" in " ".join(errors.split())


def test_a_switchback_shows_its_block_and_its_table(api: Api, run_command: Command) -> None:
    fleet = Switching(api)
    arm = fleet.get()["arm"]
    with Running(api.database) as registry:
        words = ("gr", "champion", "--url", registry.url)
        assert f"block 1, {arm}" in run_command("rollout", "status", *words)[1]
        out = " ".join(run_command("rollout", "explain", *words)[1].split())
        assert f"It is running in block 1: all 2 servers are offered the {arm}." in out
        out = " ".join(run_command("rollout", "pause", *words)[1].split())
        assert "It is paused after block 1 until someone resumes, aborts or promotes it: all 2 servers are" in out


def test_a_plan_is_rehearsed_and_then_begun(api: Api, run_command: Command, tmp_path: Path) -> None:
    # The registry behind the socket has the real time.
    api.clock.now = datetime.now(tz=UTC)
    api.move(0)
    digest = api.publish(1)
    for number, agent in enumerate(AGENTS):
        report(api, agent, serial=1, within=0.9 + 0.001 * (number % 5), sequence=1)
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(PLAN))
    with Running(api.database) as registry:
        words = ("gr", "champion", digest, "--plan", plan, "--url", registry.url)
        status, out, errors = run_command("rollout", "start", *words, "--dry-run")
        assert (status, errors) == (0, "")
        assert out.startswith("step 1, 8 servers: ")
        status, out, errors = run_command("rollout", "start", *words, "--note", "better")
        assert (status, errors) == (0, "")
        assert "running in step 1 of 1: 8 of 40 servers are offered the candidate" in out
        paused = run_command("rollout", "pause", "gr", "champion", "--json", "--url", registry.url)[1]
        assert json.loads(paused)["state"] == "paused"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps: [{share: 0.1}]", "at most 5 times as large"),
        ("alpha: 2", "alpha: expected less than or equal to 0.2, got 2"),
        ("steps: []", "steps: expected at least 1 item, got 0"),
        ("speed: 1", "speed: expected one of steps, limits, must_improve"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_sent(
    api: Api, run_command: Command, tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    digest = api.publish(1)
    status, _, errors = run_command("rollout", "start", "gr", "champion", digest, "--plan", path)
    assert status != 0
    assert str(path) in errors
    assert message in " ".join(errors.split())

# SPDX-License-Identifier: MIT
"""`ccatune retrain`, against a registry behind a socket"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.serving.api import Api, Command, make_ensemble
from tests.serving.conftest import STUDIES
from tests.serving.retraining.loop import POLICY, Loop
from tests.serving.running import Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]


def ending(loop: Loop) -> str:
    """A pattern of the words that the newest retraining has ended, and that the channel rests for a week."""
    until = datetime.fromisoformat((loop.newest() or {})["ended_at"]) + timedelta(days=7)
    return f"It ended .* Until {until:%Y-%m-%d %H:%M} UTC no retraining is proposed, even if the flows drift"


def test_show_says_where_it_stands_why_and_what_to_do(
    api: Api, run_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The registry behind the socket has the real time.
    api.clock.now = datetime.now(tz=UTC)
    loop = Loop(api)
    file = tmp_path / "retraining.yaml"
    file.write_text(json.dumps(POLICY))
    channel = ("gr", "champion")

    def run(*words: object) -> str:
        status, out, error = run_command("retrain", *words)
        assert (status, error) == (0, ""), error
        return out

    with Running(api.database, studies=STUDIES, datasets=["made"]) as registry:
        monkeypatch.setenv("CCATUNE_REGISTRY_URL", registry.url)
        said = " ".join(run("set", *channel, "--policy", file).split())
        assert said == (
            "Policy of gr/champion: when its flows drift, train gr-demo on made, compare both ensembles on made with "
            "the path model cellular, and roll out by a plan of 1 steps; training and roll-out each wait for a person."
        )
        assert run("show", *channel).endswith("One is proposed when its flows drift.\n")
        loop.round(after_s=0)
        shown = run("show", *channel)
        assert "flows are in other states than in training" in " ".join(shown.split())
        assert shown.splitlines()[-2:] == [
            "next: ccatune retrain approve gr champion training", "or:   ccatune retrain dismiss gr champion",
        ]  # fmt: skip
        assert max(map(len, shown.splitlines())) <= 80
        assert "next: ccatune jobs show 1 --watch" in run("approve", *channel, "training", "--note", "links of May")
        loop.train(change=-0.03)
        loop.round(after_s=0)
        shown = run("show", *channel)
        assert "within_target of the target 50 ms is worse by 3.0 %" in " ".join(shown.split())
        assert 'next: ccatune retrain approve gr champion roll-out --force "REASON"' in shown
        status, _, error = run_command("retrain", "approve", *channel, "roll-out")
        assert (status, "409 In the simulator within_target" in error) == (2, True)
        words = ("approve", *channel, "roll-out", "--force", "the path model is old", "--json")
        assert json.loads(run(*words))["state"] == "rolling-out"
        assert "next: ccatune rollout explain gr champion" in run("show", *channel)
        assert json.loads(run("show", *channel, "--json"))["newest"]["candidate"] == make_ensemble(5).digest
        listed = run("list", *channel).splitlines()[1].split()
        assert listed[:5] == ["1", "rolling-out", "1", make_ensemble(5).digest[7:19], "1"]
        status, _, error = run_command("retrain", "remove", *channel)
        assert (status, "expected no retraining under way" in error) == (2, True)
        run_command("rollout", "abort", *channel)
        loop.round(after_s=0)
        assert re.search(ending(loop), " ".join(run("show", *channel).split()))
        assert "ccatune jobs show 2 --watch" in run("start", *channel, "--note", "new uplink")
        assert "dismissed" in run("dismiss", *channel, "--note", "not now")
        assert run("remove", *channel) == "gr/champion: the policy is removed\n"
        file.write_text("study: gr-demo\n")
        status, _, error = run_command("retrain", "set", *channel, "--policy", file)
        assert (status, "retraining.yaml: compare: expected it, got nothing" in error) == (2, True)
        digest = make_ensemble(5).digest
        words = ("submit", "gr-demo", "--dataset", "made", "--compare-with", digest[:20])
        status, _, error = run_command("jobs", *words)
        assert (status, "--compare-with and --compare-dataset together" in error) == (2, True)
        assert run_command("jobs", *words, "--compare-dataset", "made")[:2] == (0, "job 3: queued\n")
        shown = run_command("jobs", "show", 3)[1]
        assert f"later with {digest[7:19]} over made" in " ".join(shown.split())

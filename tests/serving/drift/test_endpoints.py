# SPDX-License-Identifier: MIT
"""/v1/channels/{cca}/{name}/drift, the field in the list, and the command"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import ccatune
from tests.serving.api import make_ensemble
from tests.serving.qos.deltas import delta
from tests.serving.running import CHAMPION, Running

pytestmark = pytest.mark.service

TRAINED = replace(
    make_ensemble(0),
    provenance={
        "states": [
            {"state": [state], "class": delay_class, "own_epochs": 1000, "training": {"share_within": 0.9}}
            for state in range(4)
            for delay_class in range(2)
        ]
    },
)
# Of EPOCH a tenth of the samples are late, as of the training.
EVEN = [(False, 0, state, 300) for state in range(4)]
SKEWED = [(False, 0, 3, 3000)]


@pytest.fixture
def trained(api):
    """A registry whose champion is an ensemble with figures of its training, serial 1."""
    assert api.request("POST", "/v1/ensembles", json=TRAINED.to_json()).status_code == 201
    move(api)
    return api


def move(api):
    """Point the champion to the trained ensemble."""
    assert api.request("PUT", CHAMPION, json={"digest": TRAINED.digest}).is_success


def report(api, sequence, rows, **table):
    """Send a report with these rows."""
    body = {"cca": "gr", "channel": "champion", "state": "InSync", "sums": delta(sequence, rows, **table)}
    assert api.request("POST", "/v1/agents/web-1/reports", json=body).status_code == 204


def verdict(api, **params):
    """The verdict of the details."""
    answer = api.get(f"{CHAMPION}/drift", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["verdict"]


def test_flows_of_the_current_ensemble_are_compared_under_whatever_serial(trained):
    assert verdict(trained) == "unknown"
    report(trained, 1, EVEN)
    found = trained.get(f"{CHAMPION}/drift").json()
    assert (found["verdict"], found["serial"], found["hours"]) == ("ok", 1, 24)
    assert found["stability_index"] == pytest.approx(0)
    assert found["rows"][0] == {
        "state": 0, "class": 0, "verdict": "ok", "epochs": 300, "late_share": pytest.approx(0.1),
        "allowed_late_share": pytest.approx(0.1), "late_ratio": pytest.approx(1), "mean_delay_us": 30_000.0,
    }  # fmt: skip
    # Flows that are held back, or use another ensemble or channel, are not.
    report(trained, 2, [(True, 0, 3, 9000)])
    trained.move(1)
    report(trained, 3, SKEWED, serial=2)
    # The ensemble of serial 2 has no figures of its training, so its class alone allows late samples.
    assert trained.get(f"{CHAMPION}/drift").json()["rows"][0]["late_ratio"] == pytest.approx(2)
    assert verdict(trained) == "watch"
    move(trained)
    trained.move(1, channel="canary")
    report(trained, 4, SKEWED, channel="canary")
    assert verdict(trained) == "ok"
    report(trained, 5, SKEWED, serial=3)
    assert verdict(trained) == "drifted"
    trained.clock.advance(seconds=26 * 3600)
    assert verdict(trained) == "unknown"
    assert verdict(trained, hours=48) == "drifted"


def test_the_list_has_verdicts_at_most_a_minute_old_and_of_the_current_ensemble(trained):
    def listed():
        return trained.get("/v1/channels").json()["items"][0]["drift"]

    assert listed()["verdict"] == "unknown"
    report(trained, 1, SKEWED)
    assert listed()["verdict"] == "unknown"
    trained.clock.advance(seconds=60)
    assert listed()["verdict"] == "drifted"
    assert "flows are in other states than in training" in listed()["reason"]
    trained.move(1)
    assert listed()["verdict"] == "unknown"


def test_a_token_of_one_agent_or_another_channel_sees_no_drift(trained, problem):
    agent = trained.limited("read", agent_id="web-1")
    assert agent.get("/v1/channels").json()["items"][0]["drift"] is None
    assert "got one for web-1" in problem(agent.get(f"{CHAMPION}/drift"), status=403)["detail"]
    problem(trained.limited("read", channels=["canary"]).get(f"{CHAMPION}/drift"), status=403)
    problem(trained.get("/v1/channels/gr/none/drift"), status=404)
    problem(trained.get(f"{CHAMPION}/drift", params={"hours": 0}), status=422)


@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_the_command_prints_the_verdict_and_enforces_it(trained, monkeypatch, capsys):
    monkeypatch.setenv("CCATUNE_TOKEN", trained.token)
    monkeypatch.setenv("COLUMNS", "100")
    trained.clock.now = trained.clock.now.replace(year=2030)
    report(trained, 1, SKEWED)
    with Running(trained.database, open=False) as registry:
        usual = ["--url", registry.url, "--hours", "1"]
        assert ccatune.run(["drift", "gr/champion", *usual, "--enforce"]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"gr/champion serial 1 {TRAINED.digest[7:19]}, last 1 hours: drifted"
        assert lines[-1].split() == ["0", "3", "3000", "30.0", "ms", "10.0%", "10.0%", "1.00", "ok"]
        assert ccatune.run(["drift", "gr/champion", *usual, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["verdict"] == "drifted"
        assert ccatune.run(["channels", "list", "--url", registry.url]) == 0
        assert "drifted" in capsys.readouterr().out
        assert ccatune.run(["drift", "champion", *usual]) == 2
    assert "such as gr/champion, got 'champion'" in capsys.readouterr().err

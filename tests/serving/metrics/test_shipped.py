# SPDX-License-Identifier: MIT
"""The shipped rules, scrape configuration and board, with promtool and with a real Prometheus of a loaded registry"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.serving.api import Api
from tests.serving.metrics.prometheus import Prometheus
from tests.serving.qos.deltas import delta
from tests.serving.running import CHAMPION, Running

AGENTS = [f"web-{number:02}" for number in range(20)]
PLAN = {"steps": [{"share": 0.2}], "limits": [{"metric": "within_target", "margin": 0.02}]}

_TEXT = {"type": "string", "minLength": 1}
_TARGET = {
    "type": "object", "additionalProperties": False, "required": ["refId", "expr", "legendFormat"],
    "properties": {"refId": {"pattern": "^[A-Z]$"}, "expr": _TEXT, "legendFormat": {"type": "string"},
                   "format": {"const": "table"}, "instant": {"type": "boolean"}},
}  # fmt: skip
_SOURCE = {"const": {"type": "prometheus", "uid": "${datasource}"}}
_GRID = {
    "type": "object", "additionalProperties": False, "required": ["h", "w", "x", "y"],
    "properties": {"h": {"minimum": 1}, "w": {"minimum": 1, "maximum": 24}, "x": {"minimum": 0}, "y": {"minimum": 0}},
}  # fmt: skip
_PANEL = {
    "type": "object", "additionalProperties": False, "required": ["id", "type", "title", "gridPos"],
    "properties": {
        "id": {"type": "integer"}, "type": {"enum": ["row", "stat", "timeseries", "table"]}, "title": _TEXT,
        "description": _TEXT, "collapsed": {"const": False}, "datasource": _SOURCE, "gridPos": _GRID,
        "fieldConfig": {"type": "object", "additionalProperties": False, "properties": {"defaults": {
            "type": "object", "additionalProperties": False,
            "properties": {"unit": _TEXT, "max": {"type": "number"}, "thresholds": {"type": "object"}}}}},
        "options": {"type": "object"}, "targets": {"type": "array", "minItems": 1, "items": _TARGET},
    },
    "if": {"properties": {"type": {"const": "row"}}}, "else": {"required": ["targets", "datasource", "description"]},
}  # fmt: skip
# The documented fields of Grafana's dashboards (JSON model, version 1) that the board uses.
BOARD = {
    "type": "object", "additionalProperties": False, "required": ["uid", "title", "schemaVersion", "panels"],
    "properties": {
        "uid": {"pattern": "^[a-z-]{1,40}$"}, "title": _TEXT, "description": _TEXT, "tags": {"items": _TEXT},
        "schemaVersion": {"minimum": 36}, "editable": {"type": "boolean"}, "graphTooltip": {"enum": [0, 1, 2]},
        "refresh": {"pattern": "^[0-9]+[smh]$"}, "time": {"required": ["from", "to"]}, "timezone": {"const": "browser"},
        "templating": {"properties": {"list": {"items": {"required": ["name", "type", "query"]}}}},
        "annotations": {"properties": {"list": {"items": {"required": ["name", "enable", "iconColor", "datasource"]}}}},
        "panels": {"type": "array", "items": _PANEL},
    },
}  # fmt: skip


@pytest.fixture
def configs(repository: Path) -> Path:
    """The folder of the shipped files."""
    for command in ("promtool", "prometheus"):
        if shutil.which(command) is None:
            pytest.skip(f"not installed: {command}")
    return repository / "configs" / "serving"


@pytest.fixture
def board(repository: Path) -> dict[str, Any]:
    """The board."""
    found: dict[str, Any] = json.loads((repository / "configs/serving/grafana-board.json").read_text(encoding="utf-8"))
    return found


def test_the_rules_are_valid_and_raise_what_their_tests_expect(configs):
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"],
                  ["check", "config", "--syntax-only", "prometheus.yml"]):  # fmt: skip
        done = subprocess.run(["promtool", *words], cwd=configs, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    rules = [rule for group in yaml.safe_load((configs / "alerts.yml").read_text("utf-8"))["groups"]
             for rule in group["rules"]]  # fmt: skip
    tests = (configs / "alerts.test.yml").read_text(encoding="utf-8")
    for rule in rules:
        assert set(rule["annotations"]) == {"summary", "meaning", "action"}, rule["alert"]
        assert f'"{rule["alert"]}"' in tests, "each alert is raised by a test"


def test_the_board_has_the_fields_of_the_model_and_its_panels_do_not_overlap(board):
    wrong = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(BOARD).iter_errors(board)]
    assert wrong == []
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    taken = [(x, y) for panel in board["panels"] for of in [panel["gridPos"]]
             for x in range(of["x"], of["x"] + of["w"]) for y in range(of["y"], of["y"] + of["h"])]  # fmt: skip
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


class Loaded:
    """A registry with agents, a move, a roll-out and jobs, whose agents go on to report."""

    def __init__(self, api: Api, client: httpx.Client) -> None:
        self.client = client
        self.sequence = 0
        api.move(0)
        api.move(1)
        self.report()
        self.post(f"{CHAMPION}/rollouts", digest=api.publish(2), plan=PLAN)
        for _ in range(2):
            self.post("/v1/jobs", study="gr-demo", datasets=["made"])
        self.post("/v1/jobs/leases", runner="trainer-1", lease="a" * 16, datasets=["made"])

    def post(self, path: str, **body: Any) -> None:
        answer = self.client.post(path, json=body)
        assert answer.is_success, answer.text

    def report(self) -> None:
        """Each agent reports what its flows met since its last report; one is behind, one in trouble."""
        self.sequence += 1
        changed: dict[str, dict[str, Any]] = {
            AGENTS[0]: {"effective_serial": 1}, AGENTS[1]: {"state": "Rejected", "error": "ERANGE"},
        }  # fmt: skip
        for agent in AGENTS:
            sums = delta(self.sequence, [(False, 0, 0, 3), (False, 1, 2, 2), (True, 0, 0, 1)], serial=2)
            said = {"cca": "gr", "channel": "champion", "state": "InSync", "effective_serial": 2, "sums": sums}
            self.post(f"/v1/agents/{agent}/reports", **(said | changed.get(agent, {})))
        etag = self.client.get(CHAMPION).headers["ETag"]
        held = self.client.get(CHAMPION, params={"wait": "0.1"}, headers={"If-None-Match": etag})
        assert held.status_code == 304


@pytest.fixture
def running(api: Api) -> Iterator[Running]:
    """The registry behind a port, whose figures are as new as a scrape."""
    settings = api.app.state.context.settings
    changed = {"open": False, "metrics_every_s": 0.1, "studies": settings.studies, "datasets": settings.datasets}
    with Running(api.database, **changed) as registry:
        yield registry


def queries(board: dict[str, Any]) -> dict[str, str]:
    """The queries of the board with the values of its variables, by panel and letter."""
    window = {"$window": "10s", "$cca": ".*", "$channel": ".*"}
    found = {f"{panel['title']} {target['refId']}": target["expr"] for panel in board["panels"]
             for target in panel.get("targets", [])}  # fmt: skip
    return {name: re.sub(r"\$\w+", lambda found: window[found[0]], expr) for name, expr in found.items()}


@pytest.mark.service
@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_a_prometheus_that_scrapes_a_loaded_registry_answers_each_query_of_the_board(
    api, running, configs, board, tmp_path
):
    token = api.new_token("read", principal="prometheus")
    with (
        httpx.Client(base_url=running.url, headers=api.headers, timeout=30) as client,
        Prometheus(tmp_path, configs=configs, registry_url=running.url, token=token) as prometheus,
    ):
        loaded = Loaded(api, client)
        prometheus.wait_for('up{job="ccatune"} == 1')
        loaded.report()
        prometheus.wait_for('rate(ccatune_qos_delay_samples_total{group="ensemble"}[10s]) > 0')
        prometheus.wait_for("rate(ccatune_http_poll_duration_seconds_count[10s]) > 0")
        prometheus.wait_for("increase(process_cpu_seconds_total[10s]) > 0")
        unanswered = {name: expr for name, expr in queries(board).items() if not prometheus.is_answered(expr)}
        assert unanswered == {}
        health = prometheus.rules()
        assert set(health.values()) == {"ok"}
        pending = {one["metric"]["alertname"] for one in prometheus.query("ALERTS")}
        assert "CcatuneAgentsInTrouble" in pending
        share = prometheus.query(
            'max by (class) (rate(ccatune_qos_delay_samples_within_target_total{group="ensemble"}[10s])) '
            '/ max by (class) (rate(ccatune_qos_delay_samples_total{group="ensemble"}[10s]))'
        )
        assert {one["metric"]["class"]: round(float(one["value"][1]), 6) for one in share} == {"0": 0.9, "1": 0.9}

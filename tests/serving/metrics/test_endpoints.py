# SPDX-License-Identifier: MIT
"""/metrics: who may read it, its formats, and what it says of requests, fleet and database"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from sqlalchemy.exc import OperationalError

from serving.agents.standing import SILENT_S
from serving.metrics.endpoints import Figures
from serving.metrics.fleet import FleetFigures
from tests.serving.api import Api, api_of
from tests.serving.qos.deltas import delta
from tests.serving.running import CHAMPION

pytestmark = pytest.mark.service

ONE_DATABASE = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
# They say when and by which process they were read.
OWN = ("ccatune_metrics_database_age", "ccatune_database_ping", "ccatune_database_size")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape waits for the database, however busy the machine is."""
    monkeypatch.setattr("serving.metrics.fleet._PATIENCE_S", 60.0)


def samples(text: str) -> dict[tuple[str, ...], float]:
    """The samples of an answer, by name and by the values of their labels in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def figures(api: Api) -> dict[tuple[str, ...], float]:
    """What /metrics says now: figures of the database are read again."""
    fleet = api.part(Figures).fleet
    fleet._next_s = 0.0
    answer = api.get("/metrics")
    assert answer.status_code == 200, answer.text
    return samples(answer.text)


def report(api: Api, agent: str, *, serial: int, state: str = "InSync", **said: Any) -> None:
    """Send an agent's report."""
    body = {"cca": "gr", "channel": "champion", "state": state, "effective_serial": serial, **said}
    answer = api.request("POST", f"/v1/agents/{agent}/reports", json=body)
    assert answer.status_code == 204, answer.text


def standings(found: dict[tuple[str, ...], float]) -> dict[str, float]:
    """How many agents of the champion stand how, without the zeros."""
    return {key[3]: value for key, value in found.items()
            if key[:3] == ("ccatune_agents_standing", "gr", "champion") and value}  # fmt: skip


@ONE_DATABASE
def test_figures_need_a_token_with_the_scope_read_and_without_limits(api, problem):
    problem(api.anonymous.get("/metrics"), status=401)
    problem(api.limited("move").get("/metrics"), status=403)
    for limits in ({"ccas": ["gr"]}, {"channels": ["champion"]}):
        assert "without limits" in problem(api.limited("read", **limits).get("/metrics"), status=403)["detail"]
    assert api.limited("read").get("/metrics").status_code == 200
    assert api_of(api.database, open=True).get("/metrics").status_code == 200


@ONE_DATABASE
def test_prometheus_reads_both_formats_and_finds_the_same_names_in_them(api):
    api.move(0)
    report(api, "web-1", serial=1, sums=delta(1))
    text, open_metrics = api.get("/metrics"), api.get("/metrics", headers=OPENMETRICS)
    assert text.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    names = {sample.name for family in parse_openmetrics(open_metrics.text) for sample in family.samples}
    assert {key[0] for key in samples(text.text)} <= names
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text.content, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")


@ONE_DATABASE
def test_requests_are_counted_by_operation_and_polls_do_not_count_as_slow(api):
    api.move(0)
    etag = api.get(CHAMPION).headers["etag"]
    assert api.get(CHAMPION, params={"wait": 0.2}, headers={"If-None-Match": etag}).status_code == 304
    # The second parameter leads past the shortcut.
    api.get(f"{CHAMPION}?wait=0&wait=0.2", headers={"If-None-Match": etag})
    report(api, "web-1", serial=1)
    api.request("HEAD", "/v1/agents")
    api.request("BREW", "/v1/agents")
    api.get("/nowhere/1")
    api.get("/nowhere/2")
    api.anonymous.get("/v1/agents")
    found = figures(api)
    route, reports = "/v1/channels/{cca}/{name}", "/v1/agents/{agent_id}/reports"
    requests = {key[1:]: value for key, value in found.items() if key[0] == "ccatune_http_requests_total"}
    assert requests[("GET", route, "2xx")] == 1
    assert requests[("GET", route, "3xx")] == 2
    assert requests[("POST", reports, "2xx")] == requests[("HEAD", "/v1/agents", "2xx")] == 1
    assert requests[("GET", "none", "4xx")] == 3, "two of no route, and one without a token"
    assert sum(value for (method, *_), value in requests.items() if method == "other") == 1
    assert not any("nowhere" in part for key in found for part in key), "no path becomes a label"
    assert found[("ccatune_http_request_duration_seconds_count", "GET", route, "2xx")] == 1
    assert ("ccatune_http_request_duration_seconds_count", "GET", route, "3xx") not in found
    assert found[("ccatune_http_poll_duration_seconds_count", route, "3xx")] == 2
    assert found[("ccatune_http_poll_duration_seconds_sum", route, "3xx")] >= 0.4


def test_delivery_is_told_by_the_agents_that_are_behind_and_by_what_they_miss(api):
    api.move(0)
    for agent in ("web-1", "web-2", "web-3", "web-4"):
        report(api, agent, serial=1)
    assert standings(figures(api)) == {"well": 4}
    api.clock.advance(seconds=10)
    api.move(1)
    api.clock.advance(seconds=20)
    api.move(2)
    report(api, "web-1", serial=3)
    report(api, "web-2", serial=2)
    report(api, "web-3", serial=1, state="Degraded", error="changed by hand")
    report(api, "web-5", serial=0, state="Word-of-a-newer-agent")
    found = figures(api)
    assert standings(found) == {"well": 1, "behind": 2, "trouble": 2}
    assert found[("ccatune_delivery_lag_seconds", "gr", "champion")] == 20, "web-4 has not reported since the move"
    assert found[("ccatune_agents", "gr", "champion", "other")] == 1
    assert found[("ccatune_channel_serial", "gr", "champion")] == 3
    report(api, "web-4", serial=3)
    assert figures(api)[("ccatune_delivery_lag_seconds", "gr", "champion")] == 0, "web-2 misses only the last one"
    api.clock.advance(seconds=SILENT_S + 1)
    assert standings(figures(api)) == {"silent": 5}
    api.request("DELETE", CHAMPION)
    assert figures(api)[("ccatune_agents", "other", "other", "InSync")] == 3


def test_jobs_runners_and_rollouts_are_counted_from_zero_on(api):
    api.move(0)
    found = figures(api)
    assert found[("ccatune_rollouts_ended_total", "gr", "champion", "aborted")] == 0
    assert found[("ccatune_jobs", "failed")] == found[("ccatune_runners",)] == 0
    for _ in range(2):
        assert api.request("POST", "/v1/jobs", json={"study": "gr-demo", "datasets": ["made"]}).status_code == 201
    api.clock.advance(seconds=60)
    lease = {"runner": "trainer-1", "lease": "a" * 16, "datasets": ["made"]}
    assert api.request("POST", "/v1/jobs/leases", json=lease).status_code == 200
    found = figures(api)
    assert (found[("ccatune_jobs", "queued")], found[("ccatune_jobs", "running")]) == (1, 1)
    assert found[("ccatune_jobs_queued_oldest_seconds",)] == 60
    assert found[("ccatune_runners",)] == found[("ccatune_runners_busy",)] == 1


def test_two_processes_on_one_database_have_the_same_figures_of_the_fleet(api):
    api.move(0)
    for number in range(3):
        report(api, f"web-{number}", serial=1, sums=delta(1, [(False, 0, 0, number + 1), (True, None, None, 1)]))
    other = api.other_process()

    def of_fleet(process: Api) -> dict[str, list[Any]]:
        fleet = process.part(Figures).fleet
        asyncio.run(fleet.refresh())
        return {family.name: sorted(map(str, family.samples)) for family in fleet.collect()
                if not family.name.startswith(OWN)}  # fmt: skip

    both = of_fleet(api), of_fleet(other)
    assert both[0] == both[1]
    assert any("value=600.0" in sample for sample in both[0]["ccatune_qos_delay_samples"])
    reports = ("ccatune_http_requests_total", "POST", "/v1/agents/{agent_id}/reports", "2xx")
    assert figures(api)[reports] == 3
    assert reports not in figures(other), "requests belong to a process"
    other.app.state.context.close()


@ONE_DATABASE
def test_the_last_figures_stay_with_their_age_while_the_database_does_not_answer(api, monkeypatch):
    now_s = 1000.0
    fleet = FleetFigures(api.app.state.context, monotonic=lambda: now_s)
    api.part(Figures).collected.unregister(api.part(Figures).fleet)
    api.part(Figures).collected.register(fleet)
    api.part(Figures).fleet = fleet
    api.move(0)
    report(api, "web-1", serial=1)
    assert standings(samples(api.get("/metrics").text)) == {"well": 1}
    report(api, "web-2", serial=1)
    now_s += 14.0
    found = samples(api.get("/metrics").text)
    assert (standings(found), found[("ccatune_metrics_database_age_seconds",)]) == ({"well": 1}, 14), "read every 15 s"

    def gone(*_: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception("gone"))

    now_s += 2.0
    with monkeypatch.context() as patch:
        patch.setattr("serving.metrics.repository.ping", gone)
        found = samples(api.get("/metrics").text)
    assert (standings(found), found[("ccatune_metrics_database_age_seconds",)]) == ({"well": 1}, 16)
    assert found[("ccatune_work_failures_total", "database", "reads")] == 1
    now_s += 16.0
    found = samples(api.get("/metrics").text)
    assert (standings(found), found[("ccatune_metrics_database_age_seconds",)]) == ({"well": 2}, 0)

# SPDX-License-Identifier: MIT
"""Pages of roll-outs: why one ended, the plan as a form, and what a person may do"""

from __future__ import annotations

import asyncio

import pytest

from serving.agents.endpoints import received
from serving.agents.schemas import AgentReport
from serving.agents.service import store
from serving.dashboard.rollout_start import defaults, plan_fields
from serving.rollouts import repository
from serving.rollouts.controller import RolloutController
from serving.rollouts.plan import Plan
from tests.serving.api import Api
from tests.serving.dashboard.reading import Page
from tests.serving.rollouts.test_service import AGENTS, HOUR_S, PLAN, ROLLOUTS, report_of

pytestmark = pytest.mark.service

PLACE = "/ui/channels/gr/champion"
SERVERS = AGENTS[:20]


def report(api: Api, *, sequence: int, candidates: frozenset[str] = frozenset(), within: float = 0.9) -> None:
    """Report of each server. candidates: those with serial 2, whose flows have this share within target."""
    reports = []
    for number, agent in enumerate(SERVERS):
        has_candidate = agent in candidates
        body = report_of(
            serial=2 if has_candidate else 1,
            within=(within if has_candidate else 0.9) + 0.001 * (number % 5),
            sequence=sequence,
        )
        reports.append(received(AgentReport.model_validate(body), agent_id=agent, now=api.clock()))
    with api.database.write() as session:
        store(session, reports)


def test_the_page_says_at_its_top_why_a_roll_out_was_aborted(api: Api) -> None:
    api.move(0)
    report(api, sequence=1)
    body = {"digest": api.publish(1), "note": "better?", "plan": PLAN}
    assert api.request("POST", ROLLOUTS, json=body).status_code == 201
    with api.database.read() as session:
        candidates = repository.candidates(session, 1, number=5)
    report(api, sequence=2, candidates=candidates, within=0.7)
    api.clock.advance(seconds=HOUR_S)
    asyncio.run(api.part(RolloutController).round())
    reason = api.get(f"{ROLLOUTS}/1/events").json()["items"][0]["reasons"][0]
    page = Page(api, f"{PLACE}/rollouts/1")
    assert page.text.index("It was aborted in step 1 of 1") < page.text.index(reason) < page.text.index("The last look")
    assert "by the registry, because:" in page.text
    assert "More than 2 percentage points lower share of delay samples within the target aborts it." in page.text
    assert "5 servers with the candidate, of which 5 silent" in page.text
    assert "15 servers with the baseline, of which 15 silent" in page.text
    # One look of two metrics: bounds, estimate and margin.
    assert "lower bound upper bound worse by margin" in page.text
    assert [form.action for form in page.forms if "rollouts" in form.action] == []
    listed = Page(api, "/ui/rollouts")
    assert "1 of gr/champion aborted" in listed.text


@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_the_form_of_a_plan_keeps_what_was_typed_and_starts_one_roll_out(api: Api) -> None:
    api.move(0)
    digest = api.publish(1)
    report(api, sequence=1)
    page = Page(api, f"{PLACE}/rollouts/start?digest={digest}")
    refused = page.send("/start", shares="0.01, 0.5", note="typed <b>")
    assert refused.status_code == 422
    assert "at most 5 times as large" in refused.text
    assert 'value="0.01, 0.5"' in refused.text
    assert "typed &lt;b&gt;" in refused.text
    assert page.send("/start", margin_goodput="x").status_code == 422
    rehearsed = page.send("/start", do="rehearse", shares="0.2, 0.5")
    assert "Nothing was changed" in rehearsed.text
    assert api.get("/v1/channels/gr/champion/rollouts").json()["items"] == []
    for _ in range(2):
        started = page.send("/start", shares="0.2, 0.5", note="better?", role_retransmission_rate="", urgent="1")
        assert started.headers["location"].endswith("rollouts/1")
    (row,) = api.get("/v1/channels/gr/champion/rollouts").json()["items"]
    assert [step["share"] for step in row["plan"]["steps"]] == [0.2, 0.5]
    assert [limit["metric"] for limit in row["plan"]["limits"]] == ["within_target", "goodput"]
    assert (row["digest"], row["note"]) == (digest, "better?")
    viewer = api.limited("read")
    running = Page(api, f"{PLACE}/rollouts/1")
    assert not [form for form in Page(viewer, f"{PLACE}/rollouts/1").forms if "rollouts" in form.action]
    assert running.send("/abort", by=viewer).status_code == 403
    assert running.send("/pause", note="wait").status_code == 303
    paused = Page(api, f"{PLACE}/rollouts/1")
    assert "It was paused in step 1 of 2" in paused.text
    assert "because: wait" in paused.text
    assert running.send("/pause").status_code == 409
    assert paused.send("/abort").status_code == 303


def test_the_form_has_the_usual_plan() -> None:
    assert Plan.model_validate(plan_fields(defaults())) == Plan()
    by_time = plan_fields({**defaults(), "switchback": "1", "least_hours": "1", "most_hours": "24"})
    assert Plan.model_validate(by_time).switchback is not None

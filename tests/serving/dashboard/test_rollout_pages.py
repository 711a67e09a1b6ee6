# SPDX-License-Identifier: MIT
"""Pages of roll-outs: why one ended, the plan as a form, and what a person may do"""

from __future__ import annotations

import asyncio

import httpx
import pytest

from serving.agents.endpoints import received
from serving.agents.schemas import AgentReport
from serving.agents.service import store
from serving.dashboard.rollout_start import defaults, plan_fields
from serving.rollouts import repository
from serving.rollouts.controller import RolloutController
from serving.rollouts.plan import Plan
from tests.serving.api import Api
from tests.serving.dashboard.forms import hidden, opened, send, words
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


@pytest.fixture
def site(api: Api) -> Api:
    """An open registry."""
    return opened(api)


def test_the_page_says_at_its_top_why_a_roll_out_was_aborted(api: Api, site: Api) -> None:
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
    page = site.get(f"{PLACE}/rollouts/1")
    text = words(page)
    assert text.index("It was aborted in step 1 of 1") < text.index(reason) < text.index("The last look")
    assert "by the registry, because:" in text
    assert "More than 2 percentage points lower share of delay samples within the target aborts it." in text
    assert "5 servers with the candidate, of which 5 silent" in text
    assert "15 servers with the baseline, of which 15 silent" in text
    # One look: bounds, estimate and margin.
    assert "lower bound upper bound worse by margin" in text
    assert 'method="post" action="../../../../channels/gr/champion/rollouts/1' not in page.text
    assert "1 of gr/champion aborted" in words(site.get("/ui/rollouts"))


@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_the_form_of_a_plan_keeps_what_was_typed_and_starts_one_roll_out(site: Api) -> None:
    site.move(0)
    start, typed = f"{PLACE}/rollouts/start", {**defaults(), "digest": site.publish(1), "shares": "0.2, 0.5"}
    report(site, sequence=1)
    page = hidden(site.get(start))

    def sent(**fields: str) -> httpx.Response:
        return site.request("POST", start, data={**page, **typed, **fields})

    refused = sent(shares="0.01, 0.5", note="typed <b>")
    assert refused.status_code == 422
    assert "at most 5 times as large" in refused.text
    assert 'value="0.01, 0.5"' in refused.text
    assert "typed &lt;b&gt;" in refused.text
    assert sent(margin_goodput="x").status_code == 422
    assert "Nothing was changed" in words(sent(do="rehearse"))
    assert site.get(ROLLOUTS).json()["items"] == []
    for _ in range(2):
        started = sent(note="better?", role_retransmission_rate="", urgent="1")
        assert started.headers["location"].endswith("rollouts/1")
    (row,) = site.get(ROLLOUTS).json()["items"]
    assert [step["share"] for step in row["plan"]["steps"]] == [0.2, 0.5]
    assert [limit["metric"] for limit in row["plan"]["limits"]] == ["within_target", "goodput"]
    assert (row["digest"], row["note"]) == (typed["digest"], "better?")
    place = f"{PLACE}/rollouts/1"
    assert send(site, place, f"{place}/pause", note="wait").status_code == 303
    paused = words(site.get(place))
    assert "It was paused in step 1 of 2 , just now by open, because: wait" in paused
    assert send(site, place, f"{place}/pause").status_code == 409
    assert "This aborts roll-out 1." in words(site.get(f"{PLACE}/rollback"))
    assert send(site, f"{PLACE}/rollback", f"{PLACE}/rollback", urgent="1").status_code == 303
    assert site.get(f"{ROLLOUTS}/1").json()["state"] == "aborted"


def test_the_form_has_the_usual_plan() -> None:
    assert Plan.model_validate(plan_fields(defaults())) == Plan()
    by_time = plan_fields({**defaults(), "switchback": "1", "least_hours": "1", "most_hours": "24"})
    assert Plan.model_validate(by_time).switchback is not None

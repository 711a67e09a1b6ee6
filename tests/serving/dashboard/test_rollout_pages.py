# SPDX-License-Identifier: MIT
"""Pages of roll-outs: why one ended, the plan as a form, and what a person may do"""

from __future__ import annotations

import pytest

from serving.dashboard.rollout_start import defaults, plan_fields
from serving.rollouts.plan import Plan
from tests.serving.api import Api
from tests.serving.dashboard.reading import Page
from tests.serving.rollouts.test_service import AGENTS, HOUR_S, Fleet, report

pytestmark = pytest.mark.service

PLACE = "/ui/channels/gr/champion"


def test_the_page_says_at_its_top_why_a_roll_out_was_aborted(api: Api) -> None:
    fleet = Fleet(api)
    fleet.report(candidate=0.7)
    assert fleet.judge(after_s=HOUR_S)["state"] == "aborted"
    page = Page(api, f"{PLACE}/rollouts/1")
    reason = fleet.events()[0]["reasons"][0]
    assert reason in page.text
    assert page.text.index("It was aborted in step 1 of 1") < page.text.index(reason) < page.text.index("The last look")
    assert "by the registry, because:" in page.text
    assert "More than 2 percentage points lower share of delay samples within the target aborts it." in page.text
    assert "8 servers with the candidate, of which 40 silent" not in page.text
    assert "32 servers with the baseline, of which 32 silent" in page.text
    # One look of two metrics: bounds, estimate and margin.
    assert "lower bound upper bound worse by margin" in page.text
    assert [form.action for form in page.forms if "rollouts" in form.action] == []
    listed = Page(api, "/ui/rollouts")
    assert "1 of gr/champion aborted" in listed.text


@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_the_form_of_a_plan_keeps_what_was_typed_and_starts_one_roll_out(api: Api) -> None:
    api.move(0)
    digest = api.publish(1)
    for agent in AGENTS:
        report(api, agent, serial=1, within=0.9, sequence=1)
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
    viewer = api.person("viewer")
    running = Page(api, f"{PLACE}/rollouts/1")
    assert [form.action for form in Page(viewer, f"{PLACE}/rollouts/1").forms if "rollouts" in form.action] == []
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

# SPDX-License-Identifier: MIT
"""Retraining of a real registry: from drift to promotion, by itself and by hand, and how it ends otherwise"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from serving.retraining import service
from serving.retraining.controller import RetrainingController
from tests.serving.api import Api, make_ensemble
from tests.serving.retraining.loop import BASELINE, POLICY, RETRAININGS, Loop, comparison
from tests.serving.running import CHAMPION

pytestmark = pytest.mark.service

NEW = make_ensemble(5).digest
HOUR_S = 3600.0
on_sqlite = pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)


class _Killed(BaseException):
    """Ends a transaction as a kill of the process does: nothing catches it."""


def test_an_automatic_policy_leads_from_drift_to_promotion_and_then_rests(api: Api) -> None:
    loop = Loop(api, automatic=True)
    proposed = loop.round()
    assert proposed is not None
    assert (proposed["state"], proposed["baseline"], proposed["started_by"]) == ("proposed", BASELINE, "retraining")
    assert "flows are in other states than in training" in proposed["reasons"][0]
    assert loop.state() == "training"
    assert loop.state() == "training", "the job waits for its runner"
    job = loop.lease()
    assert (job["compare"]["baseline"], job["compare"]["paths"]) == (BASELINE, "cellular")
    assert job["compare"]["document"]["digest"] == BASELINE
    loop.train()
    trained = loop.round()
    assert trained is not None
    assert (trained["state"], trained["candidate"], trained["objections"]) == ("trained", NEW, [])
    assert api.get(CHAMPION).json()["digest"] == BASELINE
    assert loop.state() == "rolling-out"
    assert loop.roll_out() == "promoted"
    assert loop.state() == "promoted"
    assert api.get(CHAMPION).json()["digest"] == NEW
    assert loop.actions()[1:] == [
        ("retraining", "open-retraining", ""),
        *(("retraining", "advance-retraining", state) for state in ("training", "trained", "rolling-out")),
        ("retraining", "end-retraining", "promoted"),
    ]
    # The new ensemble says nothing of its training, so the old one is deployed again to see a drift.
    api.request("PUT", CHAMPION, json={"digest": BASELINE})
    loop.report()
    assert loop.state() == "promoted", "it rests"
    api.clock.advance(seconds=168 * HOUR_S)
    loop.report()
    assert loop.state() == "proposed"


@on_sqlite
def test_by_hand_each_step_waits_for_someone_with_its_scope(api: Api, problem: Any) -> None:
    loop = Loop(api)
    assert [loop.state() for _ in range(3)] == ["proposed"] * 3
    trainer, roller = api.limited("train", principal="tom"), api.limited("roll-out", principal="rosa")
    problem(loop.approve("training", by=roller), status=403)
    document = problem(loop.approve("roll-out", by=roller), status=409)
    assert "expected it to be trained, it is proposed" in document["detail"]
    begun = loop.approve("training", by=trainer, note="links of May").json()
    assert (begun["state"], begun["note"]) == ("training", "links of May")
    job = api.get(f"/v1/jobs/{begun['job_id']}").json()
    assert (job["submitted_by"], job["note"]) == ("tom", "retraining 1 of gr/champion")
    problem(loop.approve("training", by=trainer), status=409)
    loop.train()
    assert [loop.state() for _ in range(2)] == ["trained"] * 2
    problem(loop.approve("roll-out", by=trainer), status=403)
    problem(loop.approve("roll-out", by=api.limited("roll-out", channels=["canary"])), status=403)
    begun = loop.approve("roll-out", by=roller).json()
    assert begun["state"] == "rolling-out"
    rollout = api.get(f"{CHAMPION}/rollouts/{begun['rollout_id']}").json()
    assert (rollout["digest"], rollout["plan"]["steps"][0]["share"]) == (NEW, 0.2)
    problem(api.request("POST", f"{RETRAININGS}/1/dismiss"), status=409)
    assert loop.roll_out(within=0.9) == "promoted"
    assert loop.state() == "promoted"
    assert [actor for actor, action, _ in loop.actions() if action == "advance-retraining"] == [
        "tom", "retraining", "rosa",
    ]  # fmt: skip


@on_sqlite
def test_an_automatic_policy_never_begins_against_an_objection(api: Api, problem: Any) -> None:
    loop = Loop(api, automatic=True)
    loop.round()
    loop.round()
    loop.train(change=-0.03)
    assert [loop.state() for _ in range(3)] == ["trained"] * 3
    found = loop.newest()
    assert found is not None
    assert "within_target of the target 50 ms is worse by 3.0 %" in found["objections"][0]
    assert found["obstacle"] is None
    document = problem(loop.approve("roll-out"), status=409)
    assert document["type"] == "urn:ccatune:problem:shadow-gate"
    assert loop.approve("roll-out", force="the path model is old").json()["state"] == "rolling-out"
    row = api.get("/v1/audit", params={"action": "override-shadow-gate"}).json()["items"][0]
    assert row["details"]["reason"] == "the path model is old"
    # A candidate that was aborted needs a reason the next time, whatever the simulator says.
    api.request("POST", f"{CHAMPION}/rollouts/1/abort")
    assert loop.state() == "aborted"
    assert api.request("POST", RETRAININGS, json={"note": "again"}).status_code == 201
    loop.train()
    assert loop.state() == "trained"
    assert loop.state() == "trained"
    assert (loop.newest() or {})["objections"] == ["Roll-out 1 of the same candidate was aborted."]


@on_sqlite
def test_a_changed_plan_counts_for_the_objections(api: Api) -> None:
    loop = Loop(api)
    api.request("POST", RETRAININGS)
    loop.train(change=-0.03)
    loop.round()
    plan = {**POLICY["plan"], "limits": [{"metric": "within_target", "margin": 0.05}]}
    api.request("PUT", f"{CHAMPION}/retraining", json={**POLICY, "automatic": True, "plan": plan})
    assert loop.state() == "rolling-out"


@on_sqlite
def test_a_training_ends_otherwise(api: Api) -> None:
    loop = Loop(api, is_drifting=False)

    def begin() -> None:
        assert api.request("POST", RETRAININGS, json={}).status_code == 201

    def ended() -> tuple[str, str]:
        found = loop.round() or {}
        return found["state"], found["outcome"]

    begin()
    job = loop.lease()
    body = {"lease": "r" * 16, "outcome": "failed", "error": "no traces"}
    api.request("POST", f"/v1/jobs/{job['id']}/end", json=body)
    assert ended() == ("failed", "Job 1 failed: no traces")
    begin()
    api.request("POST", "/v1/jobs/2/cancel")
    assert ended() == ("failed", "Job 2 was cancelled.")
    begin()
    api.request("POST", f"{RETRAININGS}/3/dismiss", json={"note": "maintenance"})
    assert ended() == ("dismissed", "maintenance")
    assert api.get("/v1/jobs/3").json()["state"] == "cancelled"
    # The training gives the ensemble that the channel has.
    api.move(5)
    begin()
    loop.train(note="")
    state, outcome = ended()
    assert (state, "Record the network anew" in outcome) == ("unchanged", True)
    # The comparison fails, so a person decides.
    begin()
    loop.train(6, error="expected two ensembles with the same delay classes")
    found = loop.round() or {}
    assert (found["state"], found["shadow"], len(found["objections"])) == ("trained", None, 2)
    assert "expected two ensembles with the same delay classes" in found["objections"][1]


@on_sqlite
def test_a_channel_that_is_moved_meanwhile_supersedes_its_retraining(api: Api, problem: Any) -> None:
    loop = Loop(api, is_drifting=False)
    api.request("POST", RETRAININGS)
    # A move to the same ensemble changes nothing.
    api.request("PUT", CHAMPION, json={"digest": BASELINE, "hold_back_permille": 100})
    assert loop.state() == "training"
    moved = api.move(9)["digest"]
    assert loop.state() == "superseded"
    assert api.get("/v1/jobs/1").json()["state"] == "cancelled"
    api.request("POST", RETRAININGS)
    loop.train(6, shadow=comparison(make_ensemble(6).digest, baseline=moved))
    assert loop.state() == "trained"
    api.move(10)
    document = problem(loop.approve("roll-out", number=2, force="whatever was compared"), status=409)
    assert "the channel was moved" in document["detail"]
    assert loop.state() == "superseded"
    api.request("POST", RETRAININGS)
    api.request("DELETE", CHAMPION)
    assert loop.state() == "superseded"


def test_what_cannot_be_done_stays_with_its_obstacle_and_is_tried_again(api: Api, problem: Any) -> None:
    loop = Loop(api, automatic=True, is_drifting=False)
    loop.report(agents=4)
    settings = api.app.state.context.settings
    object.__setattr__(settings, "datasets", ())
    loop.round()
    found = loop.round() or {}
    assert found["state"] == "proposed"
    assert "datasets: expected some of none, got made; start a runner" in found["obstacle"]
    object.__setattr__(settings, "datasets", ("made",))
    found = loop.round() or {}
    assert (found["state"], found["obstacle"]) == ("training", None)
    loop.train()
    loop.round()
    found = loop.round() or {}
    assert (found["state"], "expected at least 13 servers" in found["obstacle"]) == ("trained", True)
    assert api.get(f"{CHAMPION}/rollouts").json()["items"] == []
    assert "expected at least 13 servers" in problem(loop.approve("roll-out"), status=409)["detail"]
    # A roll-out of someone else is in the way, and does not supersede.
    loop.report()
    other = {"digest": api.publish(8), "plan": POLICY["plan"]}
    assert api.request("POST", f"{CHAMPION}/rollouts", json=other).status_code == 201
    found = loop.round() or {}
    assert (found["state"], "expected no roll-out under way" in found["obstacle"]) == ("trained", True)
    api.request("POST", f"{CHAMPION}/rollouts/1/abort")
    assert loop.state() == "rolling-out"


def test_two_processes_take_a_step_once_and_a_killed_one_leaves_nothing_half_done(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(api, automatic=True)
    other = api.other_process()
    # The lease of the first one has ended for the second one, as after a pause of the machine.
    monkeypatch.setattr("serving.retraining.controller.take_lease", lambda *_, **__: True)

    async def both() -> None:
        await asyncio.gather(*(one.part(RetrainingController).round() for one in (api, other)))

    asyncio.run(both())
    assert len(api.get(RETRAININGS).json()["items"]) == 1
    advance = service._advance

    def killed(*_arguments: object, **_options: object) -> None:
        raise _Killed

    monkeypatch.setattr(service, "_advance", killed)
    with pytest.raises(_Killed):
        loop.round()
    assert api.get("/v1/jobs").json()["items"] == [], "the job is queued with the state, or not at all"
    monkeypatch.setattr(service, "_advance", advance)
    asyncio.run(both())
    assert [job["id"] for job in api.get("/v1/jobs").json()["items"]] == [(loop.newest() or {})["job_id"]]
    loop.train()
    assert loop.state() == "trained"
    monkeypatch.setattr(service, "_advance", killed)
    with pytest.raises(_Killed):
        loop.round()
    assert api.get(f"{CHAMPION}/rollouts").json()["items"] == []
    monkeypatch.setattr(service, "_advance", advance)
    asyncio.run(both())
    assert len(api.get(f"{CHAMPION}/rollouts").json()["items"]) == 1


@on_sqlite
def test_a_policy_names_what_the_settings_have_and_its_scopes_are_checked(api: Api, problem: Any) -> None:
    path = f"{CHAMPION}/retraining"
    problem(api.request("PUT", path, json=POLICY), status=404)
    api.move(0)
    for changes, status, words in (
        ({"study": "nope"}, 404, "study: expected one of"),
        ({"study": "sira"}, 409, "expected a study of gr, got one of sira"),
        ({"datasets": ["far"]}, 404, "expected some of made, got far"),
        ({"compare": {"datasets": ["far"]}}, 404, "expected some of made, got far"),
        ({"compare": {"datasets": []}}, 422, "body.compare.datasets"),
        ({"compare": {"datasets": ["made"], "paths": "../x"}}, 422, "body.compare.paths"),
        ({"plan": {"steps": []}}, 422, "body.plan.steps"),
    ):
        assert words in problem(api.request("PUT", path, json={**POLICY, **changes}), status=status)["detail"]
    problem(api.get(path), status=404)
    problem(api.request("POST", RETRAININGS), status=404)
    roller = api.limited("roll-out", principal="rosa")
    assert roller.request("PUT", path, json=POLICY).json()["set_by"] == "rosa"
    automatic = {**POLICY, "automatic": True}
    assert "the scope train" in problem(roller.request("PUT", path, json=automatic), status=403)["detail"]
    both = api.limited("roll-out", "train", channels=["champion"], principal="ann")
    assert both.request("PUT", path, json=automatic).json()["automatic"]
    assert api.request("POST", RETRAININGS).status_code == 201
    problem(api.request("POST", RETRAININGS), status=409)
    problem(api.request("DELETE", path), status=409)
    api.request("POST", f"{RETRAININGS}/1/dismiss")
    assert api.request("DELETE", path).status_code == 204
    problem(api.get(path), status=404)
    problem(api.get(f"{RETRAININGS}/2"), status=404)
    assert api.get(f"{RETRAININGS}/1").json()["state"] == "dismissed"

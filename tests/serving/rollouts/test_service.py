# SPDX-License-Identifier: MIT
"""Roll-outs of a real registry: who is offered what, what ends them, and who may do so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from serving.channels.endpoints import AGENT_HEADER
from serving.channels.watch import ChannelWatch
from serving.database import RolloutRow
from serving.rollouts import repository
from serving.rollouts.controller import RolloutController
from tests.serving.api import Api
from tests.serving.running import CHAMPION, LONG_S

pytestmark = pytest.mark.service

ROLLOUTS = f"{CHAMPION}/rollouts"
AGENTS = [f"server-{number:02}" for number in range(40)]
HOUR_S = 3600
PLAN = {
    "steps": [{"share": 0.2, "least_s": HOUR_S, "most_s": 6 * HOUR_S}],
    "limits": [{"metric": "within_target", "margin": 0.02}, {"metric": "goodput", "margin": 0.05}],
}


def report_of(*, serial: int, within: float, sequence: int, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Return an agent's report, with the sums of flows that used the table with this serial."""
    row = {"epochs": 100, "visits": 100, "time_us": 10**9, "bytes": 10**9, "segments": 10**6, "retransmitted": 5000,
           "delay_samples": 10_000, "delay_us": 10**8, "within_target": round(10_000 * within)}  # fmt: skip
    sums: dict[str, Any] = {
        "series": "a", "sequence": sequence, "tables": [{"registry": "lab", "channel": "champion", "serial": serial}],
        "table": [0], "held_back": [False], "class": [0], "state": [0],
        **{name: [value] for name, value in row.items()},
    }  # fmt: skip
    body = {"cca": "gr", "channel": "champion", "state": "InSync", "effective_serial": serial, "sums": sums}
    return body if labels is None else body | {"labels": labels}


def report(api: Api, agent: str, **said: Any) -> None:
    """Send an agent's report."""
    body = report_of(**said)
    answer = api.request("POST", f"/v1/agents/{agent}/reports", json=body)
    assert answer.status_code == 204, answer.text


def offered(api: Api, agents: Iterable[str] = AGENTS) -> dict[str, int]:
    """Return the serial that each agent is offered."""
    return {agent: api.get(CHAMPION, headers={AGENT_HEADER: agent}).json()["serial"] for agent in agents}


class Fleet:
    """Forty agents that have reported, and a roll-out that has begun."""

    def __init__(self, api: Api, **plan: Any) -> None:
        self.api = api
        api.move(0)
        self.digest = api.publish(1)
        self._sequence = 0
        self.report(candidate=0.9)
        body = {"digest": self.digest, "note": "better?", "plan": PLAN | plan}
        answer = api.request("POST", ROLLOUTS, json=body)
        assert answer.status_code == 201, answer.text
        self.started = answer.json()
        self.path = f"{ROLLOUTS}/{self.started['id']}"

    def report(
        self, *, candidate: float, agents: Iterable[str] = AGENTS, serials: dict[str, int] | None = None
    ) -> None:
        """Report of each agent with the table that it is offered. candidate: its share within the target."""
        self._sequence += 1
        serials = serials or offered(self.api)
        for number, agent in enumerate(agents):
            within = (candidate if serials[agent] == 2 else 0.9) + 0.001 * (number % 5)
            report(self.api, agent, serial=serials[agent], within=within, sequence=self._sequence)

    def judge(self, *, after_s: float) -> dict[str, Any]:
        """Let time pass, let the controller judge, and return the roll-out."""
        self.api.clock.advance(seconds=after_s)
        asyncio.run(self.api.part(RolloutController).round())
        found: dict[str, Any] = self.api.get(self.path).json()
        return found

    def events(self) -> list[dict[str, Any]]:
        """Return the roll-out's record, newest first."""
        found: list[dict[str, Any]] = self.api.get(f"{self.path}/events").json()["items"]
        return found


def test_anonymous(api: Api, problem: Any) -> None:
    problem(api.anonymous.request("POST", ROLLOUTS, json={}), status=401)


def test_only_the_servers_of_the_step_are_offered_the_candidate(api: Api) -> None:
    fleet = Fleet(api)
    serials = offered(api)
    assert sorted(serials.values()) == [1] * 32 + [2] * 8
    assert (fleet.started["n_candidates"], fleet.started["candidate_serial"]) == (8, 2)
    # Whoever is not named, or came later, has the baseline.
    assert api.get(CHAMPION).json()["serial"] == 1
    assert offered(api, ["server-99"]) == {"server-99": 1}
    assert api.get("/v1/channels").json()["items"][0]["serial"] == 1
    assert offered(api.other_process()) == serials


def test_each_value_of_a_label_has_its_share_of_the_candidates(api: Api) -> None:
    api.move(0)
    digest = api.publish(1)
    # Older agents report no labels.
    sites = {agent: ("", "fra1", "ams1", "ams1")[number % 4] for number, agent in enumerate(AGENTS)}
    for agent, site in sites.items():
        report(api, agent, serial=1, within=0.9, sequence=1, labels={"site": site} if site else None)
    body = {"digest": digest, "plan": PLAN | {"stratify_by": "site"}}
    assert api.request("POST", ROLLOUTS, json=body).status_code == 201
    treated = [sites[agent] for agent, serial in offered(api).items() if serial == 2]
    assert sorted(treated) == [""] * 2 + ["ams1"] * 4 + ["fra1"] * 2


def test_the_agent_of_a_token_counts_more_than_the_header(api: Api) -> None:
    Fleet(api)
    chosen = next(agent for agent, serial in offered(api).items() if serial == 2)
    other = next(agent for agent, serial in offered(api).items() if serial == 1)
    limited = api.limited("read", "report", agent_id=chosen)
    assert limited.get(CHAMPION, headers={AGENT_HEADER: other}).json()["serial"] == 2


def test_a_good_candidate_is_promoted_with_the_next_serial(api: Api) -> None:
    fleet = Fleet(api)
    api.clock.advance(seconds=1.5 * HOUR_S)
    fleet.report(candidate=0.92)
    found = fleet.judge(after_s=0)
    assert (found["state"], found["n_looks"]) == ("promoted", 1), fleet.events()
    assert set(offered(api).values()) == {3}
    current = api.get(CHAMPION).json()
    assert (current["digest"], current["urgent"]) == (fleet.digest, False)
    assert api.request("POST", f"{fleet.path}/abort").status_code == 409


def test_a_harmful_candidate_is_aborted_urgently_and_the_record_says_why(api: Api) -> None:
    fleet = Fleet(api)
    fleet.report(candidate=0.8)
    found = fleet.judge(after_s=0.25 * HOUR_S)
    assert found["state"] == "aborted"
    current = api.get(CHAMPION).json()
    assert (current["serial"], current["urgent"], current["restores_serial"]) == (3, True, 1)
    assert set(offered(api).values()) == {3}
    newest = fleet.events()[0]
    assert (newest["action"], newest["actor"]) == ("abort", "rollouts")
    assert "9.9 percentage points lower on the 8 servers with the candidate" in newest["reasons"][0]
    assert newest["evidence"]["metrics"]["within_target"]["harm"]["n_baseline"] == 32
    actions = [row["action"] for row in api.get("/v1/audit").json()["items"]]
    assert {"start-rollout", "abort-rollout", "roll-back"} <= set(actions)


def test_silent_servers_pause_and_a_pause_goes_on_only_by_request(api: Api) -> None:
    fleet = Fleet(api)
    found = fleet.judge(after_s=HOUR_S)
    assert found["state"] == "paused"
    assert "have not reported for more than 30 minutes" in fleet.events()[0]["reasons"][0]
    fleet.report(candidate=0.9)
    assert fleet.judge(after_s=0.5 * HOUR_S)["state"] == "paused"
    assert api.request("POST", f"{fleet.path}/pause").status_code == 409
    assert api.request("POST", f"{fleet.path}/resume", json={"note": "repaired"}).json()["state"] == "running"
    fleet.report(candidate=0.9)
    assert fleet.judge(after_s=HOUR_S * 0.4)["state"] == "promoted"


def test_sums_from_before_a_step_do_not_count(api: Api) -> None:
    """Before its step a server of the second step has bad sums with the baseline, and in the step none at all."""
    fleet = Fleet(api, steps=[{"share": 0.2, "least_s": 60, "most_s": HOUR_S}, {"share": 0.5, "least_s": 60}])
    fleet.report(candidate=0.9)
    found = fleet.judge(after_s=120)
    assert (found["state"], found["step"], found["n_candidates"]) == ("running", 2, 20)
    first = {agent for agent, serial in offered(api).items() if serial == 2}
    assert len(first) == 20
    assert fleet.judge(after_s=120)["state"] == "running"
    assert fleet.events()[0]["evidence"]["with_figures"] == {"candidate": 0, "baseline": 0}
    fleet.report(candidate=0.9)
    assert fleet.judge(after_s=900)["state"] == "promoted"


def test_a_roll_out_refuses_other_moves_and_an_urgent_roll_back_aborts_it(api: Api, problem: Any) -> None:
    fleet = Fleet(api)
    refused = problem(api.request("PUT", CHAMPION, json={"digest": fleet.digest}), status=409)
    assert refused["type"].endswith("rollout-running")
    problem(api.request("POST", f"{CHAMPION}/rollback", json={"urgent": False}), status=409)
    problem(api.request("DELETE", CHAMPION), status=409)
    problem(api.request("POST", ROLLOUTS, json={"digest": fleet.digest, "plan": PLAN}), status=409)
    moved = api.request("POST", f"{CHAMPION}/rollback")
    assert moved.status_code == 201
    assert (moved.json()["serial"], moved.json()["restores_serial"]) == (3, 1)
    assert api.get(fleet.path).json()["state"] == "aborted"
    assert api.request("PUT", CHAMPION, json={"digest": fleet.digest}).json()["serial"] == 4


def test_a_repeated_start_makes_one_roll_out(api: Api) -> None:
    fleet = Fleet(api)
    api.request("POST", f"{fleet.path}/abort")
    body = {"digest": fleet.digest, "plan": PLAN}
    answers = [api.request("POST", ROLLOUTS, json=body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert len(api.get(ROLLOUTS).json()["items"]) == 2


def test_too_few_servers_and_plans_that_cannot_run_are_refused(api: Api, problem: Any) -> None:
    api.move(0)
    digest = api.publish(1)
    few = problem(api.request("POST", ROLLOUTS, json={"digest": digest, "plan": PLAN}), status=409)
    assert "expected at least 13 servers" in few["detail"]
    for agent in AGENTS:
        report(api, agent, serial=1, within=0.9, sequence=1)
    step = {"share": 0.5, "most_s": 200 * HOUR_S}
    long = problem(api.request("POST", ROLLOUTS, json={"digest": digest, "plan": {"steps": [step]}}), status=409)
    assert "qos_agent_retention_days" in long["detail"]
    problem(api.request("POST", ROLLOUTS, json={"digest": digest, "plan": {"steps": []}}), status=422)
    assert api.get(CHAMPION).json()["serial"] == 1
    assert api.request("PUT", CHAMPION, json={"digest": digest}).json()["serial"] == 2


def test_only_tokens_with_the_scope_for_the_channel_control_roll_outs(api: Api, problem: Any) -> None:
    fleet = Fleet(api)
    for scopes, limits in ((("read", "move"), {}), (("roll-out",), {"channels": ["other"]})):
        limited = api.limited(*scopes, **limits)
        problem(limited.request("POST", f"{fleet.path}/abort"), status=403)
        problem(limited.request("POST", ROLLOUTS, json={"digest": fleet.digest}), status=403)
    assert api.limited("roll-out").request("POST", f"{fleet.path}/pause").json()["state"] == "paused"


def test_two_processes_judge_a_roll_out_once(api: Api) -> None:
    fleet = Fleet(api)
    fleet.report(candidate=0.9)
    other = api.other_process()
    api.clock.advance(seconds=HOUR_S / 4)

    async def both() -> None:
        await asyncio.gather(api.part(RolloutController).round(), other.part(RolloutController).round())

    asyncio.run(both())
    assert api.get(fleet.path).json()["n_looks"] == 1
    # The lease of a process that is gone ends.
    fleet.report(candidate=0.9)
    api.clock.advance(seconds=HOUR_S / 4)
    asyncio.run(other.part(RolloutController).round())
    assert api.get(fleet.path).json()["n_looks"] == 2


def test_a_held_poll_ends_only_when_its_own_arm_changes(api: Api) -> None:
    fleet = Fleet(api)
    serials = offered(api)
    chosen = [next(agent for agent in AGENTS if serials[agent] == serial) for serial in (1, 2)]
    tags = [api.get(CHAMPION, headers={AGENT_HEADER: agent}).headers["etag"] for agent in chosen]

    async def poll(agent: str, etag: str, wait_s: float) -> tuple[int, dict[str, Any]]:
        async with api.client() as client:
            answer = await client.get(
                CHAMPION, params={"wait": wait_s}, headers={AGENT_HEADER: agent, "If-None-Match": etag}
            )
            return answer.status_code, answer.json() if answer.status_code == 200 else {}

    async def scenario() -> None:
        watch = api.part(ChannelWatch)
        held = [asyncio.create_task(poll(agent, etag, LONG_S)) for agent, etag in zip(chosen, tags, strict=True)]
        await asyncio.sleep(0.2)
        # A change of the channel that concerns neither of them wakes the polls, and they go on waiting.
        watch.announce(("gr", "champion"), serial=2)
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in held)
        await asyncio.to_thread(api.request, "POST", f"{fleet.path}/abort")
        answers = await asyncio.gather(*held)
        assert [(status, body["serial"]) for status, body in answers] == [(200, 3), (200, 3)]

    asyncio.run(scenario())


def test_a_roll_back_never_restores_a_candidate_that_was_aborted(api: Api, problem: Any) -> None:
    fleet = Fleet(api)
    api.request("POST", f"{fleet.path}/abort")
    moved = api.move(0, hold_back_permille=100)
    assert moved["restores_serial"] is None
    refused = problem(api.request("POST", f"{CHAMPION}/rollback"), status=409)
    assert refused["type"].endswith("nothing-to-roll-back")


def test_a_roll_out_that_cannot_be_judged_does_not_stop_the_others(api: Api) -> None:
    """For example, a later release began it, and this one does not know its plan."""
    fleet = Fleet(api)
    api.move(0, channel="canary")
    for agent in AGENTS:
        body = {"cca": "gr", "channel": "canary", "state": "InSync"}
        api.request("POST", f"/v1/agents/canary-{agent}/reports", json=body)
    canary = "/v1/channels/gr/canary/rollouts"
    second = api.request("POST", canary, json={"digest": fleet.digest, "plan": PLAN}).json()
    with api.database.write() as session:
        row = session.get(RolloutRow, fleet.started["id"])
        assert row is not None
        row.plan = '{"later": 1}'
    api.clock.advance(seconds=HOUR_S)
    asyncio.run(api.part(RolloutController).round())
    assert api.get(f"{canary}/{second['id']}").json()["state"] == "paused"


def test_a_server_is_not_offered_its_older_table_while_an_abort_is_committed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(api)
    chosen = next(agent for agent, serial in offered(api).items() if serial == 2)
    other = api.other_process()
    find_open = repository.find_open

    def abort_first(session: Any, *, channel_id: int) -> Any:
        monkeypatch.undo()
        assert api.request("POST", f"{fleet.path}/abort").status_code == 200
        return find_open(session, channel_id=channel_id)

    monkeypatch.setattr(repository, "find_open", abort_first)
    assert offered(other, [chosen])[chosen] in {2, 3}
    assert offered(other, [chosen]) == {chosen: 3}

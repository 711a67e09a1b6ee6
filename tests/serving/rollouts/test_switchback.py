# SPDX-License-Identifier: MIT
"""Roll-outs by switchback of a real registry with two servers: blocks, wash-outs, pauses and ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from serving.channels.endpoints import AGENT_HEADER
from serving.rollouts import repository, switchback
from serving.rollouts.assignment import arm_of_block
from serving.rollouts.controller import EVERY_S, RolloutController
from serving.rollouts.statistics import Unit
from tests.serving.api import Api
from tests.serving.rollouts.test_service import ROLLOUTS, report_of
from tests.serving.running import CHAMPION

pytestmark = pytest.mark.service

SERVERS = ("web-1", "web-2")
BLOCK_S, WASHOUT_S = 100, 20
PLAN = {
    "steps": [{"share": 0.5, "least_s": 17 * BLOCK_S, "most_s": 60 * BLOCK_S}],
    "limits": [{"metric": "within_target", "margin": 0.02}],
    "looks_per_step": 20,
    "switchback": {"block_s": BLOCK_S, "washout_s": WASHOUT_S},
}


class Switching:
    """Two servers that have reported, and a roll-out by switchback that has begun."""

    def __init__(self, api: Api, *, harm: float = 0.0) -> None:
        self.api = api
        self.harm = harm
        self.baseline = api.move(0)["digest"]
        self.candidate = api.publish(1)
        self.seen = 0
        self._sequence = 0
        self.report(1, within=0.9)
        # The second answer is lost to a retry: there is one roll-out.
        start = {"json": {"digest": self.candidate, "plan": PLAN}, "headers": {"Idempotency-Key": "key"}}
        answers = [api.request("POST", ROLLOUTS, **start) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 201], answers[0].text
        assert answers[0].json() == answers[1].json()
        self.id = answers[0].json()["id"]
        self.path = f"{ROLLOUTS}/{self.id}"

    def report(self, serial: int, *, within: float, servers: tuple[str, ...] = SERVERS) -> None:
        """Report of each of the servers."""
        asyncio.run(self._report(serial, within, servers))

    async def _report(self, serial: int, within: float, servers: tuple[str, ...]) -> None:
        self._sequence += 1
        body = report_of(serial=serial, within=within, sequence=self._sequence)
        async with self.api.client() as client:
            paths = [f"/v1/agents/{server}/reports" for server in servers]
            answers = await asyncio.gather(*(client.post(path, json=body) for path in paths))
        assert {answer.status_code for answer in answers} == {204}

    def offer(self) -> dict[str, Any]:
        """Return what both servers are offered, which never has an older serial."""
        return asyncio.run(self._offer())

    async def _offer(self) -> dict[str, Any]:
        async with self.api.client() as client:
            headers = [{AGENT_HEADER: server} for server in SERVERS]
            answers = await asyncio.gather(*(client.get(CHAMPION, headers=header) for header in headers))
        first, second = (answer.json() for answer in answers)
        assert first == second
        assert first["serial"] >= self.seen
        self.seen = first["serial"]
        return dict(first)

    def round(self, *, after_s: float) -> None:
        """Let time pass, and let the controller work."""
        asyncio.run(self._round(after_s))

    async def _round(self, after_s: float) -> None:
        self.api.clock.advance(seconds=after_s)
        await self.api.part(RolloutController).round()

    def within(self, offer: dict[str, Any]) -> float:
        """Return the share within the target. It drifts from pair to pair."""
        level = 0.9 - 0.01 * (offer["serial"] // 2 % 5) + 0.001 * (offer["serial"] % 3)
        return level - (self.harm if offer["digest"] == self.candidate else 0.0)

    def run_block(self, *, servers: tuple[str, ...] = SERVERS) -> dict[str, Any]:
        """Run through a block with the reports of these servers. Flows of its wash-out are far from the target."""
        return asyncio.run(self._run_block(servers))

    async def _run_block(self, servers: tuple[str, ...] = SERVERS) -> dict[str, Any]:
        offer = await self._offer()
        await self._report(offer["serial"], 0.1, servers)
        await self._round(WASHOUT_S)
        await self._report(offer["serial"], self.within(offer), servers)
        await self._round(BLOCK_S - WASHOUT_S)
        return offer

    def run_to_the_end(self) -> dict[str, Any]:
        """Run block after block until the roll-out has ended."""

        async def run() -> None:
            for _ in range(30):
                if self._state() != "running":
                    return
                await self._run_block()

        asyncio.run(run())
        return self.get()

    def _state(self) -> str:
        with self.api.database.read() as session:
            row = repository.find(session, self.id)
            assert row is not None
            return row.state

    def get(self) -> dict[str, Any]:
        return dict(self.api.get(self.path).json())

    def units(self) -> dict[str, Unit]:
        """Return the blocks that are judged now, by name."""
        with self.api.database.read() as session:
            row = repository.find(session, self.id)
            assert row is not None
            return {unit.name: unit for unit in switchback.block_units(session, row, now=self.api.clock())}


def test_a_harmful_candidate_is_aborted_after_eight_pairs(api: Api) -> None:
    fleet = Switching(api, harm=0.04)
    begun = fleet.get()
    assert (begun["block"], begun["arm"]) == (1, arm_of_block(str(fleet.id), 0))
    assert begun["n_candidates"] == (2 if begun["arm"] == "candidate" else 0)
    found = fleet.run_to_the_end()
    assert (found["state"], found["arm"], found["n_candidates"]) == ("aborted", "baseline", 0)
    assert fleet.seen < 24
    offer = fleet.offer()
    assert (offer["digest"], offer["urgent"], offer["restores_serial"]) == (fleet.baseline, True, 1)
    events = api.get(f"{fleet.path}/events", params={"limit": 200}).json()["items"]
    assert "is 3.9 percentage points lower on the 8 blocks of time with the candidate" in events[0]["reasons"][0]
    assert Counter(event["action"] for event in events)["block"] == found["block"]
    assert events[-1]["reasons"][0] == (
        "All 2 servers alternate between both ensembles, in blocks of 100 seconds. The first 20 seconds of a block do "
        "not count."
    )
    deployments = api.get(f"{CHAMPION}/history", params={"limit": 200}).json()["items"]
    arms = {"candidate": fleet.candidate, "baseline": fleet.baseline}
    expected = [arms[arm_of_block(str(fleet.id), block)] for block in range(found["block"])]
    # The first one is the baseline, the second one the start, which no server is offered, and the last one the end.
    assert [deployed["digest"] for deployed in deployments[::-1]][2:-1] == expected
    assert deployments[-3]["note"] == f"roll-out {fleet.id}: block 1, {begun['arm']}"
    assert not any(deployed["urgent"] for deployed in deployments[1:])
    # The blocks are not in the audit log.
    audit = Counter(row["action"] for row in api.get("/v1/audit", params={"limit": 200}).json()["items"])
    assert [audit[action] for action in ("move", "start-rollout", "abort-rollout", "roll-back")] == [1, 1, 1, 1]


def test_a_good_candidate_is_promoted_although_reports_are_late_and_the_registry_was_away(api: Api) -> None:
    fleet = Switching(api)
    late = fleet.run_block(servers=SERVERS[:1])
    assert fleet.units() == {}
    fleet.run_block()
    first = fleet.units()["block 1"]
    assert (first.since.delay_samples, first.n_servers) == (10_000, 1)
    assert first.since.samples_within_target == round(10_000 * fleet.within(late))
    fleet.report(late["serial"], within=0.9, servers=SERVERS[1:])
    assert (fleet.units()["block 1"].since.delay_samples, fleet.units()["block 1"].n_servers) == (20_000, 2)

    # Away over the end of a wash-out: the block counts from the return on, and has its whole length from there.
    offer = fleet.offer()
    fleet.report(offer["serial"], within=0.1)
    fleet.round(after_s=5 * BLOCK_S)
    assert api.part(RolloutController).every_s == EVERY_S
    fleet.round(after_s=BLOCK_S - WASHOUT_S - 2)
    assert api.part(RolloutController).every_s == pytest.approx(2.0)
    assert fleet.offer() == offer
    fleet.report(offer["serial"], within=fleet.within(offer))
    fleet.round(after_s=2)
    assert (fleet.offer()["serial"], fleet.get()["block"]) == (offer["serial"] + 1, 4)
    # Away over the end of a block: it is longer, and one block follows.
    fleet.round(after_s=WASHOUT_S)
    fleet.report(fleet.seen, within=fleet.within(fleet.offer()))
    fleet.round(after_s=3 * BLOCK_S)
    assert (fleet.offer()["serial"], fleet.get()["block"]) == (offer["serial"] + 2, 5)

    found = fleet.run_to_the_end()
    assert (found["state"], found["arm"], found["n_candidates"]) == ("promoted", "candidate", 2)
    assert fleet.offer()["digest"] == fleet.candidate
    back = api.request("POST", f"{CHAMPION}/rollback").json()
    assert (back["digest"], back["restores_serial"]) == (fleet.baseline, 1)


def test_a_pause_gives_the_baseline_and_a_resumption_begins_a_new_pair(api: Api, problem: Any) -> None:
    fleet = Switching(api)
    for _ in range(2):
        fleet.run_block()
    cut = fleet.offer()
    fleet.report(cut["serial"], within=0.1)
    fleet.round(after_s=WASHOUT_S)
    assert api.request("POST", f"{fleet.path}/pause").json()["arm"] == "baseline"
    paused = fleet.offer()
    assert (paused["serial"], paused["digest"]) == (cut["serial"] + 1, fleet.baseline)
    fleet.report(paused["serial"], within=0.9)
    fleet.round(after_s=5 * BLOCK_S)
    assert fleet.offer() == paused
    resumed = api.request("POST", f"{fleet.path}/resume").json()
    assert (resumed["block"], resumed["arm"]) == (5, arm_of_block(str(fleet.id), 4))
    assert fleet.run_block()["serial"] == paused["serial"] + 1
    fleet.run_block()
    # Block 3 was cut short, there is no block 4, and the pause is no block.
    assert list(fleet.units()) == ["block 1", "block 2", "block 5"]
    refused = problem(api.request("POST", f"{ROLLOUTS}/rehearsal", json=PLAN), status=409)
    assert "past figures have no blocks" in refused["detail"]
    # An urgent roll-back ends it.
    assert api.request("POST", f"{CHAMPION}/rollback").json()["restores_serial"] == 1
    assert (fleet.get()["state"], fleet.offer()["digest"]) == ("aborted", fleet.baseline)
    fleet.round(after_s=5 * BLOCK_S)
    assert fleet.get()["block"] == 7

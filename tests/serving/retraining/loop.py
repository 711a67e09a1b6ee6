# SPDX-License-Identifier: MIT
"""A channel with a policy, whose sixteen servers are in other states than in training, and a stand-in for a runner."""

from __future__ import annotations

import asyncio
from typing import Any

from serving.retraining.controller import RetrainingController
from serving.rollouts.controller import RolloutController
from tests.serving.api import Api, make_ensemble
from tests.serving.drift.test_endpoints import TRAINED, move
from tests.serving.rollouts.test_service import PLAN, offered, report
from tests.serving.running import CHAMPION

Json = dict[str, Any]

POLICY = {
    "study": "gr-demo", "datasets": ["made"], "compare": {"datasets": ["made"], "paths": "cellular"}, "plan": PLAN,
}  # fmt: skip
AGENTS = [f"server-{number:02}" for number in range(16)]
RETRAININGS = f"{CHAMPION}/retrainings"
BASELINE = TRAINED.digest
LEASE = "r" * 16


def comparison(candidate: str, *, change: float = 0.0, baseline: str = BASELINE) -> Json:
    """A comparison in which the candidate changes the share within the target so much."""
    by = {"change": change, "interval": [change - 0.005, change + 0.005]}
    none = {"change": 0.0, "interval": [-0.01, 0.01]}
    return {"baseline_digest": baseline, "candidate_digest": candidate, "recordings": 3, "hours": 1.5,
            "datasets": ["made"], "path": {"rtt_ms": 100.0},
            "targets": [{"target_ms": 50.0, "within_target": by, "goodput": none}]}  # fmt: skip


class Loop:
    """The channel gr/champion of an application."""

    def __init__(self, api: Api, *, is_drifting: bool = True, **policy: object) -> None:
        self.api = api
        self._sequence = 0
        assert api.request("POST", "/v1/ensembles", json=TRAINED.to_json()).is_success
        move(api)
        answer = api.request("PUT", f"{CHAMPION}/retraining", json={**POLICY, **policy})
        assert answer.status_code == 200, answer.text
        if is_drifting:
            self.report()

    def report(self, *, within: float = 0.9, agents: int = 16) -> None:
        """Send reports of servers with the table that each is offered. All their flows are in one state."""
        self._sequence += 1
        serials = offered(self.api, AGENTS[:agents])
        for number, (agent, serial) in enumerate(serials.items()):
            report(self.api, agent, serial=serial, within=within + 0.0002 * (number % 5), sequence=self._sequence)

    def round(self, *, after_s: float = 60.0) -> Json | None:
        """Let the registry look at its retrainings, and return the newest one."""
        self.api.clock.advance(seconds=after_s)
        asyncio.run(self.api.part(RetrainingController).round())
        return self.newest()

    def newest(self) -> Json | None:
        """The newest retraining."""
        return next(iter(self.api.get(RETRAININGS).json()["items"]), None)

    def state(self, *, after_s: float = 60.0) -> str:
        """The state of the newest retraining after a round."""
        found = self.round(after_s=after_s)
        return "none" if found is None else str(found["state"])

    def approve(self, step: str, *, by: Api | None = None, number: int = 1, **body: str) -> Any:
        """Approve a step."""
        return (by or self.api).request("POST", f"{RETRAININGS}/{number}/{step}", json=body)

    def lease(self) -> Json:
        """Lease the job, as a runner does."""
        wanted = {"runner": "trainer-1", "lease": LEASE, "datasets": ["made"], "compares": True}
        leased = self.api.request("POST", "/v1/jobs/leases", json=wanted)
        assert leased.status_code == 200, leased.text or "no job is queued"
        return dict(leased.json())

    def train(self, number: int = 5, *, change: float = 0.0, **said: object) -> None:
        """Run the queued job to its end. number: of the ensemble. said: instead of the comparison."""
        job = self.lease()
        ensemble = make_ensemble(number)
        shadow = {"shadow": comparison(ensemble.digest, change=change)}
        body = {"lease": LEASE, "outcome": "done", "ensemble": ensemble.to_json(), **(said or shadow)}
        ended = self.api.request("POST", f"/v1/jobs/{job['id']}/end", json=body)
        assert ended.status_code == 200, ended.text

    def roll_out(self, *, within: float = 0.92) -> str:
        """Let the roll-out be judged after an hour and a half, and return its state."""
        self.api.clock.advance(seconds=5400)
        self.report(within=within)
        asyncio.run(self.api.part(RolloutController).round())
        return str(self.api.get(f"{CHAMPION}/rollouts").json()["items"][0]["state"])

    def actions(self) -> list[tuple[str, str, str]]:
        """Who changed what of retrainings, by the audit log, oldest first."""
        rows = self.api.get("/v1/audit", params={"target": "channel gr/champion", "limit": 200}).json()["items"]
        return [
            (row["actor"], row["action"], row["details"].get("state", ""))
            for row in reversed(rows)
            if row["action"].endswith("-retraining")
        ]

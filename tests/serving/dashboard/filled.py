# SPDX-License-Identifier: MIT
"""A registry that has lived for some hours: moves, roll-outs of each end, agents of each standing, jobs, keys, tokens.

The names and notes that users choose contain `html`, which no page may take for an element.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from serving.agents.endpoints import received
from serving.agents.schemas import AgentReport
from serving.agents.service import store
from serving.channels.endpoints import AGENT_HEADER
from serving.database import Database
from serving.registry.app import create_app
from serving.rollouts.controller import RolloutController
from serving.settings import ServingSettings
from tests.serving.advice.test_endpoints import report as advice_report
from tests.serving.api import Api, Clock, make_ensemble
from tests.serving.retraining.loop import POLICY
from tests.serving.running import CHAMPION
from tests.serving.signing import Keys, add_root, add_signature

STUDIES = Path(__file__).resolve().parents[3] / "configs" / "studies"
SETTINGS: dict[str, Any] = {"registry": "lab", "open": True, "studies": STUDIES, "datasets": ["made", "city-3g"]}
PLAN = {
    "steps": [{"share": 0.2, "least_s": 3600, "most_s": 6 * 3600}, {"share": 0.5, "least_s": 3600, "most_s": 6 * 3600}],
    "limits": [{"metric": "within_target", "margin": 0.02}, {"metric": "goodput", "margin": 0.05}],
}
_ROLLOUTS = f"{CHAMPION}/rollouts"


@dataclass
class Filled:
    """What a page may show. paths: of all pages that anyone with the role of an administrator sees."""

    digests: list[str]
    paths: list[str]
    url: str = ""


class _Life:
    """The fleet's life, by a clock that ends now."""

    def __init__(self, database: Database, *, n_agents: int, hours: int, html: str) -> None:
        self.clock = Clock(datetime.now(tz=UTC) - timedelta(hours=hours))
        app = create_app(database, ServingSettings.model_validate(SETTINGS), clock=self.clock)
        self.api = Api(app, database, self.clock)
        self.html = html
        self.agents = [f"web-{number:04}" for number in range(n_agents)]
        self._sequence = 0
        self.within = {0: 0.93}

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = self.api.request("POST", path, json=body)
        assert answer.status_code in {200, 201, 204}, answer.text
        return dict(answer.json()) if answer.content else {}

    def offered(self) -> dict[str, int]:
        async def ask() -> dict[str, int]:
            async with self.api.client() as client:
                found = {}
                for agent in self.agents:
                    answer = await client.get(CHAMPION, headers={AGENT_HEADER: agent})
                    found[agent] = answer.json()["serial"]
                return found

        return asyncio.run(ask())

    def hour(self) -> None:
        """Let an hour pass, at whose end each agent reports, and the roll-outs are judged."""
        self.clock.advance(seconds=3600)
        serials = self.offered()
        self._sequence += 1
        with self.api.database.write() as session:
            store(session, [self._report(number, agent, serials[agent]) for number, agent in enumerate(self.agents)])
        asyncio.run(self.api.part(RolloutController).round())

    def _report(self, number: int, agent: str, serial: int, **changed: Any) -> Any:
        within = [self.within.get(serial, 0.93) + 0.002 * (number % 5) + 0.003 * (self._sequence % 3) for _ in "ab"]
        sums = {
            "series": "a", "sequence": self._sequence,
            "tables": [{"registry": "lab", "channel": "champion", "serial": serial}], "table": [0, 0],
            "held_back": [False, False], "class": [0, 1], "state": [0, 3], "epochs": [100, 80], "visits": [100, 80],
            "time_us": [10**9] * 2, "bytes": [10**9 + number * 10**7, 2 * 10**9], "segments": [10**6] * 2,
            "retransmitted": [5000, 3000 + number], "delay_samples": [10_000] * 2, "delay_us": [10**8, 2 * 10**8],
            "within_target": [round(10_000 * share) for share in within],
        }  # fmt: skip
        body = {
            "cca": "gr", "channel": "champion", "state": "InSync", "offered_serial": serial, "effective_serial": serial,
            "offered_digest": make_ensemble(0).digest, "effective_digest": make_ensemble(0).digest,
            "kernel_version": "6.12.90", "module_version": "0.1.0", "agent_version": "0.1.0", "run_id": agent,
            "labels": {"site": ("fra1", "ams1")[number % 2]}, "sums": sums, **changed,
        }  # fmt: skip
        return received(AgentReport.model_validate(body), agent_id=agent, now=self.clock())

    def roll_out(self, number: int, *, within: float, hours: int) -> int:
        """Begin a roll-out of the ensemble of that number, whose flows have this share within target."""
        started = self.post(_ROLLOUTS, digest=self.api.publish(number), note=f"try {number} {self.html}", plan=PLAN)
        self.within[started["candidate_serial"]] = within
        for _ in range(hours):
            self.hour()
        return int(started["id"])

    def end(self, *, ahead_s: float) -> None:
        """Report of each agent, as if so much later: one is behind, one refused its table, one is silent."""
        serials = self.offered()
        rejected = {"state": "Rejected", "error": f"the kernel refused the table: ERANGE {self.html}"}
        changes: dict[int, dict[str, Any]] = {1: {"effective_serial": 1}, 2: {"effective_serial": 1, **rejected}}
        self._sequence += 1
        with self.api.database.write() as session:
            for number, agent in enumerate(self.agents):
                report = self._report(number, agent, serials[agent], sums=None, **changes.get(number, {}))
                at = timedelta(minutes=-20) if number == 3 else timedelta(seconds=ahead_s)
                store(session, [replace(report, received_at=self.clock() + at)])

    def idle(self, n_agents: int) -> None:
        """Report of each agent of the channel `still`, of which every 50th is behind."""
        for first in range(0, n_agents, 1000):
            with self.api.database.write() as session:
                store(session, [
                    self._report(number, f"idle-{number:05}", 2, channel="still", sums=None,
                                 effective_serial=1 if number % 50 == 0 else 2)
                    for number in range(first, min(first + 1000, n_agents))
                ])  # fmt: skip


def fill(
    database: Database,
    *,
    html: str = "<b>",
    n_agents: int = 40,
    hours: int = 8,
    n_idle_agents: int = 0,
    ahead_s: float = 0,
) -> Filled:
    """Fill an empty database. hours: at least 8. n_idle_agents: those of another channel, without flows.

    ahead_s: so much after now the agents have reported, for a test that takes longer than they may be silent.
    """
    life = _Life(database, n_agents=n_agents, hours=hours, html=html)
    api = life.api
    digests = [api.publish(number) for number in range(5)]
    _sign(api, digests)
    api.move(0, note=f"first {html}")
    for number in (1, 0):
        api.move(number, channel="still", note="a channel whose table is moved at once")
    api.request("PUT", f"{CHAMPION.removesuffix('champion')}still/retraining", json=POLICY)
    advised = {**advice_report(), "why": [f"CUBIC fills the buffer {html}."]}
    assert api.request("PUT", f"{CHAMPION}/advice", json=advised).is_success
    for _ in range(hours - 7):
        life.hour()
    life.roll_out(1, within=0.96, hours=3)
    life.roll_out(2, within=0.80, hours=2)
    life.roll_out(3, within=0.97, hours=2)
    _jobs(life)
    life.end(ahead_s=ahead_s)
    life.idle(n_idle_agents)
    names = ["", "fleet", "fleet?standing=behind", "agents/web-0002", "channels", "channels/gr/champion",
             "channels/gr/still", "rollouts", *(f"channels/gr/champion/rollouts/{number}" for number in (1, 2, 3)),
             "ensembles", f"ensembles/{digests[1]}?against={digests[0]}", "jobs", "jobs/1", "jobs/2", "links", "keys",
             "tokens", "audit", "nowhere"]  # fmt: skip
    api.app.state.context.close()
    return Filled(digests, [f"/ui/{name}" for name in names])


def _sign(api: Api, digests: list[str]) -> None:
    keys = Keys()
    expires_s = int(api.clock().timestamp()) + 90 * 86_400
    assert add_root(api, keys.envelope(expires_s=expires_s)).status_code == 201
    for digest in digests:
        assert add_signature(api, digest, keys.publisher).status_code == 201


def _jobs(life: _Life) -> None:
    """A job that is done, one that runs, one that failed and one that waits."""
    for name in ("gr", "gr-levels", "gr", "gr"):
        life.post("/v1/jobs", study=name, datasets=["made"], note=f"for {life.html}")
    jobs = "/v1/jobs"
    best = [{"meets": True, "metrics": {"p95_queueing_delay_ms": 48.0, "throughput_mbps": 7.5}}]
    progress = {"phase": f"searching: single {life.html}", "share": 0.41, "left_s": 90.0, "searches": 3, "points": 6,
                "points_meeting": 5, "best_of": "single", "best": best}  # fmt: skip
    for word, number in (("a", 1), ("b", 2), ("c", 3)):
        life.post(f"{jobs}/leases", runner="trainer-1", lease=word * 16, datasets=["made", "city-3g"])
        life.post(f"{jobs}/{number}/heartbeat", lease=word * 16, progress=progress, log=f"begun {life.html}\n")
    life.post(f"{jobs}/1/end", lease="a" * 16, outcome="done", ensemble=make_ensemble(4).to_json())
    life.post(f"{jobs}/3/end", lease="c" * 16, outcome="failed", error=f"expected recordings, got {life.html}")

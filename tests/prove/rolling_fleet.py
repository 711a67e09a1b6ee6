# SPDX-License-Identifier: MIT
"""Agents that report sums of flows, and roll-outs of their channel one after the other, while a registry is killed.

Sixteen agents follow a channel, and report ten epochs a second with the serial that they are offered. A report whose
answer is lost is sent again. As soon as a roll-out has ended, the next one begins, between two tables that are equal.
What must hold:

    counted once   the registry has exactly the epochs of the reports that were acknowledged
    never back     no agent is offered an older serial than before
    not stuck      a running roll-out has an entry in its record within STUCK_S: the largest distance of two looks, a
                   lease, and the time of a start
    told once      each roll-out has one row of its start and one of its end in the audit log
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import httpx

from serving.channels.endpoints import AGENT_HEADER
from serving.client import RegistryClient
from tests.prove.guarded import make_ensemble
from tests.prove.kill_trainer import END_S, ShortfallError
from tests.serving.qos.deltas import delta

CHANNEL = "/v1/channels/gr/rolled"
AGENTS = [f"server-{number:02}" for number in range(16)]
EPOCHS = 10
REPORT_S = 1.0
MOST_S = 20
LEASE_S = 30
STUCK_S = MOST_S + LEASE_S + 25
PLAN = {
    "steps": [{"share": share, "least_s": 5, "most_s": MOST_S} for share in (0.2, 0.5)],
    "looks_per_step": 3, "least_samples": 100, "silent_s": 60,
}  # fmt: skip


class RollingFleet(threading.Thread):
    """The agents and the operator, until `stop` is set. failure: what did not hold.

    http: a client of the registry, instead of one without a token. digests: two published tables, of which the channel
    has the first; without them both are published.
    """

    def __init__(
        self, url: str, *, registry: str, http: httpx.Client | None = None, digests: Sequence[str] = ()
    ) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.failure = ""
        self._registry = registry
        self._http = http or httpx.Client(base_url=url, timeout=5)
        self._acknowledged: Counter[str] = Counter()
        self._sequence: Counter[str] = Counter()
        self._outstanding: dict[str, dict[str, Any]] = {}
        self._serial: Counter[str] = Counter()
        self._digests = list(digests)

    def run(self) -> None:
        """Report and roll out; what the killed registry does not answer is done in the next round."""
        try:
            while not self.stop.wait(REPORT_S):
                try:
                    self._round()
                except httpx.TransportError:
                    continue
        except ShortfallError as error:
            self.failure = str(error)

    def _round(self) -> None:
        if not self._digests:
            self._set_up()
        for agent in AGENTS:
            self._follow(agent)
            self._report(agent)
        self._roll_out()

    def _set_up(self) -> None:
        published = [self._sent("POST", "/v1/ensembles", json=make_ensemble(number).to_json()) for number in (1, 2)]
        digests = [answer.json()["digest"] for answer in published]
        self._sent("PUT", CHANNEL, json={"digest": digests[0]})
        self._digests = digests

    def _follow(self, agent: str) -> None:
        serial = int(self._sent("GET", CHANNEL, headers={AGENT_HEADER: agent}).json()["serial"])
        if serial < self._serial[agent]:
            raise ShortfallError(f"{agent} was offered serial {serial} after {self._serial[agent]}")
        self._serial[agent] = serial

    def _report(self, agent: str) -> None:
        if agent not in self._outstanding:
            self._sequence[agent] += 1
            sums = delta(
                self._sequence[agent], [(False, 0, 0, EPOCHS)], registry=self._registry, channel="rolled",
                serial=self._serial[agent],
            )  # fmt: skip
            self._outstanding[agent] = {"cca": "gr", "channel": "rolled", "state": "InSync", "sums": sums}
        self._sent("POST", f"/v1/agents/{agent}/reports", json=self._outstanding[agent])
        del self._outstanding[agent]
        self._acknowledged[agent] += EPOCHS

    def _roll_out(self) -> None:
        newest = next(iter(self._sent("GET", f"{CHANNEL}/rollouts").json()["items"]), None)
        if newest is not None and newest["state"] == "paused":
            raise ShortfallError(f"roll-out {newest['id']} of equal tables is paused: {self._last(newest)}")
        if newest is not None and newest["ended_at"] is None:
            last = self._last(newest)
            age_s = (datetime.now(UTC) - datetime.fromisoformat(last["at"])).total_seconds()
            if age_s > STUCK_S:
                raise ShortfallError(f"roll-out {newest['id']}: nothing happened for {age_s:.0f} s after {last}")
            return
        in_force = newest["digest"] if newest is not None and newest["state"] == "promoted" else self._digests[0]
        other = next(digest for digest in self._digests if digest != in_force)
        self._sent("POST", f"{CHANNEL}/rollouts", json={"digest": other, "plan": PLAN})

    def _last(self, rollout: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self._sent("GET", f"{CHANNEL}/rollouts/{rollout['id']}/events").json()["items"][0]
        return found

    def _sent(self, method: str, path: str, **options: Any) -> httpx.Response:
        answer = self._http.request(method, path, **options)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            raise httpx.ReadError("busy")
        if not answer.is_success:
            raise ShortfallError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer

    def finish(self) -> str:
        """Stop, send what is outstanding, and compare the registry with it; a line. Raises ShortfallError."""
        self.stop.set()
        self.join()
        if self.failure:
            raise ShortfallError(self.failure)
        for agent in list(self._outstanding):
            self._report(agent)
        end_s = time.monotonic() + END_S
        while (counted := self._counted()) != self._acknowledged:
            # A report is acknowledged once it is committed; this waits for none.
            if time.monotonic() > end_s or counted > self._acknowledged:
                raise ShortfallError(f"acknowledged epochs {self._acknowledged}, counted {counted}")
            time.sleep(0.5)
        states = Counter(row["state"] for row in self._items(f"{CHANNEL}/rollouts"))
        self._check_audit(sum(states.values()), ended=states["promoted"])
        if not states["promoted"]:
            raise ShortfallError(f"no roll-out was promoted: {states}")
        epochs = sum(counted.values())
        return f"{epochs} epochs of {len(AGENTS)} agents counted once, {states['promoted']} roll-outs promoted"

    def _counted(self) -> Counter[str]:
        rows = self._items("/v1/qos", by="agent_id", channel="rolled")
        return Counter({row["agent_id"]: int(row["epochs"]) for row in rows})

    def _items(self, path: str, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._sent("GET", path, params={**query, "limit": "200"}).json()["items"]
        return found

    def _check_audit(self, started: int, *, ended: int) -> None:
        with RegistryClient(str(self._http.base_url)) as client:
            rows = Counter(row["action"] for row in client.audit(limit=100_000) if row["target"] == "channel gr/rolled")
        if (rows["start-rollout"], rows["promote-rollout"]) != (started, ended):
            raise ShortfallError(f"expected audit rows of {started} starts and {ended} promotions, got {rows}")

# SPDX-License-Identifier: MIT
"""A short life of a registry and one agent, which is recorded by one version and replayed by later ones.

The operator's steps and the agent's steps alternate. The agent's steps make one request after the other from one
thread, so that the order of its requests is always the same. Its kernel is a fake.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from serving.agent.loop import Agent
from serving.agent.settings import AgentSettings
from serving.agent.state import State
from serving.client import RegistryClient
from tests.serving.agent.fakes import FakeTree, client_to, log_to, table
from tests.serving.api import make_ensemble

AGENT_ID = "server-1"
_SHORT_S = 0.2
_LONG_S = 20.0


class Operator:
    """What people do to the registry between the agent's steps."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = RegistryClient(url)

    def first_move(self) -> None:
        """Publish and deploy the first ensemble, with an idempotency key."""
        published = self._client.publish(make_ensemble(0))
        self._put({"digest": published["digest"], "note": "first"}, key="key-1")

    def urgent_move(self) -> None:
        """Deploy another ensemble with every option."""
        digest = self._client.publish(make_ensemble(1))["digest"]
        self._client.move(
            "gr", "champion", digest=digest, hold_back_permille=100, urgent=True, note="zwölf µs", if_serial=1
        )

    def roll_back(self) -> None:
        """Go back to the first ensemble."""
        self._client.roll_back("gr", "champion", note="p95 rose")

    def move_again(self) -> None:
        """Deploy the second ensemble once more, and one on another channel."""
        digest = make_ensemble(1).digest
        self._client.move("gr", "champion", digest=digest)
        self._client.move("gr", "canary", digest=digest)

    def read_all(self) -> None:
        """Read everything that the commands read."""
        self._client.health()
        self._client.channel("gr", "champion")
        self._client.ensemble(make_ensemble(1).digest)
        for rows in (
            self._client.channels(),
            self._client.history("gr", "champion"),
            self._client.ensembles(cca="gr"),
            self._client.agents(cca="gr"),
        ):
            list(rows)

    def _put(self, body: dict[str, Any], *, key: str) -> None:
        for _ in range(2):
            answer = httpx.put(
                f"{self._url}/v1/channels/gr/champion",
                json=body,
                headers={"Idempotency-Key": key, "User-Agent": "ccatune"},
            )
            answer.raise_for_status()


@dataclass
class AgentOfScenario:
    """One agent. Each step appends what it found to `found`."""

    url: str
    folder: Path
    tree: FakeTree = field(default_factory=FakeTree)
    found: list[str] = field(default_factory=list)

    def run_once(self) -> None:
        """Ask once, apply and report. Notes the state, and the serial that the kernel then runs."""
        settings = AgentSettings(
            url=self.url, ccas=("gr",), state_dir=self.folder / "state", agent_id=AGENT_ID, timeout_s=_LONG_S
        )
        (report,), _ = Agent(settings, tree=self.tree, log=log_to(), boot_id="boot-1").run_once()
        self.found.append(f"{report.state} {report.effective_serial}")

    def poll(self, *, etag: str | None = None, is_absent: bool = False, wait_s: float = _SHORT_S) -> str | None:
        """Make one long poll. Notes the offered serial, `unchanged` or `unavailable`; returns the ETag."""
        with client_to(self.url, timeout_s=_LONG_S) as client:
            offer = client.poll("gr", "champion", etag=etag, wait_s=wait_s, is_absent=is_absent)
        if offer.state is State.NO_CHANNEL:
            self.found.append("ChannelAbsentError")
            return None
        self.found.append("unchanged" if offer.table is None else f"offered {offer.table.deployment.serial}")
        return offer.etag


def run(agent: AgentOfScenario, operate: Callable[[str], None]) -> None:
    """Run all steps. `operate` receives the name of each step of the operator."""
    agent.run_once()
    agent.poll(is_absent=True)
    operate("first_move")
    agent.run_once()
    etag = agent.poll()
    agent.poll(etag=etag)
    operate("urgent_move")
    agent.poll(etag=etag, wait_s=_LONG_S)
    agent.run_once()
    operate("roll_back")
    agent.tree.refuse_with = errno.ENOSPC
    agent.run_once()
    agent.tree.refuse_with = None
    agent.run_once()
    operate("move_again")
    agent.tree.text = table(90).text
    agent.run_once()
    agent.tree.loaded = False
    agent.run_once()
    operate("read_all")

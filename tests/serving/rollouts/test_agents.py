# SPDX-License-Identifier: MIT
"""The real agents of a fleet in a roll-out, with fake kernels, on a registry behind a socket."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import pytest

from serving.agent.loop import Agent, plan
from tests.serving.agent.fakes import FakeTree, header, log_to, settings_of
from tests.serving.api import Api
from tests.serving.running import CHAMPION, Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]

PLAN = {"steps": [{"share": 0.2}]}


def test_each_agent_applies_the_table_of_its_arm_and_no_older_serial_after_an_abort(api: Api, tmp_path: Path) -> None:
    api.move(0)
    digest = api.publish(1)
    trees = [FakeTree() for _ in range(14)]

    def serials(url: str) -> list[int]:
        for number, tree in enumerate(trees):
            # The agent chooses its own id and keeps it in its folder.
            settings = settings_of(tmp_path / str(number), url, agent_id="", labels={"site": f"site-{number % 2}"})
            settings.state_dir.parent.mkdir(exist_ok=True)
            Agent(settings, tree=tree, log=log_to(), boot_id="boot-1").run_once()
        return [int(header(tree.text)["serial"]) for tree in trees]

    with Running(api.database) as registry:
        assert serials(registry.url) == [1] * 14
        agents = httpx.get(f"{registry.url}/v1/agents", timeout=30).json()["items"]
        assert sorted(agent["labels"]["site"] for agent in agents) == ["site-0"] * 7 + ["site-1"] * 7
        answer = httpx.post(f"{registry.url}{CHAMPION}/rollouts", json={"digest": digest, "plan": PLAN}, timeout=30)
        assert answer.status_code == 201, answer.text
        begun = serials(registry.url)
        assert Counter(begun) == {1: 9, 2: 5}
        assert serials(registry.url) == begun
        # A dry run is offered what the agent is offered.
        for number, tree in enumerate(trees):
            settings = settings_of(tmp_path / str(number), registry.url, agent_id="")
            assert [(one.would, one.blocked) for one in plan(settings, tree=tree, boot_id="boot-1")] == [
                ("nothing", None)
            ]
        httpx.post(f"{registry.url}{CHAMPION}/rollback", timeout=30).raise_for_status()
        assert serials(registry.url) == [3] * 14
    # Every kernel took each of its tables once, and refused none.
    assert [len(tree.accepted) for tree in trees] == [3 if serial == 2 else 2 for serial in begun]
    assert [tree.rejected for tree in trees] == [0] * 14

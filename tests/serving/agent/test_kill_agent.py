# SPDX-License-Identifier: MIT
"""The campaign that kills agents, short: real processes, a real registry, five kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.prove.kill_agent import kill_agents, stand_in

pytestmark = pytest.mark.service


def test_table_in_force_is_always_a_published_one_when_agents_are_killed(tmp_path: Path) -> None:
    tally = kill_agents(tmp_path, stand_in(tmp_path / "tree"), count=5, seed=20)
    assert tally.kills == 5
    assert tally.applied > 0

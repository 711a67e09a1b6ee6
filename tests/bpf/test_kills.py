# SPDX-License-Identifier: MIT
"""The campaign that kills the agent, writes and loads, short; `make prove` does it 50 times each."""

from __future__ import annotations

from pathlib import Path

from tests.prove.kill_bpf import run_campaign


def test_table_in_force_is_always_a_published_one_when_programs_are_killed(program: Path, tmp_path: Path) -> None:
    tally = run_campaign(tmp_path, program=program, agents=2, writes=5, loads=3, flows=5, seed=3)
    assert (tally.agents, tally.writes, tally.loads) == (2, 5, 3)
    assert tally.objects >= tally.objects_after > 10

# SPDX-License-Identifier: MIT
"""The campaign that kills trainers, short: real processes, five kills."""

from __future__ import annotations

from pathlib import Path

from tests.prove.kill_trainer import kill_trainers


def test_a_killed_and_resumed_study_gives_the_ensemble_of_an_undisturbed_one(tmp_path: Path) -> None:
    tally = kill_trainers(tmp_path, count=5, seed=3)
    assert tally.kills == 5
    assert tally.endings > 0
    assert tally.with_parts > 0

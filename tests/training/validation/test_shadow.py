# SPDX-License-Identifier: MIT
"""Two ensembles in the simulator, before one replaces the other"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from links import recording

import ccatune
from kmod.ensemble import Ensemble
from serving.rollouts.plan import Plan
from serving.rollouts.shadow import Shadow, objections
from tests.serving.api import make_ensemble
from training.errors import TrainingError
from training.validation.recordings import Path as LinkPath
from training.validation.shadow import compare

UNSEEN = [recording("c", seed=3, seconds=90, dataset="one"), recording("d", seed=4, seconds=60, dataset="other")]
BASE = replace(make_ensemble(0), epoch_ms=10_000)
# A delay threshold of a second instead of 12 ms.
SLOW = replace(BASE, rows=tuple((60_000, 3_000, 1_000_000) for _ in BASE.rows))


def objections_to(candidate: Ensemble, found: dict) -> list[str]:
    shadow = Shadow.model_validate(found)
    return objections(shadow, baseline=BASE.digest, candidate=candidate.digest, plan=Plan())


def test_an_ensemble_is_not_worse_than_itself_under_another_name() -> None:
    same = replace(BASE, provenance={"number": 1})
    found = compare(BASE, same, UNSEEN, path=LinkPath(), threads=2)
    for row in found["targets"]:
        assert row["within_target"] == row["goodput"] == {"change": 0.0, "interval": [0.0, 0.0]}
        assert 0 < row["baseline"]["utilization"] <= 1
    assert found["datasets"] == ["one", "other"]
    assert objections_to(same, found) == []


def test_an_ensemble_that_exceeds_its_target_is_worse() -> None:
    found = compare(BASE, SLOW, UNSEEN, path=LinkPath(), threads=2)
    assert found["targets"][0]["within_target"]["interval"][1] < -0.1
    assert objections_to(SLOW, found)[0].startswith("In the simulator within_target of the target 50 ms is worse by")
    # In the other direction it is better.
    back = compare(SLOW, BASE, UNSEEN, path=LinkPath(), threads=1)["targets"][0]["within_target"]
    assert back["change"] == pytest.approx(-found["targets"][0]["within_target"]["change"])


def test_ensembles_with_other_targets_and_no_recordings_are_refused(tmp_path: Path, capsys) -> None:
    other = replace(BASE, classes=BASE.classes[::-1])
    with pytest.raises(TrainingError, match="with the same delay classes"):
        compare(BASE, other, UNSEEN, path=LinkPath())
    with pytest.raises(TrainingError, match="expected recordings, got none"):
        compare(BASE, SLOW, [], path=LinkPath())
    BASE.save(tmp_path / "a.json")
    words = ["evaluate", str(tmp_path / "a.json"), "--baseline", str(tmp_path / "a.json"), "--levels"]
    assert ccatune.run(words) == 2
    assert "--baseline: expected it without" in capsys.readouterr().err


def test_the_command_prints_what_a_rollout_takes(tmp_path: Path, capsys) -> None:
    for name, ensemble in (("a", BASE), ("b", SLOW)):
        ensemble.save(tmp_path / f"{name}.json")
    # A link of 6 Mbit/s: a packet every 2 ms.
    (tmp_path / "link.down").write_text("".join(f"{ms}\n" for ms in range(2, 60_001, 2)))
    words = ["evaluate", str(tmp_path / "b.json"), "--baseline", str(tmp_path / "a.json"), "--traces",
             str(tmp_path / "link.down"), "--threads", "1"]  # fmt: skip
    assert ccatune.run([*words, "--json"]) == 0
    assert objections_to(SLOW, json.loads(capsys.readouterr().out))
    assert ccatune.run(words) == 0
    assert "target 50 ms: within target" in capsys.readouterr().out

# SPDX-License-Identifier: MIT
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import surface
from links import recording, study

from kmod.ensemble import Ensemble
from training.evaluation.tasks import ClassTask, Part, SearchTask
from training.objectives import DelayObjective, Tally
from training.progress import Progress
from training.reports.surrogate import first_rows, left_out_of, summary, validated
from training.searches import Point, SurrogateChoice
from training.searches.contextual import ModelSettings
from training.study import Journal, Study
from training.study.contextual import Contextual
from training.workloads import Case

MODEL = {"members": 2, "width": 24, "steps": 150}
SEARCH = {"kind": "surrogate", "points": 2, "probes": 1, "probe_cases": 2, "finalists": 2, "model": MODEL}
STAGES = [{"name": "single", "sample": {"maximum": 3}}, {"name": "level", "group_by": ["throughput"]}]
RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
WANTED = study(search=SEARCH, stages=STAGES)


COARSE = 20  # bins of the closed form in one


class ClosedRunner(surface.ClosedRunner):
    """The closed form as a `CaseRunner` without references, in bins of 2 ms."""

    def run(self, cases: Sequence[Case], points: Sequence[Point]) -> list[list[Tally]]:
        return [[replace(tally, delays=tally.delays.reshape(-1, COARSE).sum(axis=1).astype(np.uint32)) for tally in row]
                for row in super().run(cases, points)]  # fmt: skip

    objectives = (surface.objective(),)

    def references(self, cases: Sequence[Case]) -> list[dict[str, Tally]]:
        return [{} for _ in cases]


def test_a_stage_finds_the_known_optimum_of_each_state() -> None:
    search = SurrogateChoice(
        kind="surrogate", points=6, probes=2, probe_cases=4, finalists=3,
        model=ModelSettings(members=3, width=32, steps=250, batch=128),
    )  # fmt: skip
    tasks = []
    for number, hardness in enumerate((0.8, 1.6)):
        cases = [replace(case, key=f"{number}-{case.key}", state=(number,), limit_mbps=hardness + 0.02 * (i % 5))
                 for i, case in enumerate(surface.epochs(12))]  # fmt: skip
        objective = DelayObjective(95, 50_000, edges_us=surface.EDGES_US[COARSE - 1 :: COARSE])
        one = ClassTask(surface.SPACE, objective, objective, (), ((), ()))
        tasks.append(SearchTask(f"s-{number}", "gr", ("w", "d", "t"), search, (one,), tuple(cases), (1.0,)))
    found: dict[str, Part] = {}
    model = Contextual(ClosedRunner(), surface.SPACE, seed=1)  # type: ignore[arg-type]
    model.stage("s", search, tasks, found.__setitem__)
    for number, middle in enumerate((0.84, 1.64)):
        (best,) = found[f"s-{number}"].found
        # 95 % of h (T + 10) + W / 10 ms at the target of 50 ms, with W = 60 ms.
        optimum_us = 1000 * ((50 / 0.95 - 6) / middle - 10)
        assert best.score.feasible
        assert best.point[2] == pytest.approx(optimum_us, rel=0.2)
        assert best.score.cases == 12
    assert sum(part.runs for part in found.values()) <= 2 * 12 * (6 + 2 + 3)


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(WANTED, RECORDINGS, unseen=RECORDINGS, threads=2).run()


def test_a_study_that_was_stopped_goes_on_and_gives_the_same_ensemble(tmp_path: Path, trained: Ensemble) -> None:
    journal = Journal(tmp_path, key="ab" * 32)

    class Stops(Progress):
        steps = 0

        def advance(self, amount: float) -> None:
            self.steps += amount > 0
            if self.steps == 20:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Study(WANTED, RECORDINGS, unseen=RECORDINGS, threads=1, progress=Stops()).run(journal)
    assert "single" in journal.parts()
    assert list(journal.batches("runs-level"))
    assert Study(WANTED, RECORDINGS, unseen=RECORDINGS, threads=2).run(journal).digest == trained.digest
    journal.discard()
    assert not journal.folder.exists()


def test_states_that_are_left_out_get_a_row_and_are_judged(trained: Ensemble) -> None:
    again = Study(WANTED, RECORDINGS, unseen=RECORDINGS, threads=2)
    left_out = left_out_of(again, axis=None, levels=[3])
    rows = first_rows(again, trained, left_out)
    assert set(rows) == {((3,), 0), ((3,), 1)}
    assert rows[(3,), 0][2] < rows[(3,), 1][2]
    found = summary(validated(again, trained, rows, least=2, most=6))
    assert [(one["class"], one["states"]) for one in found] == [(0, 1), (1, 1)]
    assert found[1]["first"]["cost"] < found[0]["first"]["cost"]

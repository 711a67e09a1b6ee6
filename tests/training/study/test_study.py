# SPDX-License-Identifier: MIT
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from links import STAGES, epochs_of_links, recording, study

from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.evaluation import executors
from training.evaluation.evaluator import Evaluator, Request
from training.evaluation.runner import CaseRunner
from training.evaluation.tasks import Part
from training.progress import Progress
from training.study import Journal, Study, require_recordings, single_sets, study_key, study_of

RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
UNSEEN = [recording("c", seed=3, dataset="made-validation")]


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(study(), RECORDINGS, unseen=UNSEEN, threads=2).run()


@pytest.mark.parametrize(("executor", "count"), [("threads", 1), ("processes", 2)])
def test_training_again_gives_the_same_digest_on_threads_and_in_processes(
    trained: Ensemble, executor: str, count: int
) -> None:
    assert Study(study(), RECORDINGS, unseen=UNSEEN, threads=count, executor=executor).run().digest == trained.digest


def test_another_seed_gives_another_ensemble(trained: Ensemble) -> None:
    assert Study(study(seed=2), RECORDINGS, unseen=UNSEEN).run().rows != trained.rows


def test_a_study_goes_on_from_its_journal_and_ends_the_same(tmp_path: Path, trained: Ensemble) -> None:
    journal = Journal(tmp_path, key="ab" * 32)
    searched: list[str] = []

    class Stops(Progress):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            searched.append(name)
            if len(searched) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Study(study(), RECORDINGS, unseen=UNSEEN, threads=1, progress=Stops()).run(journal)
    kept = set(journal.parts())
    assert kept >= set(searched)

    class Notes(Progress):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            searched.append(name)

    again = Study(study(), RECORDINGS, unseen=UNSEEN, threads=2, progress=Notes()).run(journal)
    assert again.digest == trained.digest
    assert kept.isdisjoint(searched[2:])


def test_the_provenance_says_where_each_row_came_from(trained: Ensemble) -> None:
    states = trained.provenance["states"]
    assert [(s["state"], s["class"]) for s in states] == [([n], c) for n in range(8) for c in range(2)]
    for state in states:
        if state["copied_from"] is not None:
            source = trained.row(tuple(state["copied_from"]), state["class"])
            assert trained.row(tuple(state["state"]), state["class"]) == source
        assert state["training"]["cases"] >= 2
    assert any(s["unseen"] is not None for s in states)
    assert {t["name"] for t in trained.provenance["traces"]} == {"a", "b"}


def test_the_best_single_sets_come_with_the_ensemble(trained: Ensemble) -> None:
    singles = single_sets(trained)
    assert singles is not None
    assert len(singles) == 2
    assert set(singles[0]) == set(trained.columns)
    assert singles[0]["delay_threshold_us"] < singles[1]["delay_threshold_us"]


def test_the_study_can_be_read_back_from_its_ensemble(trained: Ensemble) -> None:
    assert study_of(trained) == study()
    other = {**trained.provenance["study"], "axes": 5}
    for provenance, got in (
        ({}, "none"),
        ({"study": other}, r"one of another version \(axes: expected a mapping, .*\)"),
    ):
        with pytest.raises(TrainingError, match=f"expected the study in its provenance, got {got}; train it"):
            study_of(replace(trained, provenance=provenance))


def test_the_key_changes_with_study_and_traces() -> None:
    key = study_key(study(), RECORDINGS)
    assert key == study_key(study(), RECORDINGS[::-1])
    assert len({key, study_key(study(seed=2), RECORDINGS), study_key(study(), RECORDINGS[:1])}) == 3


def test_a_larger_target_is_never_trained_to_less_throughput(trained: Ensemble) -> None:
    states = trained.provenance["states"]
    for tight, loose in zip(states[::2], states[1::2], strict=True):
        if tight["training"]["meets"]:
            assert loose["training"]["utilization"] >= tight["training"]["utilization"] - 0.02


def test_finals_leave_no_level_worse_than_the_single_set_on_the_epochs_they_share() -> None:
    wanted = study(stages=STAGES)
    ensemble = Study(wanted, RECORDINGS, threads=2).run()
    objectives = wanted.objective.objectives("gr", "training")
    workload = epochs_of_links(wanted, RECORDINGS)
    runner = CaseRunner("gr", wanted.names, objectives, threads=2)
    singles = single_sets(ensemble)
    assert singles is not None
    for state in wanted.states:
        if workload.source(state) != state:
            continue
        evaluator = Evaluator(runner, workload.cases([state], "training", wanted.stages[2].sample), rounds=(1.0,))
        for c, objective in enumerate(objectives):
            points = [tuple(row[name] for name in wanted.names) for row in (ensemble.row(state, c), singles[c])]
            learned, single = evaluator.evaluate([Request(point, objective) for point in points])
            assert learned.rank <= single.rank


def test_candidates_are_the_states_own_point_its_neighbours_and_the_single_set_scaled() -> None:
    wanted = study(
        stages=[*STAGES[:2], {**STAGES[2], "scales": [0.5]}],
        objective={
            "kind": "delay",
            "classes": [{"queueing_delay_ms": 50, "ranges": {"delay_threshold_us": [9000, 90000]}}],
        },
    )
    seen = Study(wanted, RECORDINGS)
    parts = {
        "single": part((9000, 1500, 10_000)),
        **{f"level-{n:02d}": part((6000 + n, 1500, 20_000)) for n in range(8)},
    }
    trained = [state[0] for state in seen.trained]
    [level] = seen._near((trained[1],), 0)
    found = seen._task(wanted.stages[2], level, parts).classes[0].candidates
    near = sorted((n for n in trained if abs(n - level[0]) <= 1), key=lambda n: (abs(n - level[0]), n))
    assert found == (*((6000 + n, 1500, 20_000) for n in near), (9000, 1500, 10_000), (9000, 1500, 9000))


def part(point: tuple[int, ...]) -> Part:
    return Part.from_json({"found": [{"point": point, "score": {"violation": 0, "cost": 0, "cases": 1}}], "runs": 1,
                           "evaluations": []})  # fmt: skip


def test_a_stage_can_be_confirmed_on_epochs_that_did_not_train() -> None:
    stages = [{"name": "single"}, {"name": "level", "group_by": ["throughput"], "candidates_from": ["single"],
                                   "confirm": {"lenience_se": 1e6}}]  # fmt: skip
    confirmed = study(stages=stages, workload={**study().workload.model_dump(), "maximum": 2})
    trained = Study(confirmed, RECORDINGS, threads=2)
    ensemble = trained.run()
    singles = single_sets(ensemble)
    assert singles is not None
    workload, checked = trained.workload, 0
    for state in trained.trained:
        fresh = workload.cases([state], "confirming", confirmed.stages[1].sample)
        if len(fresh) > 1:  # a difference never exceeds so many standard errors: the single set stays
            assert ensemble.row(state, 0) == singles[0]
            checked += 1
    assert checked


def test_datasets_that_are_not_there_are_refused() -> None:
    with pytest.raises(TrainingError, match="expected recordings of other-train, got made-train"):
        require_recordings(RECORDINGS, study(datasets=["other-train"]))


def test_a_study_that_is_interrupted_within_a_search_goes_on_from_its_last_step(
    tmp_path: Path, trained: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "SNAPSHOT_S", 0.0)
    journal = Journal(tmp_path, key="ab" * 32)
    steps: list[float] = []
    lost: list[float] = []

    class Stops(Progress):
        def advance(self, amount: float) -> None:
            steps.append(amount)
            if len(steps) in {4, 9}:
                lost.append(amount)
                raise KeyboardInterrupt

    stopped = Study(study(), RECORDINGS, unseen=UNSEEN, threads=1, progress=Stops())
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            stopped.run(journal)
        assert journal.begun()
    assert journal.begun()[0].startswith("state")
    assert stopped.run(journal).digest == trained.digest
    assert journal.begun() == []
    # The work of the two steps that were interrupted was done twice, and no more.
    whole, work = without_interruption(tmp_path)
    assert sum(steps) == pytest.approx(work + sum(lost))
    assert stopped.trials == whole.trials


def without_interruption(folder: Path) -> tuple[Study, float]:
    """The study after a run without an interruption, and its work."""
    steps: list[float] = []

    class Counts(Progress):
        def advance(self, amount: float) -> None:
            steps.append(amount)

    whole = Study(study(), RECORDINGS, unseen=UNSEEN, threads=1, progress=Counts())
    whole.run(Journal(folder, key="cd" * 32))
    return whole, sum(steps)

# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from links import recording, study

from kmod.ensemble import Deployment, Ensemble, table_text
from training.build import Part, single_sets
from training.errors import TrainingError
from training.evaluator import Evaluator, Request
from training.flows import EpochRunner, epoch_cases, objectives
from training.journal import Journal
from training.plan import by_level, gather
from training.settings import study_of
from training.study import Silent, Study, require_recordings, study_key

RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
UNSEEN = [recording("c", seed=3, dataset="made-validation")]


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(study(), RECORDINGS, unseen=UNSEEN, threads=2).run()


def test_an_ensemble_has_a_row_for_every_state_and_class(trained: Ensemble) -> None:
    assert len(trained.rows) == 8 * 2
    assert trained.estimate_ms == 250
    assert table_text(trained, Deployment("local", "champion", 1)).endswith("end 16\n")


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

    class Stops(Silent):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            searched.append(name)
            if len(searched) == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Study(study(), RECORDINGS, unseen=UNSEEN, threads=1, progress=Stops()).run(journal)
    kept = set(journal.parts())
    assert kept >= set(searched)

    class Notes(Silent):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            searched.append(name)

    again = Study(study(), RECORDINGS, unseen=UNSEEN, threads=2, progress=Notes()).run(journal)
    assert again.digest == trained.digest
    assert kept.isdisjoint(searched[2:])


def test_the_provenance_says_where_each_row_came_from(trained: Ensemble) -> None:
    states = trained.provenance["states"]
    assert [(s["level"], s["class"]) for s in states] == [(n, c) for n in range(8) for c in range(2)]
    for state in states:
        if state["copied_from"] is not None:
            source = trained.row(state["copied_from"], state["class"])
            assert trained.row(state["level"], state["class"]) == source
        assert state["training"]["epochs"] >= 2
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


def test_the_key_changes_with_study_and_traces() -> None:
    key = study_key(study(), RECORDINGS)
    assert key == study_key(study(), RECORDINGS[::-1])
    assert len({key, study_key(study(seed=2), RECORDINGS), study_key(study(), RECORDINGS[:1])}) == 3


def test_a_larger_target_is_never_trained_to_less_throughput(trained: Ensemble) -> None:
    states = trained.provenance["states"]
    for tight, loose in zip(states[::2], states[1::2], strict=True):
        if tight["training"]["meets"]:
            assert loose["training"]["utilization"] >= tight["training"]["utilization"] - 0.02


def test_finals_leave_no_level_behind_the_single_set_on_the_epochs_they_share() -> None:
    wanted = study(finals={"neighbours": 1, "steps": 3, "maximum": 40})
    trained = Study(wanted, RECORDINGS, threads=2)
    ensemble = trained.run()
    runner = EpochRunner(wanted, threads=2)
    singles = single_sets(ensemble)
    assert singles is not None
    levels = by_level(trained.epochs)
    for plan in trained.plans:
        if plan.copied_from is not None:
            continue
        shared = gather(plan.level, levels, minimum=wanted.epochs.minimum, maximum=40, reach=3)
        evaluator = Evaluator(runner, epoch_cases(wanted, shared), rounds=(1.0,))
        for c, asked in enumerate(objectives(wanted, runner)):
            rows = (ensemble.row(plan.level, c), singles[c])
            points = [tuple(row[name] for name in ensemble.columns) for row in rows]
            learned, single = evaluator.evaluate([Request(p, asked, lambda _bound: False) for p in points])
            assert learned.rank <= single.rank


def test_finals_go_on_from_a_journal_and_end_the_same(tmp_path: Path) -> None:
    wanted = study(finals={"neighbours": 1, "steps": 3, "maximum": 40})
    whole = Study(wanted, RECORDINGS, threads=2).run()

    class Stops(Silent):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            if name.startswith("final-"):
                raise KeyboardInterrupt

    journal = Journal(tmp_path, key="cd" * 32)
    with pytest.raises(KeyboardInterrupt):
        Study(wanted, RECORDINGS, threads=1, progress=Stops()).run(journal)
    assert any(name.startswith("final-") for name in journal.parts())
    assert Study(wanted, RECORDINGS, threads=2).run(journal).digest == whole.digest


def test_a_part_comes_back_from_json_exactly() -> None:
    part = Part.from_json({"found": [], "runs": 3})
    assert Part.from_json(part.to_json()) == part


def test_datasets_that_are_not_there_are_refused() -> None:
    with pytest.raises(TrainingError, match="expected recordings of other-train, got made-train"):
        require_recordings(RECORDINGS, study(datasets=["other-train"]))

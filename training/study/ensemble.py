# SPDX-License-Identifier: MIT
"""Makes the ensemble of a finished study: a row for every state and class, and its provenance.

The digest covers the provenance, so it holds what determines or describes the result and nothing that differs from run
to run (no clock, no path, no number of threads). The same study gives the same digest wherever it runs. Only runs on a
real kernel differ (training/verification); an ensemble with such runs says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from emulation.run.simulator import core_version
from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, Request
from training.evaluation.runner import CaseRunner
from training.evaluation.tasks import Part
from training.searches import Score
from training.workloads import Sample, State

if TYPE_CHECKING:
    from training.study.study import Study

PROVENANCE_SCHEMA = "ccatune-provenance/2"
DIGITS = 6


def score_json(score: Score) -> dict[str, Any]:
    """A score as the provenance has it."""
    metrics = {name: round(value, DIGITS) for name, value in score.metrics.items()}
    return {"meets": score.feasible, "violation": round(score.violation, DIGITS), "cases": score.cases, **metrics}


def build_ensemble(study: Study, parts: dict[str, Part], verified: dict[str, Any] | None = None) -> Ensemble:
    """The ensemble of a study all of whose parts are there. verified: what a kernel confirmed."""
    s = study.settings
    tracking = {} if s.tracking is None else s.tracking.columns()
    rows, states = [], []
    for state in s.states:
        part = study.part_of(parts, s.all_stages[-1], state)
        unseen = _unseen_scores(study, state, part)
        for delay_class, found in enumerate(part.found):
            rows.append((*found.point, *tracking.values()))
            states.append({
                "state": list(state),
                "class": delay_class,
                **study.workload.of_state(state),
                "training": score_json(found.score),
                "unseen": score_json(unseen[delay_class]) if unseen else None,
            })  # fmt: skip
    return Ensemble(
        cca=s.cca,
        epoch_ms=s.clock.epoch_s * 1000,
        estimate_ms=s.clock.estimate_ms,
        epsilon_pct=s.clock.epsilon_pct if s.delay_classes else None,
        classes=s.delay_classes,
        axes=tuple(s.levels.values()),
        columns=(*s.names, *tracking),
        rows=tuple(rows),
        provenance={**_provenance(study, parts, states), **({} if verified is None else {"verified": verified})},
    )


def _provenance(study: Study, parts: Mapping[str, Part], states: list[dict[str, Any]]) -> dict[str, Any]:
    s = study.settings
    single = study.part_of(dict(parts), s.single, study.trained[0])
    return {
        "schema": PROVENANCE_SCHEMA,
        "study": s.model_dump(mode="json", by_alias=True),
        "study_digest": s.digest,
        **({"registered": s.registered} if s.registered else {}),
        "core": core_version(),
        "traces": [{"name": r.name, "dataset": r.dataset, "digest": r.trace.digest} for r in study.recordings],
        "unseen_traces": [{"name": r.name, "digest": r.trace.digest} for r in study.unseen],
        **study.workload.provenance(),
        "runs": sum(part.runs for part in parts.values()),
        "single": [
            {"class": c, "values": dict(zip(s.names, found.point, strict=True)), "training": score_json(found.score)}
            for c, found in enumerate(single.found)
        ],
        "states": states,
    }


def _unseen_scores(study: Study, state: State, part: Part) -> list[Score]:
    """The rows of a state on cases of unseen recordings, by class; none where there are none."""
    s = study.settings
    cases = study.workload.cases([state], "validation", Sample()) if study.unseen else []
    if not cases:
        return []
    objectives = s.objective.objectives(s.cca, "validation")
    runner = CaseRunner(s.cca, s.names, objectives, threads=study.threads)
    requests = [Request(found.point, one) for found, one in zip(part.found, objectives, strict=True)]
    return Evaluator(runner, cases, rounds=(1.0,)).evaluate(requests)


def single_sets(ensemble: Ensemble) -> list[dict[str, int]] | None:
    """The best single parameter set of each class, by name; None where the provenance has none."""
    kept = ensemble.provenance.get("single")
    if not isinstance(kept, list) or len(kept) != max(len(ensemble.classes), 1):
        return None
    return [{str(name): int(value) for name, value in entry["values"].items()} for entry in kept]


def require_singles(ensemble: Ensemble) -> list[dict[str, int]]:
    """The same.

    Raises:
        TrainingError: the provenance has none.
    """
    singles = single_sets(ensemble)
    if singles is None:
        raise TrainingError(f"{ensemble.digest}: expected an ensemble with its best single sets, got one without; "
                            "train it anew")  # fmt: skip
    return singles

# SPDX-License-Identifier: MIT
"""Makes the ensemble of a finished study: a row for every state, and its provenance.

The provenance is part of what the digest covers, so it holds what determines or
describes the result and nothing that differs from run to run (no clock, no path,
no number of threads): the same study gives the same digest wherever it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kmod.ensemble import DelayClass, Ensemble
from training.evaluator import Evaluator, Request
from training.flows import EpochRunner, axes_of, core_version, epoch_cases, objectives
from training.plan import LevelPlan, choose
from training.search import Found, Score
from training.states import Confusion, StateEpoch, confusion

if TYPE_CHECKING:
    from training.settings import StudySettings
    from training.study import Study

__all__ = ["PROVENANCE_SCHEMA", "Part", "build_ensemble", "single_sets"]

PROVENANCE_SCHEMA = "ccatune-provenance/1"
DIGITS = 6


@dataclass(frozen=True)
class Part:
    """What a search over one set of epochs gave: the best point of each class, and its cost in runs."""

    found: tuple[Found, ...]
    runs: int

    def to_json(self) -> dict[str, Any]:
        """As JSON data; floats come back exactly."""
        return {"found": [f.to_json() for f in self.found], "runs": self.runs}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Part:
        """From the data of `to_json`."""
        return Part(tuple(Found.from_json(f) for f in data["found"]), data["runs"])


def part_name(kind: str, plan: LevelPlan, *, level: int | None = None) -> str:
    """What the part of a state is kept as; level: another one of its row of states."""
    name = f"{kind}-{plan.level if level is None else level:02d}"
    return f"{name}-rtt-{plan.rtt}" if plan.rtt else name


def part_of(parts: Mapping[str, Part], plan: LevelPlan) -> Part:
    """The last word on the state that trained a plan's row: its final, or its own search where there were none."""
    final, own = (part_name(kind, plan, level=plan.source) for kind in ("final", "level"))
    return parts.get(final) or parts[own]


def score_json(score: Score) -> dict[str, Any]:
    """A score as it stands in the provenance."""
    return {
        "meets": score.feasible,
        "excess": round(score.excess, DIGITS),
        "utilization": round(score.utilization, DIGITS),
        "throughput_mbps": round(score.throughput_mbps, DIGITS),
        "delay_ms": round(score.delay_ms, DIGITS),
        "share_within": round(score.share_within, DIGITS),
        "epochs": score.epochs,
        **({} if score.rival_share is None else {"rival_share": round(score.rival_share, DIGITS)}),
    }


def confusion_json(found: Confusion) -> dict[str, Any]:
    """How far measured levels are from the epochs' means."""
    return {
        "epochs": int(found.counts.sum()),
        "within_levels": {str(d): round(share, DIGITS) for d, share in found.within.items()},
        "mean_error_levels": round(found.mean_error_levels, DIGITS),
    }


def build_ensemble(study: Study, parts: Mapping[str, Part], unseen: Sequence[StateEpoch]) -> Ensemble:
    """The ensemble of a study all of whose parts are there."""
    settings = study.settings
    rows: list[tuple[int, ...]] = []
    states: list[dict[str, Any]] = []
    scores = _unseen_scores(settings, study, parts, unseen)
    for plan in study.plans:
        part = part_of(parts, plan)
        for delay_class, found in enumerate(part.found):
            rows.append(found.point)
            states.append(
                {
                    "level": plan.level,
                    **({} if settings.rtts is None else {"rtt": plan.rtt}),
                    "class": delay_class,
                    "own_epochs": plan.own,
                    "borrowed_from": list(plan.borrowed_from),
                    "copied_from": plan.copied_from,
                    "training": score_json(found.score),
                    "unseen": scores.get((plan.level, plan.rtt, delay_class)),
                }
            )
    return Ensemble(
        cca=settings.cca,
        epoch_ms=settings.epochs.epoch_s * 1000,
        estimate_ms=settings.epochs.estimate_ms,
        epsilon_pct=settings.epochs.epsilon_pct,
        classes=tuple(DelayClass(c.percentile, c.queueing_delay_ms * 1000) for c in settings.classes),
        axes=axes_of(settings),
        columns=settings.names,
        rows=tuple(rows),
        provenance=_provenance(study, parts, states),
    )


def _provenance(study: Study, parts: Mapping[str, Part], states: list[dict[str, Any]]) -> dict[str, Any]:
    settings = study.settings
    return {
        "schema": PROVENANCE_SCHEMA,
        "study": settings.model_dump(mode="json", by_alias=True),
        "study_digest": settings.digest,
        "core": core_version(),
        "traces": [{"name": r.name, "dataset": r.dataset, "digest": r.trace.digest} for r in study.recordings],
        "unseen_traces": [{"name": r.name, "digest": r.trace.digest} for r in study.unseen],
        "confusion": confusion_json(confusion(study.epochs, settings)),
        "runs": sum(part.runs for part in parts.values()),
        "single": [
            {
                "class": c,
                "values": dict(zip(settings.names, found.point, strict=True)),
                "training": score_json(found.score),
            }
            for c, found in enumerate(parts["single"].found)
        ],
        "states": states,
    }


def _unseen_scores(
    settings: StudySettings, study: Study, parts: Mapping[str, Part], unseen: Sequence[StateEpoch]
) -> dict[tuple[int, int, int], dict[str, Any]]:
    """Each row, by level, level of RTT and class, on at most `maximum` epochs of its state that did not train."""
    scores: dict[tuple[int, int, int], dict[str, Any]] = {}
    runner = EpochRunner(settings, threads=study.threads)
    asked = objectives(settings, runner, aim=False)
    for plan in study.plans:
        epochs = [epoch for epoch in unseen if epoch.state == (plan.level, plan.rtt)]
        if not epochs:
            continue
        found = part_of(parts, plan).found
        cases = epoch_cases(settings, choose(epochs, settings.epochs.maximum))
        evaluator = Evaluator(runner, cases, rounds=(1.0,))
        requests = [Request(f.point, o, lambda _bound: False) for f, o in zip(found, asked, strict=True)]
        for delay_class, score in enumerate(evaluator.evaluate(requests)):
            scores[plan.level, plan.rtt, delay_class] = score_json(score)
    return scores


def single_sets(ensemble: Ensemble) -> list[dict[str, int]] | None:
    """The best single parameter set of each class, by name; None where the provenance has none."""
    kept = ensemble.provenance.get("single")
    if not isinstance(kept, list) or len(kept) != len(ensemble.classes):
        return None
    return [{str(name): int(value) for name, value in entry["values"].items()} for entry in kept]

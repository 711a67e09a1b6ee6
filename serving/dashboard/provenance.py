# SPDX-License-Identifier: MIT
"""An ensemble's provenance in sentences: study, recordings, search, seed, scores.

Anyone may publish any provenance. What is not as `ccatune train` writes it (training/study/ensemble.py) is left out,
and no text of it is trusted: the templates escape all of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

_MOST_NAMES = 8
_MOST_CHARS = 20_000


def in_words(provenance: Mapping[str, Any]) -> list[str]:
    """Return what the provenance says, in sentences; none where it says nothing usable."""
    return [*_study(provenance), *_recordings(provenance), *_scores(provenance, "training", "the training recordings"),
            *_scores(provenance, "unseen", "recordings that did not train"), *_confusion(provenance),
            *_verified(provenance)]  # fmt: skip


def as_text(provenance: Mapping[str, Any]) -> str:
    """Return the provenance as JSON without the scores of single states, cut after some pages."""
    shown = {name: value for name, value in provenance.items() if name != "states"}
    text = json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False)
    return (
        text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]}\n... and {len(text) - _MOST_CHARS} characters more"
    )


def _study(provenance: Mapping[str, Any]) -> list[str]:
    study = provenance.get("study")
    if not isinstance(study, dict):
        return []
    said = [f"It is the result of a study of {study.get('cca')} with seed {study.get('seed')}"]
    if isinstance(provenance.get("study_digest"), str):
        said[0] += f", whose digest is {provenance['study_digest'][:12]}"
    said[0] += "."
    for part, words in (("workload", "It trained on the workload"), ("objective", "Its objective is")):
        if kind := _kind(study.get(part)):
            said.append(f"{words} {kind}.")
    stages = study.get("stages")
    searches = [_kind(study.get("search"))]
    if isinstance(stages, list):
        searches += [_kind(stage.get("search")) for stage in stages if isinstance(stage, dict)]
    if kinds := list(dict.fromkeys(filter(None, searches))):
        said.append(f"It searched by {_listed(kinds)}.")
    runs, core = provenance.get("runs"), provenance.get("core")
    if isinstance(runs, int):
        said.append(f"The search took {runs:,} simulated runs" + (f" with the core {core}." if core else "."))
    registered = provenance.get("registered")
    if isinstance(registered, dict) and registered:
        said.append(f"It used {_listed([f'{kind} of {package}' for kind, package in registered.items()])}.")
    return said


def _kind(part: Any) -> str | None:
    found = part.get("kind") if isinstance(part, dict) else None
    return found if isinstance(found, str) else None


def _recordings(provenance: Mapping[str, Any]) -> list[str]:
    said = []
    traces = _entries(provenance, "traces")
    if traces:
        datasets = Counter(str(trace.get("dataset") or "no dataset") for trace in traces)
        shown = [f"{name} ({number})" for name, number in datasets.most_common()]
        said.append(f"It trained on {_number(len(traces), 'recording')}: {_listed(shown)}.")
    unseen = _entries(provenance, "unseen_traces")
    if unseen:
        names = [str(trace.get("name")) for trace in unseen]
        said.append(f"It was evaluated on {_number(len(unseen), 'recording')} that did not train: {_listed(names)}.")
    return said


def _scores(provenance: Mapping[str, Any], key: str, where: str) -> list[str]:
    scores = [row[key] for row in _entries(provenance, "states") if isinstance(row.get(key), dict)]
    if not scores:
        return []
    n_met = sum(score.get("meets") is True for score in scores)
    said = [f"On {where} {n_met} of {_number(len(scores), 'row')} meet the requirement."]
    shares = [score["share_within"] for score in scores if isinstance(score.get("share_within"), int | float)]
    if shares:
        least, most = (f"{100 * share:.1f} %" for share in (min(shares), max(shares)))
        said.append(f"There the share of the packets within their target is from {least} to {most}.")
    return said


def _confusion(provenance: Mapping[str, Any]) -> list[str]:
    found = provenance.get("confusion")
    if not isinstance(found, dict) or not isinstance(found.get("mean_error_levels"), int | float):
        return []
    return [f"The level that a flow measures differs from that of its epoch by {found['mean_error_levels']:.2g} levels "
            f"in the mean, over {found.get('epochs')} epochs."]  # fmt: skip


def _verified(provenance: Mapping[str, Any]) -> list[str]:
    found = provenance.get("verified")
    if not isinstance(found, dict):
        return []
    outcomes = Counter(str(row.get("outcome")) for row in _entries(found, "rows"))
    said = [f"{number} {outcome}" for outcome, number in outcomes.most_common()]
    return [f"Rows of it ran on a real kernel: {_listed(said)}."] if said else ["Rows of it ran on a real kernel."]


def _entries(provenance: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = provenance.get(key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _listed(names: Sequence[object]) -> str:
    shown = ", ".join(str(name)[:80] for name in names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

# SPDX-License-Identifier: MIT
"""Decides whether flows meet the network of the training. A pure function of the sums and the training's figures.

Visits. States with at least 1 % of the training epochs are a bin each, and all others together are one. With the shares
a_i of the live epochs and t_i of the training epochs, both at least 0.001 so that no logarithm is infinite,

    stability index = sum_i (a_i - t_i) ln(a_i / t_i)

Thresholds: 0.1 and 0.25, the custom of credit scoring, where the index is from (Siddiqi 2006, Credit Risk Scorecards).
Without drift the index of B bins, n live and m training epochs is on average (B - 1) (1/n + 1/m) (Yurdakul and Naranjo
2020). Where this exceeds half of the lower threshold, the visits are not judged.

Delay. Of each row, from the samples of its flows:

    late share    = 1 - samples within the target / samples
    allowed share = max(1 - percentile / 100, 1 - training's share within the target)
    late ratio    = late share / allowed share

Thresholds: 1.5 and 2, our choice: a class of the 95th percentile has drifted with a tenth of its samples late. A row
with fewer than 200 epochs is not judged. The channel follows its worst row among those with at least 5 % of the epochs
of their class.

DEVIATION: there is no ratio of mean delays. Training keeps a percentile and a share of the packets, not the mean.

Limits: training counts packets in the queue of the link, and senders measure ACKs. The epochs of one flow are alike, so
the index varies more than the formula says. A training with an aim below 1 counts its share within a tighter target.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from serving.drift.schemas import Drift, DriftRow, DriftState, Verdict
from serving.drift.training import Training

INDEX_WATCH: Final = 0.1
INDEX_DRIFTED: Final = 0.25
RATIO_WATCH: Final = 1.5
RATIO_DRIFTED: Final = 2.0
LEAST_EPOCHS: Final = 200

_BIN_SHARE = 0.01
_LEAST_SHARE = 0.001
_CHANCE_INDEX = INDEX_WATCH / 2
_UNNAMED_SHARE = 0.1
_ROW_SHARE = 0.05
# Rows with a sentence of their own.
_MOST_ROWS = 5
_SEVERITY: Final[dict[Verdict, int]] = {"ok": 0, "unknown": 1, "watch": 2, "drifted": 3}

# A verdict with its reason.
_Part = tuple[Verdict, str]


@dataclass(frozen=True)
class LiveRow:
    """Sums of the flows that use one row. state: None for rows that agents added up. delay_class: None without one."""

    state: int | None
    delay_class: int | None
    epochs: int
    visits: int
    delay_samples: int
    delay_us: int
    within_target: int


def judge(training: Training, live: Sequence[LiveRow]) -> Drift:
    """Compare the sums of an ensemble's flows with its training."""
    n_classes = len(training.percentiles)
    rows = [
        _row(training, row, state=row.state, delay_class=row.delay_class)
        for row in live
        if row.state is not None and row.delay_class is not None and row.delay_class < n_classes
    ]
    index, visits = _visits(training, live)
    states = [] if training.n_states == 1 else _shares(training, live)
    parts = [part for part in (visits, *_delays(training, rows)) if part is not None]
    parts.sort(key=lambda part: -_SEVERITY[part[0]])
    if training.n_states == 1:
        parts.append(("ok", "The ensemble has one state, so the visits of states cannot drift."))
    if not training.percentiles:
        parts.append(("ok", "The ensemble has no delay classes, so there is no target of the delay."))
        if training.n_states == 1:
            parts.insert(0, ("unknown", "Nothing can be compared with training."))
    return Drift(
        verdict=parts[0][0], reasons=[reason for _, reason in parts], stability_index=index, states=states,
        rows=sorted(rows, key=lambda row: (row.delay_class, row.state)),
    )  # fmt: skip


def _visits(training: Training, live: Sequence[LiveRow]) -> tuple[float | None, _Part | None]:
    """Return the stability index and the verdict on the visits; neither for an ensemble of one state."""
    if training.n_states == 1:
        return None, None
    n_training = sum(training.visits.values())
    if not n_training:
        return None, ("unknown", "The ensemble's provenance does not say how often training visited its states.")
    seen: Counter[int | None] = Counter()
    for row in live:
        seen[row.state] += row.visits
    unnamed = seen.pop(None, 0)
    n_live = seen.total()
    if n_live < LEAST_EPOCHS:
        return None, ("unknown", f"{_epochs(n_live)} began, and {LEAST_EPOCHS} are needed to judge the visits.")
    if unnamed > _UNNAMED_SHARE * (n_live + unnamed):
        return None, ("unknown", f"{_epochs(unnamed)} came without their state, which are too many to judge visits.")
    own = [state for state, count in training.visits.items() if count >= _BIN_SHARE * n_training]
    pairs = [(seen[state] / n_live, training.visits[state] / n_training) for state in own]
    pairs.append((1 - sum(live for live, _ in pairs), 1 - sum(trained for _, trained in pairs)))
    chance = (len(pairs) - 1) * (1 / n_live + 1 / n_training)
    if chance > _CHANCE_INDEX:
        return None, (
            "unknown",
            f"{_epochs(n_live)} and {n_training} of training are too few for {len(pairs)} groups of states: the "
            f"stability index would be {chance:.2f} by chance.",
        )
    index = sum(_term(max(a, _LEAST_SHARE), max(t, _LEAST_SHARE)) for a, t in pairs)
    return index, _index_in_words(index)


def _term(live: float, trained: float) -> float:
    return (live - trained) * math.log(live / trained)


def _index_in_words(index: float) -> _Part:
    said = f"The stability index of the visits is {index:.2f}"
    if index > INDEX_DRIFTED:
        return "drifted", f"{said}, above {INDEX_DRIFTED}: flows are in other states than in training."
    if index > INDEX_WATCH:
        return "watch", f"{said}, above {INDEX_WATCH}: flows begin to be in other states than in training."
    return "ok", f"{said}, at most {INDEX_WATCH}: flows are in the states of the training."


def _shares(training: Training, live: Sequence[LiveRow]) -> list[DriftState]:
    seen: Counter[int] = Counter()
    for row in live:
        if row.state is not None:
            seen[row.state] += row.visits
    n_live, n_training = max(seen.total(), 1), max(sum(training.visits.values()), 1)
    return [
        DriftState(state=state, share=seen[state] / n_live, training_share=training.visits.get(state, 0) / n_training)
        for state in range(training.n_states)
        if seen[state] or training.visits.get(state)
    ]


def _row(training: Training, row: LiveRow, *, state: int, delay_class: int) -> DriftRow:
    by_target = 1 - training.percentiles[delay_class] / 100
    allowed = max(by_target, 1 - training.within.get((state, delay_class), 1.0))
    late = None if not row.delay_samples else 1 - row.within_target / row.delay_samples
    ratio = None if late is None else late / allowed
    verdict: Verdict = "unknown"
    if row.epochs >= LEAST_EPOCHS and ratio is not None:
        verdict = "drifted" if ratio > RATIO_DRIFTED else "watch" if ratio > RATIO_WATCH else "ok"
    return DriftRow(
        state=state, delay_class=delay_class, verdict=verdict, epochs=row.epochs, late_share=late,
        allowed_late_share=allowed, late_ratio=ratio,
        mean_delay_us=row.delay_us / row.delay_samples if row.delay_samples else None,
    )  # fmt: skip


def _delays(training: Training, rows: Sequence[DriftRow]) -> list[_Part]:
    """Return the verdicts on the delay: of each row that is not ok, or one for all."""
    if not training.percentiles:
        return []
    of_class: Counter[int] = Counter()
    for row in rows:
        of_class[row.delay_class] += row.epochs
    judged = [row for row in rows if row.verdict != "unknown" and row.epochs >= _ROW_SHARE * of_class[row.delay_class]]
    if not judged:
        most = max((row.epochs for row in rows), default=0)
        return [("unknown", f"No row has {LEAST_EPOCHS} epochs with delay samples; the largest number is {most}.")]
    worse = sorted((row for row in judged if row.verdict != "ok"), key=lambda row: -(row.late_ratio or 0))
    if worse:
        parts: list[_Part] = [(row.verdict, _delay_in_words(training, row)) for row in worse[:_MOST_ROWS]]
        n_more = len(worse) - len(parts)
        if n_more:
            parts.append(("watch", f"{n_more} more rows are above their limit."))
        return parts
    return [("ok", f"At most {max(row.late_ratio or 0 for row in judged):.1f} times the allowed share of the delay "
                   f"samples is above the target, of {len(judged)} judged rows.")]  # fmt: skip


def _delay_in_words(training: Training, row: DriftRow) -> str:
    threshold = RATIO_DRIFTED if row.verdict == "drifted" else RATIO_WATCH
    where = f"class {row.delay_class}" + (f", state {row.state}" if training.n_states > 1 else "")
    return (
        f"In {where}, {100 * (row.late_share or 0):.1f} % of the delay samples are above the target, "
        f"{row.late_ratio:.1f} times the allowed {100 * row.allowed_late_share:.1f} % "
        f"(more than {threshold:g} times counts as {row.verdict})."
    )


def _epochs(number: int) -> str:
    return "1 epoch" if number == 1 else f"{number} epochs"

# SPDX-License-Identifier: MIT
"""The verdict on drift, from sums and the figures of a training"""

from __future__ import annotations

import json
import math

import pytest

from kmod.ensemble import canonical_json
from serving.drift.judgement import LiveRow, judge
from serving.drift.training import Training, training_of
from tests.serving.api import make_ensemble

FOUR = Training(4, (95,), {0: 4000, 1: 4000, 2: 2000, 3: 0}, {(state, 0): 0.95 for state in range(4)})
ONE = Training(1, (95, 90), {0: 500}, {(0, 0): 0.96, (0, 1): 0.7})


def row(state, epochs, *, delay_class=0, late=0.05):
    """Sums of so many epochs, of 100 samples each."""
    samples = epochs * 100
    return LiveRow(state, delay_class, epochs, epochs, samples, samples * 20_000, round(samples * (1 - late)))


@pytest.mark.parametrize(
    ("epochs", "verdict", "index"),
    [
        ((4000, 4000, 2000, 0), "ok", 0.0),
        # 2 x 0.15 ln(0.55 / 0.25), up to its own sign
        ((5500, 2500, 2000, 0), "watch", 0.15 * math.log(0.55 / 0.4) + 0.15 * math.log(0.4 / 0.25)),
        ((2000, 2000, 6000, 0), "drifted", 0.4 * math.log(2) + 0.4 * math.log(3)),
        # A state that training never saw counts from the floor on.
        ((3200, 3200, 1600, 2000), "drifted", 0.2 * math.log(1 / 0.8) + 0.199 * math.log(200)),
    ],
)
def test_visits_are_judged_by_the_stability_index(epochs, verdict, index):
    found = judge(FOUR, [row(state, n) for state, n in enumerate(epochs) if n])
    assert found.verdict == verdict, found.reasons
    assert found.stability_index == pytest.approx(index, abs=1e-9)
    assert [one.training_share for one in found.states] == [0.4, 0.4, 0.2, 0.0][: len(found.states)]


def test_too_few_epochs_are_unknown_and_never_ok():
    assert judge(FOUR, []).verdict == "unknown"
    few = judge(FOUR, [row(0, 100), row(1, 99)])
    assert (few.verdict, few.stability_index) == ("unknown", None)
    assert "199 epochs began, and 200 are needed" in few.reasons[0]
    states = range(50)
    many = Training(50, (95,), dict.fromkeys(states, 10))
    by_chance = judge(many, [row(state, 1000) for state in states])
    assert by_chance.verdict == "unknown"
    assert "0.10 by chance" in by_chance.reasons[0]
    unnamed = judge(FOUR, [row(0, 4000), row(1, 4000), row(2, 2000), row(None, 1200)])
    assert (unnamed.verdict, unnamed.stability_index) == ("unknown", None)


def test_an_ensemble_of_one_state_is_judged_by_its_delay_alone():
    found = judge(ONE, [row(0, 300), row(0, 300, delay_class=1, late=0.4)])
    assert (found.verdict, found.states) == ("ok", [])
    assert found.reasons[-1] == "The ensemble has one state, so the visits of states cannot drift."
    # Training's own share is allowed where it is larger than that of the percentile.
    assert [one.allowed_late_share for one in found.rows] == pytest.approx([0.05, 0.3])


@pytest.mark.parametrize(("late", "verdict"), [(0.07, "ok"), (0.08, "watch"), (0.1, "watch"), (0.101, "drifted")])
def test_delay_is_judged_by_the_share_above_the_target(late, verdict):
    found = judge(ONE, [row(0, 300, late=late), row(0, 199, delay_class=1, late=1.0)])
    assert found.verdict == verdict
    assert [one.verdict for one in found.rows] == [verdict, "unknown"]
    if verdict == "drifted":
        assert found.reasons[0] == (
            "In class 0, 10.1 % of the delay samples are above the target, 2.0 times the allowed 5.0 % "
            "(more than 2 times counts as drifted)."
        )


def test_a_row_that_few_flows_use_does_not_decide():
    common = [row(0, 8000), row(1, 8000), row(2, 4000)]
    assert judge(FOUR, [*common, row(3, 400, late=0.5)]).verdict == "ok"
    assert judge(FOUR, [*common, row(3, 1200, late=0.5)]).verdict == "drifted"


def test_an_ensemble_without_classes_or_figures_is_unknown():
    no_class = LiveRow(0, None, 1000, 1000, 0, 0, 0)
    assert judge(Training(1), [no_class]).reasons[0] == "Nothing can be compared with training."
    assert judge(Training(4), [no_class]).verdict == "unknown"
    assert judge(Training(4, (), FOUR.visits), [no_class]).verdict == "drifted"


def test_figures_of_training_are_read_from_the_provenance_and_nothing_else_is_trusted():
    def of(**provenance):
        return training_of(canonical_json({**make_ensemble(0).content(), "provenance": provenance}).decode())

    row_of = {"state": [2], "class": 1, "own_epochs": 7, "training": {"share_within": 0.9, "meets": True}}
    assert of(states=[row_of]) == Training(4, (95, 95), {2: 7}, {(2, 1): 0.9})
    empty = Training(4, (95, 95))
    assert of(states=[{**row_of, "state": [4]}]) == of(states=[{**row_of, "state": []}]) == empty
    for wrong in (None, 5, [5], [{**row_of, "own_epochs": -1}], [{**row_of, "training": {"share_within": 2}}]):
        assert of(states=wrong) == empty, json.dumps(wrong)
    assert of() == empty

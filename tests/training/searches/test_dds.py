# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from surface import SPACE, ClosedRunner, epochs, objective

from training.errors import TrainingError
from training.evaluation.evaluator import Evaluator, JointSearch, optimise
from training.evaluation.tasks import EVALUATIONS
from training.searches import DdsChoice, LocalChoice
from training.searches.dds import DdsSearch, latin_hypercube, neighbours, reflect
from training.searches.points import PointsSearch, grid_points
from training.searches.search import Score, Search
from training.searches.space import Point


def score(*, violation: float = 0.0, utilization: float = 0.5, complete: bool = True) -> Score:
    return Score(violation, 1 - utilization, 4, complete, 10.0)


def search(seed: int = 1, **choices: object) -> DdsSearch:
    made = DdsChoice(**choices).make(SPACE, [], samples=(seed,), steps=(seed, 1))  # type: ignore[arg-type]
    assert isinstance(made, DdsSearch)
    return made


def drive(dds: Search) -> list[Point]:
    """Tell a smooth made-up score until it is done; all points in order."""
    seen: list[Point] = []
    while not dds.done:
        seen += answered(dds, 4)
    return seen


def answered(dds: Search, count: int, scores: Sequence[Score] = ()) -> list[Point]:
    """Ask for proposals and give their scores, made up where there are none; the points."""
    proposals = dds.ask(count)
    for proposal, score in zip(proposals, scores or [made_up(p.point) for p in proposals], strict=True):
        dds.tell(proposal.number, score)
    return [proposal.point for proposal in proposals]


def made_up(point: Point) -> Score:
    distance = sum((x - 0.4) ** 2 for x in SPACE.positions(point))
    return score(utilization=1 - distance)


def test_known_points_are_samples_beside_those_of_the_hypercube() -> None:
    known = [(60_000, 5000, 90_000), (20_000, 2000, 8000)]
    plain = search(intervals=5, steps=3)
    both = DdsChoice(intervals=5, steps=3).make(SPACE, known, samples=(1,), steps=(1, 1))
    assert both.budget == plain.budget + 2
    drawn = drive(plain)[:5]
    assert drive(both)[:7] == [*drawn, *known]


@pytest.mark.parametrize("placement", ["centre", "random"])
def test_every_interval_of_every_parameter_holds_exactly_one_sample(placement: str) -> None:
    samples = np.array(latin_hypercube(intervals=17, dimensions=3, placement=placement, seed=(3,)))
    for axis in range(3):
        assert sorted(np.floor(samples[:, axis] * 17).astype(int)) == list(range(17))


def test_the_box_is_bounded_by_the_neighbouring_samples_and_else_by_the_range() -> None:
    samples = [[0.1, 0.5], [0.4, 0.9], [0.8, 0.2]]
    assert neighbours(samples, samples[1]) == [(0.1, 0.8), (0.5, 1.0)]
    assert neighbours(samples, samples[0]) == [(0.0, 0.4), (0.2, 0.9)]


def test_the_box_around_the_best_sample_holds_no_other_sample() -> None:
    dds = search(intervals=12, steps=1)
    samples = []
    for _ in range(3):
        samples += answered(dds, 4)
    best = dds.best
    assert best is not None
    for other in samples:
        if other != best.point:
            inside = [lo + 1e-3 < x < hi - 1e-3 for x, (lo, hi) in zip(SPACE.positions(other), dds.box, strict=True)]
            assert not any(inside)


def test_annealing_never_leaves_the_box() -> None:
    dds = search(intervals=6, steps=60, start_step=1.0, end_step=1.0)
    points = drive(dds)
    for point in points[6:]:
        for x, (low, high) in zip(SPACE.positions(point), dds.box, strict=True):
            assert low - 1e-3 <= x <= high + 1e-3


def test_a_box_that_follows_keeps_its_widths_and_holds_the_best_point() -> None:
    dds = search(intervals=6, steps=40, restarts=9, box="follow", start_step=1.0, end_step=1.0)
    widths = None
    while not dds.done:
        answered(dds, 4)
        if dds.box and widths is None:
            widths = [high - low for low, high in dds.box]
    assert [high - low for low, high in dds.box] == pytest.approx(widths)
    assert all(0 <= low < high <= 1 for low, high in dds.box)
    assert dds.best is not None
    assert dds.best.score.cost < made_up(SPACE.point([0.5, 0.5, 0.5])).cost


def test_a_wider_box_is_as_many_times_as_wide_and_holds_the_best_sample() -> None:
    boxes = []
    for widen in (1.0, 2.0):
        dds = search(intervals=12, steps=1, widen=widen)
        while not dds.box:
            answered(dds, 4)
        assert all(low <= x <= high for x, (low, high) in zip(dds._current, dds.box, strict=True))
        boxes.append([high - low for low, high in dds.box])
    assert boxes[1] == pytest.approx([min(2 * width, 1.0) for width in boxes[0]])


def missed(target: int, **choices: object) -> float:
    """How much less 20 searches use of a link in closed form than a fine grid does, on the mean."""
    evaluator = Evaluator(ClosedRunner(), epochs(4))
    [best] = optimise(
        evaluator, [(PointsSearch(grid_points(SPACE, count=2, counts={"w": 32, "t": 128})), objective(target))]
    )
    left = []
    for seed in range(20):
        [found] = optimise(evaluator, [(search(seed, intervals=16, steps=24, **choices), objective(target))])
        left.append(found.score.cost - best.score.cost if found.score.feasible else 1.0)
    return float(np.mean(left))


def test_steps_that_are_aimed_find_more() -> None:
    assert missed(0, aim=0.5) < 0.5 * missed(0)


def test_the_most_promising_of_several_steps_finds_more_in_a_wide_box() -> None:
    wide = {"aim": 1.0, "widen": 8.0}
    assert missed(1, draws=8, **wide) < 0.85 * missed(1, **wide)


@pytest.mark.parametrize(
    ("scores", "wins"),
    [([(0.1, 0.99), (0.0, 0.6), (0.0, 0.7)], 2), ([(0.3, 0.9), (0.1, 0.2), (0.2, 0.99)], 1)],
    ids=["a point that meets the target over a faster one that does not", "the least excess where none meets it"],
)
def test_the_best_is_by_violation_and_then_by_cost(scores: list[tuple[float, float]], wins: int) -> None:
    dds = search(intervals=3, steps=0)
    points = answered(dds, 3, [score(violation=e, utilization=u) for e, u in scores])
    assert dds.best is not None
    assert dds.best.point == points[wins]


def test_the_same_seeds_give_the_same_points_and_others_do_not() -> None:
    assert drive(search(5)) == drive(search(5))
    assert drive(search(5)) != drive(search(6))


def test_classes_share_their_samples_but_not_their_steps() -> None:
    settings = DdsChoice(intervals=8, steps=8)
    first, second = (drive(settings.make(SPACE, [], samples=(1, 7), steps=(1, 7, c))) for c in (1, 2))
    assert first[:8] == second[:8]
    assert first[8:] != second[8:]


@pytest.mark.parametrize("choices", [{}, {"aim": 0.8}, {"aim": 1.0, "draws": 4}])
def test_a_search_that_repeats_its_evaluations_from_json_goes_the_same_way(choices: dict[str, float]) -> None:
    def joint() -> JointSearch:
        evaluator, its = Evaluator(runner, epochs(4)), {"intervals": 6, "steps": 10, "restarts": 1, **choices}
        return JointSearch(evaluator, [(search(1, **its), objective(c)) for c in (0, 1)])

    runner = ClosedRunner()
    whole = joint()
    while not whole.done:
        whole.step()
    for stop in range(1, 12):
        begun, resumed = joint(), joint()
        for _ in range(stop):
            begun.step()
        saved = json.loads(json.dumps(EVALUATIONS.dump_python(tuple(begun.evaluations), mode="json")))
        runner.runs.clear()
        resumed.repeat(EVALUATIONS.validate_python(saved))
        assert runner.runs == []
        while not resumed.done:
            resumed.step()
        assert resumed.evaluations == whole.evaluations
        assert (resumed.best, resumed.runs) == (whole.best, whole.runs)
    with pytest.raises(ValueError, match="other points"):
        joint().repeat(whole.evaluations[::-1])


@pytest.mark.parametrize(("temperature", "worse_is_taken"), [(1e-9, False), (1e9, True)])
def test_a_worse_step_is_taken_at_a_high_temperature_alone(temperature: float, worse_is_taken: bool) -> None:
    dds = search(intervals=3, steps=2, start_temperature=temperature, end_temperature=temperature)
    answered(dds, 3, [score(utilization=u) for u in (0.5, 0.9, 0.4)])
    start = dds._current
    [worse] = answered(dds, 1, [score(utilization=0.89)])
    assert (SPACE.point(dds._current) == worse) == worse_is_taken
    assert (dds._current == start) != worse_is_taken
    [better] = answered(dds, 1, [score(utilization=0.91)])
    assert SPACE.point(dds._current) == better


def test_a_score_of_no_proposal_that_is_out_is_refused() -> None:
    dds = search()
    dds.ask(2)
    dds.tell(1, score())
    for number in (1, 7):
        with pytest.raises(TrainingError, match=rf"a proposal that is out \(0\), got one of {number}"):
            dds.tell(number, score())


@given(st.randoms(use_true_random=False), st.integers(1, 8))
def test_the_order_in_which_scores_come_changes_nothing(random: Random, most_out: int) -> None:
    choices = {"intervals": 7, "steps": 6, "aim": 0.8, "draws": 3}
    inorder, shuffled = search(3, **choices), search(3, **choices)
    whole, seen, out = drive(inorder), [], []
    while not shuffled.done:
        asked = shuffled.ask(most_out - len(out)) if len(out) < most_out else []
        seen += asked
        out += asked
        proposal = out.pop(random.randrange(len(out)))
        shuffled.tell(proposal.number, made_up(proposal.point))
    assert [proposal.point for proposal in seen] == whole
    assert shuffled.best == inorder.best


def test_a_step_waits_for_the_score_of_the_one_before() -> None:
    dds = search(intervals=3, steps=2)
    first = dds.ask(9)
    assert [proposal.number for proposal in first] == [0, 1, 2]
    assert dds.ask(1) == []
    for proposal in first:
        dds.tell(proposal.number, made_up(proposal.point))
    [step] = dds.ask(9)
    assert dds.ask(1) == []
    dds.tell(step.number, made_up(step.point))
    assert len(dds.ask(9)) == 1


@given(st.floats(-5, 5), st.floats(0, 1), st.floats(0.001, 1))
def test_reflection_stays_inside_and_keeps_what_is_inside(value: float, low: float, width: float) -> None:
    high = low + width
    assert low - 1e-9 <= reflect(value, low, high) <= high + 1e-9
    if low <= value <= high:
        assert reflect(value, low, high) == pytest.approx(value)


@pytest.mark.parametrize("target", [1, 2])
def test_dds_comes_within_five_percent_of_the_grid_on_a_closed_surface(target: int) -> None:
    evaluator = Evaluator(ClosedRunner(), epochs(4))
    [best] = optimise(
        evaluator, [(PointsSearch(grid_points(SPACE, count=12, counts={"d": 8})), objective(target))], batch=64
    )
    choices = {"restarts": 5, "box": "follow", "start_step": 0.8, "end_step": 0.4}
    for seed in range(10):
        [found] = optimise(evaluator, [(search(seed, **choices), objective(target))])
        assert found.score.feasible
        assert 1 - found.score.cost >= 0.95 * (1 - best.score.cost)


def test_a_search_among_points_asks_for_them_first_and_stays_within_reach_of_the_best() -> None:
    points = [SPACE.point([x] * len(SPACE.dimensions)) for x in (0.9, 0.35, 0.1)]
    among = LocalChoice(kind="local", steps=20, reach=0.08).make(SPACE, points, samples=(1,), steps=(1,))
    seen = drive(among)
    assert (seen[:3], len(seen), among.budget) == (points, 23, 23)
    for point in seen[3:]:
        assert SPACE.positions(point) == pytest.approx([0.35] * len(SPACE.dimensions), abs=0.081)
    assert among.best is not None
    assert made_up(among.best.point).rank < made_up(points[1]).rank

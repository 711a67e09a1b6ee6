# SPDX-License-Identifier: MIT
"""Errors, and the lines that a campaign is held to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from emulation.mahimahi.machine import Machine
from experiments.fidelity.judge import Comparison, Reduction, compare, reductions_of, verdicts_of
from experiments.fidelity.kernels import Outcome
from experiments.fidelity.plan import Case, Plan
from experiments.fidelity.plot import errors_figure
from experiments.fidelity.runs import Figures, Run
from tests.figures import is_inside

Choose = Callable[..., list[Case]]


def run(
    throughput_mbps: float = 10.0, delay_ms: float = 100.0, retransmitted: float = 0.02, *, late_share: float = 0.001
) -> Run:
    figures = Figures(
        throughput_mbps=throughput_mbps,
        queueing_delay_p95_ms=delay_ms,
        retransmission_rate=retransmitted,
        goodput_mbps=0.0,
        queueing_delay_p50_ms=0.0,
        rtt_p50_ms=0.0,
        timeouts=0,
    )
    machine = Machine(late_share=late_share)
    return Run(case="", number=0, scenario="", made_with={}, figures=figures, machine=machine)


def compared(plan: Plan, case: Case, real: Sequence[Run], simulated: Sequence[Run]) -> Comparison:
    (found,) = compare(plan, [Outcome(case, real=list(real), simulated=[one.figures for one in simulated])])
    return found


@pytest.fixture
def case(choose: Choose) -> Case:
    return choose("fast/cubic")[0]


def test_medians_are_compared_and_spreads_stand_beside(plan: Plan, case: Case) -> None:
    real = [run(10, 100, 0.01), run(20, 80, 0.02), run(11, 90, 0.04)]
    simulated = [run(12, 99, 0.03), run(12.1, 101, 0.03), run(3, 95, 0.03)]
    throughput, delay, retransmitted = compared(plan, case, real, simulated).errors
    assert (throughput.real.median, throughput.real.least, throughput.real.most) == (11, 10, 20)
    assert throughput.error == pytest.approx(1)
    assert throughput.share == pytest.approx(1 / 11)
    assert (delay.error, delay.share) == (pytest.approx(9), pytest.approx(0.1))
    assert delay.real.spread == pytest.approx(20)
    # Percentage points: 3 % less 2 %.
    assert retransmitted.error == pytest.approx(1.0)


def test_the_picture_cuts_off_no_range_of_the_kernels_runs(plan: Plan, case: Case) -> None:
    real = [run(1, 100, 0.0), run(10, 500, 0.3), run(11, 90, 0.04)]
    figure = errors_figure([compared(plan, case, real, [run(10, 100, 0.04)])])
    assert is_inside(figure)
    for axes in figure.axes:
        left, right = axes.get_xlim()
        # The first two lines are the axis of the panel and the range.
        assert all(left < end < right for line in axes.lines[:2] for end in np.asarray(line.get_xdata(), dtype=float))


THROUGHPUT, DELAY, RETRANSMITTED = ("throughput_mbps", 0), ("delay_ms", 1), ("retransmitted", 2)


@pytest.mark.parametrize(
    ("figure", "sides", "judged"),
    [
        (THROUGHPUT, (10, 10.5), "within"), (THROUGHPUT, (10, 10.51), "outside"),
        (THROUGHPUT, (10, 8.5), "outside"), (THROUGHPUT, (10, 8.49), "beyond"),
        # By a share or by ms, whichever is more.
        (DELAY, (20, 25), "within"), (DELAY, (20, 25.1), "outside"), (DELAY, (20, 35), "outside"),
        (DELAY, (20, 35.1), "beyond"), (DELAY, (200, 220), "within"), (DELAY, (200, 220.1), "outside"),
        (DELAY, (200, 260), "outside"), (DELAY, (200, 139.9), "beyond"), (DELAY, (0, 5), "within"),
        # By percentage points. This target has no outer bound, so no difference is "beyond".
        (RETRANSMITTED, (0.02, 0.035), "within"), (RETRANSMITTED, (0.02, 0.0351), "outside"),
        (RETRANSMITTED, (0.02, 0.005), "within"), (RETRANSMITTED, (0.02, 0.0), "outside"),
    ],
)  # fmt: skip
def test_each_figure_is_judged_by_its_target(
    plan: Plan, case: Case, figure: tuple[str, int], sides: tuple[float, float], judged: str
) -> None:
    name, at = figure
    real, simulated = ([run(**{name: value})] for value in sides)
    error = compared(plan, case, real, simulated).errors[at]
    assert (error.is_within, error.is_beyond) == (judged == "within", judged == "beyond")


def test_what_chance_makes_of_medians_is_taken_off_before_a_case_is_beyond(plan: Plan, case: Case) -> None:
    """Quartiles of 0, 10, ... 100 are 25 and 75: sigma 37.07, of the median sqrt(pi / 2 / 11) of that, twice 28.01."""
    real = [run(delay_ms=value) for value in range(0, 101, 10)]
    for simulated_ms, is_beyond in ((50 + 15.1, False), (50 + 15 + 27.9, False), (50 + 15 + 28.1, True)):
        delay = compared(plan, case, real, [run(delay_ms=simulated_ms)]).errors[1]
        assert delay.chance == pytest.approx(28.013, abs=0.01)
        assert not delay.is_within
        assert delay.is_perhaps_beyond
        assert delay.is_beyond == is_beyond
    # Four times as many runs, whose quartiles are 20 and 80: little more than half of it.
    delay = compared(plan, case, 4 * real, [run(delay_ms=50 + 15 + 16.9)]).errors[1]
    assert delay.chance == pytest.approx(16.81, abs=0.01)
    assert delay.is_beyond
    # Of the simulator's runs too; a single run says nothing of chance.
    assert compared(plan, case, real, real).errors[1].chance == pytest.approx(28.013 * 2**0.5, abs=0.01)
    assert compared(plan, case, [run()], [run()]).errors[1].chance == 0


def test_cases_that_may_be_beyond_are_counted_apart(plan: Plan, case: Case) -> None:
    outcome = Outcome(case, real=[run(delay_ms=value) for value in (50, 60, 90)], simulated=[run(delay_ms=80).figures])
    verdict = next(one for one in verdicts_of(plan, [outcome], compare(plan, [outcome])) if "delay never" in one.line)
    assert (verdict.found, verdict.holds) == ("0 of 1 case exceed it, and 1 by no more than chance explains", True)


def test_a_case_without_runs_of_one_side_is_not_compared(plan: Plan, case: Case) -> None:
    assert compare(plan, [Outcome(case, real=[run()]), Outcome(case, simulated=[run()])]) == []
    assert verdicts_of(plan, [], []) == []


def test_an_error_within_the_kernels_own_spread_is_outside_all_the_same(plan: Plan, case: Case) -> None:
    throughput = compared(plan, case, [run(9), run(10), run(11)], [run(12)]).errors[0]
    assert not throughput.is_within
    assert throughput.is_of_the_spread


def lines(plan: Plan, comparisons: Sequence[Comparison]) -> list[bool]:
    """Whether each holds: throughput, its limit, delay, its limit, retransmissions, explained, complete."""
    return [verdict.holds for verdict in verdicts_of(plan, [], comparisons)]


def test_shares_of_cases_are_judged_on_the_line(plan: Plan, case: Case) -> None:
    good = compared(plan, case, [run()], [run()])
    off = compared(plan, case, [run()], [run(11, 111, 0.036)])
    nine_of_ten = [good] * 9 + [off]
    assert lines(plan, nine_of_ten)[:5] == [True] * 5
    four_of_five = [good] * 4 + [off]
    assert lines(plan, four_of_five)[:5] == [False, True, True, True, True]
    assert lines(plan, [good] * 3 + [off])[:5] == [False, True, False, True, False]


def test_one_case_beyond_is_too_many(plan: Plan, case: Case) -> None:
    good = compared(plan, case, [run()], [run()])
    far = compared(plan, case, [run()], [run(11.6, 131)])
    verdicts = verdicts_of(plan, [], [good] * 99 + [far])
    assert [verdict.holds for verdict in verdicts] == [True, False, True, False, True, False, True]
    assert verdicts[1].found == "1 of 100 cases exceed it"


def test_what_is_outside_has_to_be_explained_figure_by_figure(plan: Plan, choose: Choose) -> None:
    explained, unexplained = choose("slow/reno")[0], choose("slow/cubic")[0]
    off = [run()], [run(11)]
    assert lines(plan, [compared(plan, explained, *off)])[5]
    assert not lines(plan, [compared(plan, unexplained, *off)])[5]
    assert compared(plan, unexplained, [run()], [run()]).unexplained == ()
    # The plan explains this case's throughput, not its delay.
    late = compared(plan, explained, [run()], [run(11, 120)])
    assert [error.metric.name for error in late.unexplained] == ["queueing_delay"]
    assert late.needless == ()
    assert compared(plan, explained, [run()], [run(delay_ms=120)]).needless == ("throughput",)


def test_a_case_that_lacks_runs_falls_short_unless_its_runner_refuses_it(plan: Plan, case: Case) -> None:
    whole, half = (
        Outcome(case, 2, real=[run()] * 2, simulated=[run().figures]),
        Outcome(case, 2, [run()], [run().figures]),
    )
    failed, refused = Outcome(case, 2, failed=["it broke"]), Outcome(case, 2, refused="no guest")
    for outcomes, holds in (([whole, refused], True), ([whole, half], False), ([whole, failed], False)):
        assert verdicts_of(plan, outcomes, compare(plan, outcomes))[-1].holds is holds


def test_late_timers_disturb_the_machines_own_kernel_and_no_guest(plan: Plan, choose: Choose) -> None:
    real = [run(late_share=0.02), run(late_share=0.009)]
    assert compared(plan, choose("fast/cubic")[0], real, [run()]).disturbed == 1
    assert compared(plan, choose("slow/gr")[0], real, [run()]).disturbed == 0


def reduced(plan: Plan, choose: Choose, real: list[float], simulated: list[float]) -> list[Reduction]:
    """Of slow/reno against slow/cubic, which resends 10 % in each of as many runs."""
    outcomes = [
        Outcome(
            choose(f"slow/{cca}")[0],
            real=[run(retransmitted=rate) for rate in rates[0]],
            simulated=[run(retransmitted=rate).figures for rate in rates[1]],
        )
        for cca, rates in {
            "cubic": ([0.1] * len(real), [0.1] * len(simulated)),
            "reno": (real, simulated),
        }.items()
    ]
    return reductions_of(plan.model_copy(update={"reductions": {"reno": "cubic"}}), outcomes)


@pytest.mark.parametrize(
    ("real", "agrees"), [([0.05, 0.04, 0.09], True), ([0.06], True), ([0.061], False), ([0.03], True), ([0.029], False)]
)
def test_reductions_agree_where_the_kernels_median_lies_among_the_simulators(
    plan: Plan, choose: Choose, real: list[float], agrees: bool
) -> None:
    (found,) = reduced(plan, choose, real, [0.03, 0.06, 0.05])
    assert (found.scenario, found.cca, found.base) == ("slow", "reno", "cubic")
    assert (found.simulated.least, found.simulated.median, found.simulated.most) == pytest.approx((0.4, 0.5, 0.7))
    assert found.agrees is agrees


def test_no_reduction_without_runs_of_both_or_against_a_base_that_resends_nothing(plan: Plan, choose: Choose) -> None:
    assert reduced(plan, choose, [], [0.05]) == []
    against = plan.model_copy(update={"reductions": {"reno": "cubic"}})
    reno, nothing = (
        Outcome(choose(f"slow/{cca}")[0], real=[run(retransmitted=rate)], simulated=[run(retransmitted=rate).figures])
        for cca, rate in (("reno", 0.05), ("cubic", 0.0))
    )
    assert reductions_of(against, [reno, nothing]) == []
    assert reductions_of(against, [reno]) == []
    assert reductions_of(plan, [reno, nothing]) == []


def test_reductions_are_a_line_of_plans_that_ask_for_them(plan: Plan, choose: Choose) -> None:
    against = plan.model_copy(update={"reductions": {"reno": "cubic"}})
    cubic = Outcome(choose("slow/cubic")[0], real=[run(retransmitted=0.1)], simulated=[run(retransmitted=0.1).figures])
    for rate, holds in ((0.05, True), (0.06, False)):
        reno = Outcome(
            choose("slow/reno")[0], real=[run(retransmitted=rate)], simulated=[run(retransmitted=0.05).figures]
        )
        outcomes = [cubic, reno]
        line = [one for one in verdicts_of(against, outcomes, compare(against, outcomes)) if "reduction" in one.line]
        assert [(one.found, one.holds) for one in line] == [(f"in {int(holds)} of 1 case", holds)]
        assert not [one for one in verdicts_of(plan, outcomes, compare(plan, outcomes)) if "reduction" in one.line]

# SPDX-License-Identifier: MIT
"""What a roll-out does next, for fleets whose figures are known exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from serving.rollouts.decision import Clock, Decision, decide
from serving.rollouts.plan import Limit, Plan, Step, Switchback
from serving.rollouts.statistics import Sums, Unit

HOUR_S = 3600.0
PLAN = Plan(
    limits=(
        Limit(metric="within_target", margin=0.02),
        Limit(metric="goodput", margin=0.05, role="signal"),
        Limit(metric="retransmission_rate", margin=0.005),
    )
)
LAST = len(PLAN.steps) - 1


def fleet(*, harm: float = 0.0, slower: float = 0.0, candidates: int = 40, spread: float = 0.001) -> list[Unit]:
    """Return 200 servers, the first ones with a candidate that is worse by `harm` of the share within the target."""
    units = []
    for at in range(200):
        treated = at < candidates
        share = 0.9 + spread * (at % 5 - 2) - (harm if treated else 0)
        sums = Sums(
            10_000, 10_000 * share, 1e9 * (1 - slower if treated else 1) * (1 + spread * (at % 3)), 100, 1e6, 5e3
        )
        units.append(
            Unit(f"s{at}", "candidate" if treated else "baseline", sums, Sums(10_000, 9_000, 1e9, 100, 1e6, 5e3))
        )
    return units


def at(elapsed_s: float, *, step: int = 2, last_look_s: float | None = None, paused: bool = False) -> Clock:
    return Clock(elapsed_s, step, 0.0, 0.0, n_looks=5, last_look_s=last_look_s, is_paused=paused)


def action(units: list[Unit], clock: Clock, plan: Plan = PLAN) -> str:
    decision = decide(units, plan, clock)
    assert decision.reasons
    assert all(reason.endswith(".") for reason in decision.reasons)
    json.dumps(decision.evidence)
    return decision.action


def test_an_equal_candidate_advances_and_is_promoted_after_the_last_step() -> None:
    assert action(fleet(), at(2 * HOUR_S)) == "advance"
    assert action(fleet(candidates=100), at(2 * HOUR_S, step=LAST)) == "promote"


def test_nothing_advances_before_the_least_time_or_between_two_looks() -> None:
    early = decide(fleet(), PLAN, at(HOUR_S / 2))
    assert (early.action, early.is_look) == ("continue", True)
    assert "The step lasts at least 60 minutes." in early.reasons
    between = decide(fleet(), PLAN, at(2 * HOUR_S, last_look_s=1.9 * HOUR_S))
    assert (between.action, between.is_look) == ("continue", False)


def test_a_worse_candidate_is_aborted_at_the_first_look_and_while_paused() -> None:
    for clock in (at(HOUR_S / 4), at(2 * HOUR_S, paused=True)):
        decision = decide(fleet(harm=0.04), PLAN, clock)
        assert decision.action == "abort"
        assert "is 4 percentage points lower on the 40 servers with the candidate (" in decision.reasons[0]
        assert "The plan tolerates at most 2 percentage points lower" in decision.reasons[0]


def test_harm_below_the_margin_does_not_abort_however_certain_it_is() -> None:
    assert action(fleet(harm=0.015), at(2 * HOUR_S)) == "advance"
    assert action(fleet(harm=0.021), at(2 * HOUR_S)) == "abort"


def test_the_tolerated_harm_shrinks_as_the_share_of_servers_grows() -> None:
    """A noisy fleet: the interval reaches 3 points, which is tolerated for half of the servers, but not for all."""
    noisy = fleet(spread=0.04)
    decision = decide(noisy, PLAN, at(2 * HOUR_S))
    reach = decision.evidence["metrics"]["within_target"]["harm"]["upper"]
    assert 0.02 < reach < 0.04
    assert decision.action == "advance"
    last = decide(noisy, PLAN, at(2 * HOUR_S, step=LAST))
    assert last.action == "continue"
    assert "Before all servers may have the candidate, the whole interval must be below 2 percentage" in last.reasons[1]


def test_a_worse_signal_pauses() -> None:
    assert action(fleet(slower=0.1), at(2 * HOUR_S)) == "pause"
    assert action(fleet(slower=0.1), at(2 * HOUR_S, paused=True)) == "continue"


def test_silent_servers_pause_also_between_two_looks() -> None:
    units = [replace(unit, silent_s=HOUR_S if number < 5 else 10.0) for number, unit in enumerate(fleet())]
    decision = decide(units, PLAN, at(2 * HOUR_S, last_look_s=1.9 * HOUR_S))
    assert decision.action == "pause"
    assert decision.reasons == (
        "5 of the 40 servers with the candidate have not reported for more than 30 minutes. "
        "At most 10 % may be silent.",
    )
    assert action([replace(unit, silent_s=None) for unit in fleet()], at(2 * HOUR_S)) == "pause"
    assert action([*units[2:4], *fleet()[4:]], at(2 * HOUR_S)) == "advance"


def without_figures(units: list[Unit], *, arm: str, n: int) -> list[Unit]:
    chosen = {unit.name for unit in [unit for unit in units if unit.arm == arm][:n]}
    return [replace(unit, since=Sums()) if unit.name in chosen else unit for unit in units]


def test_missing_figures_never_pass() -> None:
    none = decide([replace(unit, since=Sums()) for unit in fleet()], PLAN, at(2 * HOUR_S))
    assert none.action == "continue"
    assert action([replace(unit, since=Sums()) for unit in fleet()], at(24 * HOUR_S)) == "pause"
    assert action([], at(24 * HOUR_S)) == "pause"
    # Few of one arm alone: too few to be chance, or few enough to wait for them.
    assert action(without_figures(fleet(), arm="candidate", n=35), at(2 * HOUR_S)) == "pause"
    some = decide(without_figures(fleet(), arm="candidate", n=10), PLAN, at(2 * HOUR_S))
    assert some.action == "continue"
    assert "Only 30 of the 40 servers with the candidate have figures" in some.reasons[1]
    # Servers without traffic in both arms are no harm.
    idle = without_figures(without_figures(fleet(), arm="candidate", n=10), arm="baseline", n=40)
    assert action(idle, at(2 * HOUR_S)) == "advance"


def test_the_time_limit_pauses_and_counts_from_the_resumption() -> None:
    noisy = fleet(spread=0.2)
    over = decide(noisy, PLAN, at(24 * HOUR_S, step=LAST))
    assert over.action == "pause"
    assert over.reasons[0].startswith("The step's time limit of 24 hours is over")
    resumed = replace(at(25 * HOUR_S, step=LAST, last_look_s=24 * HOUR_S), limit_from_s=24.5 * HOUR_S)
    assert action(noisy, resumed) == "continue"
    assert action(noisy, replace(resumed, now_s=48.5 * HOUR_S)) == "pause"


def test_a_required_gain_must_be_certain() -> None:
    plan = PLAN.model_copy(update={"must_improve": "within_target"})
    assert action(fleet(candidates=100), at(24 * HOUR_S, step=LAST), plan) == "pause"
    assert action(fleet(candidates=100, harm=-0.01), at(24 * HOUR_S, step=LAST), plan) == "promote"
    assert action(fleet(), at(24 * HOUR_S), plan) == "advance"


def switched(
    *, harm: float, pairs: int, silent_s: tuple[float | None, ...] = (10.0, 10.0), n_servers: int = 2
) -> tuple[Decision, Plan]:
    """n_servers: those with figures in a block with the candidate, of two."""
    plan = Plan(steps=(Step(share=0.5, least_s=16 * HOUR_S, most_s=48 * HOUR_S),), switchback=Switchback())
    units = [
        replace(unit, before=None, pair=pair, n_servers=n)
        for pair in range(pairs)
        for unit, n in ((fleet(harm=harm)[pair], n_servers), (fleet()[100 + pair], 2))
    ]
    return decide(units, plan, at(2 * pairs * HOUR_S, step=0), silent_s=silent_s), plan


def test_switchback_decides_on_pairs_of_blocks() -> None:
    assert switched(harm=0.0, pairs=9)[0].action == "promote"
    assert switched(harm=0.04, pairs=9)[0].action == "abort"
    assert switched(harm=0.0, pairs=7)[0].action == "continue"
    assert "servers" not in switched(harm=0.04, pairs=9)[0].reasons[0]


def test_silent_servers_pause_a_switchback_and_missing_ones_are_not_passed_over() -> None:
    silent = switched(harm=0.0, pairs=9, silent_s=(None, 10.0))[0]
    assert silent.action == "pause"
    assert silent.reasons[0].startswith("1 of the 2 servers have not reported for more than 30 minutes.")
    assert silent.evidence["silent"] == {"servers": 1}
    partial = switched(harm=0.0, pairs=9, n_servers=1)[0]
    assert partial.action == "continue"
    assert "In a block with the candidate 1 servers have figures, and in one with the baseline 2" in partial.reasons[1]


def test_the_looks_of_a_step_end_with_its_time_and_are_as_many_as_planned() -> None:
    times: list[float] = []
    while not times or times[-1] < PLAN.steps[0].most_s:
        times.append(PLAN.next_look_s(0, times[-1] if times else None))
    assert (times[0], times[-1], len(times)) == (HOUR_S / 4, 24 * HOUR_S, PLAN.looks_per_step)
    assert PLAN.next_look_s(0, times[-1]) > times[-1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": [{"share": 0.01}, {"share": 0.5}]}, "at most 5 times as large"),
        ({"steps": [{"share": 0.1}]}, "at most 5 times as large"),
        ({"steps": [{"share": 0.5}, {"share": 0.2}]}, "above the one before"),
        ({"steps": [{"share": 0.2, "least_s": 3600, "most_s": 3600}]}, "at least twice least_s"),
        ({"limits": [{"metric": "goodput", "margin": 0.1, "role": "signal"}]}, "at least one guardrail"),
        ({"limits": [{"metric": "goodput", "margin": 0.1}] * 2}, "each metric once"),
        ({"switchback": {}}, "one step by switchback"),
        ({"switchback": {}, "steps": [{"share": 0.5, "most_s": 16 * 3600}]}, "a most_s of 61200 s, which 8 pairs"),
        ({"switchback": {}, "steps": [{"share": 0.5}], "stratify_by": "site"}, "expected none by switchback"),
        ({"switchback": {"block_s": 600, "washout_s": 400}}, "at most half of block_s"),
        ({"must_improve": "goodput", "limits": [{"metric": "within_target", "margin": 0.1}]}, "a metric of the limits"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Plan.model_validate(given)

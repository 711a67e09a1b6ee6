# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from small import RECORDINGS, policed, small

from emulation.run.measures import Trial
from emulation.run.simulator import simulate
from kmod.ensemble import Deployment, Ensemble, table_text
from training.evaluation.evaluator import Evaluator
from training.evaluation.runner import CaseRunner
from training.evaluation.tasks import confirmed
from training.searches import Found
from training.study import Study
from training.workloads.epochs import default_values

DEFAULT = default_values("rtcp_bbr")


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    """The result of the small study."""
    return Study(small(), RECORDINGS, threads=2).run()


def test_an_ensemble_has_a_row_for_every_round_trip_and_limit(trained: Ensemble) -> None:
    assert [(axis.name, axis.count) for axis in trained.axes] == [("min_rtt_us", 2), ("limit_bytes_per_s", 2)]
    states = trained.provenance["states"]
    assert [s["state"] for s in states] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert len(trained.rows) == 4


def test_theta_is_one_for_each_round_trip(trained: Ensemble) -> None:
    for rtt in range(2):
        assert len({trained.row((rtt, limit), 0)["reduction_permille"] for limit in range(2)}) == 1


def points_of(*rows: dict[str, int]) -> list[tuple[int, ...]]:
    """The rows as points under the theta of the last one, each once."""
    theta = rows[-1]["reduction_permille"]
    whole = ({**values, "reduction_permille": theta} for values in rows)
    return list(dict.fromkeys(tuple(values[name] for name in small().names) for values in whole))


def confirm(state: tuple[int, int], points: list[tuple[int, ...]], *, least_se: float = 1.0) -> Found:
    """As the study confirms a search of a state."""
    [objective] = small().objective.objectives("rtcp_bbr", "confirming", margin_se=-1.0)
    runner = CaseRunner("rtcp_bbr", small().names, [objective], threads=1)
    cases = policed().cases([state], "confirming", small().stages[2].sample)
    return confirmed(Evaluator(runner, cases, rounds=(1.0,)), points, objective, least_se=least_se)


def test_a_state_gets_the_best_on_cases_drawn_anew_and_its_figures_there(trained: Ensemble) -> None:
    single = trained.provenance["single"][0]["values"]
    for number, state in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        row = trained.row(state, 0)
        best = confirm(state, points_of(DEFAULT, single, row))
        assert [best.point] == points_of(row)
        kept = trained.provenance["states"][number]["training"]
        assert kept["retransmitted_share"] == pytest.approx(best.score.cost, abs=1e-6)
        assert kept["cases"] == 6


def test_of_points_the_best_on_the_cases_is_taken_if_it_is_better_than_the_first_beyond_chance() -> None:
    often, seldom, paper = (600, 4, 600), (600, 150, 30), (600, 20, 200)
    costs = {point: confirm((1, 1), [point]).score.cost for point in (often, seldom, paper)}
    assert costs[seldom] < costs[paper] < costs[often]
    assert confirm((1, 1), [often, seldom, paper], least_se=0).point == seldom
    assert confirm((1, 1), [paper, often]).point == paper
    assert confirm((1, 1), [paper, seldom], least_se=1e6).point == paper


def test_a_flow_that_follows_the_table_looks_up_the_state_that_its_case_is_of(trained: Ensemble) -> None:
    text = table_text(trained, Deployment("local", "champion", 1))
    found = 0
    for case in policed().with_limit((0, 1), limited=6, lifted=0, purpose="validation"):
        flow = simulate(Trial("rtcp_bbr", {}, text).on(case.scenario)).flows[0]
        assert flow.epoch_ends[0].state == 0  # no limit is known yet
        if flow.limits and flow.limits[-1].kind == "limited":
            assert flow.epoch_ends[-1].state == 1
            found += 1
    assert found

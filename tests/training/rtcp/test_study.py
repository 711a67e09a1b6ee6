# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest
from small import RECORDINGS, small

from emulation.simulator import simulate
from emulation.standin import StandInTree
from kmod.ensemble import Deployment, Ensemble, table_text
from training.build import single_sets
from training.evaluator import Evaluator, Request
from training.journal import Journal
from training.parts import Silent
from training.rtcp import RtcpStudy, rtcp_study_of
from training.rtcp.cases import cases_of
from training.rtcp.objective import LeastResent
from training.rtcp.runner import CaseRunner
from training.rtcp.settings import DEFAULT

DEPLOYMENT = Deployment("local", "champion", 1)


def test_an_ensemble_has_a_row_for_every_round_trip_and_limit(trained: Ensemble) -> None:
    assert [(axis.name, axis.count) for axis in trained.axes] == [("min_rtt_us", 2), ("limit_bytes_per_s", 2)]
    states = trained.provenance["states"]
    assert [(s["rtt"], s["limit"]) for s in states] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(trained.rows) == 4


def test_theta_is_one_for_each_round_trip(trained: Ensemble) -> None:
    for rtt in range(2):
        assert len({trained.row((rtt, limit), 0)["reduction_permille"] for limit in range(2)}) == 1


def test_training_again_gives_the_same_digest_on_any_number_of_threads(trained: Ensemble) -> None:
    assert RtcpStudy(small(), RECORDINGS, threads=1).run().digest == trained.digest


def test_a_study_goes_on_from_its_journal_and_ends_the_same(tmp_path: Path, trained: Ensemble) -> None:
    done: list[str] = []

    class Stops(Silent):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            done.append(name)
            if name.startswith("state"):
                raise KeyboardInterrupt

    study = RtcpStudy(small(), RECORDINGS, threads=1, progress=Stops())
    journal = Journal(tmp_path, key=study.key)
    with pytest.raises(KeyboardInterrupt):
        study.run(journal)
    assert done[:3] == ["single", "rtt-0", "rtt-1"] or done[:3] == ["single", "rtt-1", "rtt-0"]
    kept = set(journal.parts())
    assert kept == set(done)

    class Notes(Silent):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            assert name not in kept

    assert RtcpStudy(small(), RECORDINGS, progress=Notes()).run(journal).digest == trained.digest


def test_no_state_is_behind_the_papers_eta_and_gamma_on_the_cases_that_it_trained_on(trained: Ensemble) -> None:
    study = small()
    asked = LeastResent(study.objective.goodput_share, study.objective.most_false, study.objective.margin_se)
    for state in ((0, 1), (1, 0)):
        row = trained.row(state, 0)
        held = {"reduction_permille": row["reduction_permille"]}
        cases = cases_of(study, state, limited=4, lifted=2)
        evaluator = Evaluator(CaseRunner(study, threads=1, held=held), cases, rounds=(1.0,))
        points = [tuple(values[name] for name in study.state_space.names) for values in (row, DEFAULT)]
        learned, paper = evaluator.evaluate([Request(point, asked, lambda _bound: False) for point in points])
        assert learned.rank <= paper.rank


def test_the_study_and_the_single_set_can_be_read_back(trained: Ensemble) -> None:
    assert rtcp_study_of(trained) == small()
    singles = single_sets(trained)
    assert singles is not None
    assert set(singles[0]) == set(trained.columns)


def test_the_key_changes_with_study_and_traces() -> None:
    studies = (RtcpStudy(small(), RECORDINGS), RtcpStudy(small(seed=2), RECORDINGS), RtcpStudy(small(), RECORDINGS[:1]))
    assert len({study.key for study in studies}) == 3
    assert RtcpStudy(small(), RECORDINGS[::-1]).key == studies[0].key


def test_the_tree_takes_the_table_and_gives_it_back(trained: Ensemble, tmp_path: Path) -> None:
    tree = StandInTree(tmp_path)
    text = table_text(trained, DEPLOYMENT)
    tree.write("rtcp_bbr", "ensemble", text)
    assert tree.read("rtcp_bbr", "ensemble") == text


def test_a_flow_that_follows_the_table_looks_up_the_state_that_its_case_is_of(trained: Ensemble) -> None:
    text = table_text(trained, DEPLOYMENT)
    found = 0
    for case in cases_of(small(), (0, 1), limited=6, lifted=0, purpose="judging"):
        flow = simulate(case.with_flows("rtcp_bbr", params={}, table=text)).flows[0]
        assert flow.turns[0].state == 0  # no limit is known yet
        if flow.limits and flow.limits[-1].kind == "limited":
            assert flow.turns[-1].state == 1
            found += 1
    assert found

# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from links import recording

from emulation.measures import Trial
from emulation.simulator import simulate
from training.rtcp import RtcpStudySettings
from training.rtcp.cases import cases_of, unlimited_cases
from training.rtcp.runner import CaseRunner, triggered
from training.rtcp.settings import DEFAULT

STUDY = RtcpStudySettings.model_validate(
    {"schema": "ccatune-study/1", "cca": "rtcp_bbr", "traffic": {"limited_s": [15, 20]}}
)


def test_what_the_papers_setting_sends_again_stands_beside_the_unmodified_algorithm() -> None:
    case = cases_of(STUDY, (1, 2), limited=1, lifted=0)[0]
    [[tally]] = CaseRunner(STUDY, threads=1).run([case], [(600, 20, 200)])
    plain, capped = (simulate(Trial(cca, {}).on(case.scenario)) for cca in ("bbr", "rtcp_bbr"))
    assert tally.resent_pkts == pytest.approx(capped.retransmission_rate * capped.sent)
    assert tally.rival_resent_pkts == pytest.approx(plain.retransmission_rate * plain.sent)
    assert tally.resent_pkts < tally.rival_resent_pkts
    assert tally.is_limited
    times_s = [qos.flows[0].complete_s for qos in (plain, capped)]
    assert tally.delivered_bytes / tally.rival_bytes == pytest.approx(times_s[0] / times_s[1], rel=1e-4)  # type: ignore[operator]


def test_of_two_connections_the_idle_time_does_not_count() -> None:
    case = cases_of(STUDY, (1, 2), limited=2, lifted=0)[1]
    [[tally]] = CaseRunner(STUDY, threads=1).run([case], [(600, 20, 200)])
    first, second = simulate(Trial("rtcp_bbr", {}).on(case.scenario)).flows
    assert first.complete_s is not None
    assert second.complete_s is not None
    assert tally.duration_s == pytest.approx(second.complete_s - STUDY.traffic.idle_s, rel=1e-3)


def test_what_is_held_is_no_part_of_a_point() -> None:
    cases = cases_of(STUDY, (0, 1), limited=1, lifted=1)
    held = CaseRunner(STUDY, threads=1, held={"reduction_permille": 600}).run(cases, [(20, 200), (150, 30)])
    free = CaseRunner(STUDY, threads=1).run(cases, [(600, 20, 200), (600, 150, 30)])
    figures = [[[(t.resent_pkts, t.delivered_bytes, t.default_bytes) for t in row] for row in rows]
               for rows in (held, free)]  # fmt: skip
    assert figures[0] == figures[1]
    for row in held:  # the paper's setting beside itself
        assert row[0].default_bytes == pytest.approx(row[0].delivered_bytes, rel=1e-6)


def test_without_detection_rtcp_does_the_same_whatever_its_parameters() -> None:
    cases = unlimited_cases(STUDY, 1, [recording("a", seed=1), recording("b", seed=2)], count=12)
    began = triggered(STUDY, cases, threads=1)
    others = [case for case in cases if case not in began]
    assert others
    other = dict(zip(DEFAULT, (900, 3, 900), strict=True))
    sets = [Trial("bbr", {}), Trial("rtcp_bbr", DEFAULT), Trial("rtcp_bbr", other)]
    for row in CaseRunner(STUDY, threads=1).run_trials(others, sets):
        assert len({(tally.delivered_bytes, tally.resent_pkts) for tally in row}) == 1
        assert row[0].delivered_bytes == row[0].rival_bytes
        assert not any(tally.is_limited for tally in row)

# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from small import policed, small

from emulation.run.measures import Trial
from emulation.run.simulator import simulate
from training.evaluation.runner import CaseRunner
from training.workloads import Case

STUDY = small(workload={"kind": "policed", "limited_s": [15, 20], "cases": {"limited": 2, "lifted": 1, "unlimited": 6}})
OBJECTIVES = STUDY.objective.objectives("rtcp_bbr", "training")
DEFAULTS = (600, 20, 200)


def runner() -> CaseRunner:
    return CaseRunner("rtcp_bbr", STUDY.names, OBJECTIVES, threads=1)


def cases_of(state: tuple[int, int], *, limited: int, lifted: int = 0) -> list[Case]:
    return policed(STUDY).with_limit(state, limited=limited, lifted=lifted, purpose="training")


def test_retransmissions_and_goodput_stand_beside_those_of_the_references() -> None:
    case = cases_of((0, 0), limited=1)[0]
    [[tally]] = runner().run([case], [DEFAULTS])
    plain, capped = (simulate(Trial(cca).on(case.scenario)) for cca in ("bbr", "rtcp_bbr"))
    bbr = tally.references["bbr"]
    assert tally.retransmitted_pkts == pytest.approx(capped.retransmission_rate * capped.sent)
    assert bbr.retransmitted_pkts == pytest.approx(plain.retransmission_rate * plain.sent)
    assert tally.retransmitted_pkts < bbr.retransmitted_pkts
    assert tally.is_limited
    times_s = [qos.flows[0].complete_s for qos in (plain, capped)]
    assert tally.goodput_bytes_per_s / bbr.goodput_bytes_per_s == pytest.approx(times_s[0] / times_s[1], rel=1e-4)  # type: ignore[operator]


def test_of_two_connections_the_idle_time_does_not_count() -> None:
    case = cases_of((0, 0), limited=2)[1]
    [[tally]] = runner().run([case], [DEFAULTS])
    first, second = simulate(Trial("rtcp_bbr").on(case.scenario)).flows
    assert first.complete_s is not None
    assert second.complete_s is not None
    assert tally.duration_s == pytest.approx(second.complete_s - 5, rel=1e-3)


def test_the_defaults_do_as_they_do_as_a_reference() -> None:
    for [tally] in runner().run(cases_of((0, 1), limited=1, lifted=1), [DEFAULTS]):
        assert tally.goodput_bytes == tally.references["rtcp_bbr"].goodput_bytes


def test_without_detection_a_case_runs_once_and_that_is_what_each_run_would_give() -> None:
    cases = policed().without_limit(1, count=12, purpose="training")
    other = Trial("rtcp_bbr", dict(zip(STUDY.names, (900, 3, 900), strict=True)))
    once = runner()
    rows = once.run_trials(cases, [other])
    every = CaseRunner("rtcp_bbr", STUDY.names, [], threads=1).run_trials(cases, [other])
    assert once._undetected
    for case, [tally], [full] in zip(cases, rows, every, strict=True):
        assert (tally.goodput_bytes, tally.retransmitted_pkts) == (full.goodput_bytes, full.retransmitted_pkts)
        if case.key in once._undetected:
            assert tally.goodput_bytes == tally.references["bbr"].goodput_bytes
            plain = simulate(Trial("bbr").on(case.scenario))
            assert tally.retransmitted_pkts == pytest.approx(plain.retransmission_rate * plain.sent)

# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools
import math

import pytest
from links import recording

from emulation.measures import Trial
from emulation.path import Policer, SteppedPolicer
from emulation.scenario import WIRE
from kmod.ensemble import Axis
from training.rtcp import RtcpStudySettings
from training.rtcp.cases import PURPOSES, bounds_of, cases_of, unlimited_cases

STUDY = RtcpStudySettings.model_validate({"schema": "ccatune-study/1", "cca": "rtcp_cubic"})
RECORDINGS = [recording("a", seed=1), recording("b", seed=2, dataset="other-train")]


@pytest.mark.parametrize("per_octave", [1, 2, 3])
def test_levels_of_an_axis_meet_and_hold_what_is_between_their_bounds(per_octave: int) -> None:
    axis = Axis("min_rtt_us", "log", 12_000, 7, per_octave)
    bounds = [bounds_of(axis, level) for level in range(7)]
    assert [low for low, _ in bounds[1:]] == [high for _, high in bounds[:-1]]
    for level, (low, high) in enumerate(bounds):
        assert axis.level(math.ceil(low)) == level
        assert axis.level(math.floor((low + high) / 2)) == level


def test_a_case_lies_within_its_state() -> None:
    rtt_axis, limit_axis = STUDY.axes
    for case in cases_of(STUDY, (2, 3), limited=12, lifted=6):
        link = case.scenario.link
        [policer] = link.before
        assert isinstance(policer, Policer | SteppedPolicer)
        assert rtt_axis.level(int(link.rtt_ms * 1000)) == 2
        assert limit_axis.level(int(case.limit_mbps / WIRE * 125_000)) == 3
        assert 60_000 <= policer.bucket_bytes <= 1_000_000


def test_every_other_file_is_two_halves_on_connections_of_their_own() -> None:
    one, two = cases_of(STUDY, (0, 0), limited=2, lifted=0)
    assert len(one.scenario.flows) == 1
    first, second = two.scenario.flows
    assert first.size_bytes == second.size_bytes
    assert (second.after, second.start_s) == (0, 5)


def test_a_raised_limit_counts_from_then_on_and_is_higher() -> None:
    for case in cases_of(STUDY, (1, 4), limited=0, lifted=8):
        [policer] = case.scenario.link.before
        assert isinstance(policer, SteppedPolicer)
        before, after = policer.steps
        assert case.scenario.warmup_s == after.at_s == 20
        assert after.rate_mbps <= 40
        assert after.rate_mbps >= min(4 * before.rate_mbps, 40) - 1e-9


def test_more_cases_leave_the_first_ones_as_they_are_and_what_judges_is_drawn_anew() -> None:
    few, many, judging = (
        cases_of(STUDY, (1, 1), limited=count, lifted=0, purpose=purpose)
        for count, purpose in ((2, "training"), (5, "training"), (5, "judging"))
    )
    assert [case.key for case in few] == [case.key for case in many[:2]]
    assert [case.scenario for case in few] == [case.scenario for case in many[:2]]
    limits = [case.limit_mbps for case in [*many, *judging]]
    assert len(set(limits)) == len(limits)


def test_links_without_a_limit_are_of_all_datasets_places_queues_and_losses() -> None:
    cases = unlimited_cases(STUDY, 1, RECORDINGS, count=32)
    links = [case.scenario.link for case in cases]
    for i in range(2):
        its = links[i::2]
        assert {link.buffer_pkts for link in its} == {30, 100, 300, 1000}
        assert [len(link.behind) for link in its].count(2) == 8
        assert len({link.start_ms for link in its}) == 16
    assert len({case.key for case in cases}) == 32
    assert all(math.isnan(case.limit_mbps) for case in cases)


def test_what_confirms_or_judges_is_of_the_same_recordings_elsewhere_on_other_paths() -> None:
    places = {
        purpose: {
            (case.scenario.link.trace, case.scenario.link.start_ms, case.scenario.link.rtt_ms)
            for case in unlimited_cases(STUDY, 1, RECORDINGS, count=32, purpose=purpose)
        }
        for purpose in PURPOSES
    }
    for purpose, others in itertools.combinations(PURPOSES, 2):
        assert {trace for trace, _, _ in places[purpose]} == {trace for trace, _, _ in places[others]}
        for part in (1, 2):
            assert not {place[part] for place in places[purpose]} & {place[part] for place in places[others]}


def test_links_without_a_limit_are_the_same_in_whatever_order_recordings_come() -> None:
    more = [*RECORDINGS, recording("c", seed=3)]
    ways = [unlimited_cases(STUDY, 0, its, count=12) for its in (more, more[::-1])]
    assert [case.key for case in ways[0]] == [case.key for case in ways[1]]
    assert [case.scenario for case in ways[0]] == [case.scenario for case in ways[1]]


def test_flows_are_given_what_runs_and_keep_what_they_send() -> None:
    [case] = cases_of(STUDY, (0, 0), limited=1, lifted=0)
    scenario = Trial("rtcp_cubic", {"probe_every_rounds": 7}).on(case.scenario)
    assert scenario.flows[0].cca == "rtcp_cubic"
    assert scenario.flows[0].params == {"probe_every_rounds": 7}
    assert scenario.flows[0].size_bytes == case.scenario.flows[0].size_bytes
    assert case.scenario.flows[0].cca == "cubic"

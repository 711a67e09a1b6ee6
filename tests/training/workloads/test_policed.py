# SPDX-License-Identifier: MIT
from __future__ import annotations

import itertools
import math

import pytest
from links import recording, workload

from emulation.scenario.model import WIRE
from emulation.scenario.path import Policer, SteppedPolicer
from emulation.traces import Recording
from kmod.ensemble import Axis
from training.study import StudySettings
from training.workloads import Case, Policed, Purpose, Sample
from training.workloads.axes import level_bounds
from training.workloads.policed import PURPOSES

SETTINGS = {
    "schema": "ccatune-study/2",
    "cca": "rtcp_cubic",
    "axes": {"min_rtt": {"shortest_ms": 10, "count": 5}, "limit": {}},
    "workload": {"kind": "policed"},
    "objective": {"kind": "retransmissions"},
}
STUDY = StudySettings.model_validate(SETTINGS)
RECORDINGS = [recording("a", seed=1), recording("b", seed=2, dataset="other-train")]


def made(recordings: list[Recording] = RECORDINGS, settings: StudySettings = STUDY) -> Policed:
    found = workload(settings, recordings)
    assert isinstance(found, Policed)
    return found


def cases_of(state: tuple[int, int], *, limited: int, lifted: int, purpose: Purpose = "training") -> list[Case]:
    return made().with_limit(state, limited=limited, lifted=lifted, purpose=purpose)


@pytest.mark.parametrize("per_octave", [1, 2, 3])
def test_levels_of_an_axis_meet_and_hold_what_is_between_their_bounds(per_octave: int) -> None:
    axis = Axis("min_rtt_us", "log", 12_000, 7, per_octave)
    bounds = [level_bounds(axis, level) for level in range(7)]
    assert [low for low, _ in bounds[1:]] == [high for _, high in bounds[:-1]]
    for level, (low, high) in enumerate(bounds):
        assert axis.level(math.ceil(low)) == level
        assert axis.level(math.floor((low + high) / 2)) == level


def test_a_case_lies_within_its_state() -> None:
    rtt_axis, limit_axis = STUDY.levels.values()
    for case in cases_of((2, 3), limited=12, lifted=6):
        link = case.scenario.link
        [policer] = link.before
        assert isinstance(policer, Policer | SteppedPolicer)
        assert rtt_axis.level(int(link.rtt_ms * 1000)) == 2
        assert limit_axis.level(int(case.limit_mbps / WIRE * 125_000)) == 3
        assert 60_000 <= policer.bucket_bytes <= 1_000_000


def test_every_other_file_is_two_halves_on_connections_of_their_own() -> None:
    one, two = cases_of((0, 0), limited=2, lifted=0)
    assert len(one.scenario.flows) == 1
    first, second = two.scenario.flows
    assert first.size_bytes == second.size_bytes
    assert (second.after, second.start_s) == (0, 5)


def test_a_raised_limit_counts_from_then_on_and_is_higher() -> None:
    for case in cases_of((1, 4), limited=0, lifted=8):
        [policer] = case.scenario.link.before
        assert isinstance(policer, SteppedPolicer)
        before, after = policer.steps
        assert case.scenario.warmup_s == after.at_s == 20
        assert after.rate_mbps <= 40
        assert after.rate_mbps >= min(4 * before.rate_mbps, 40) - 1e-9


def test_more_cases_leave_the_first_ones_as_they_are_and_what_judges_is_drawn_anew() -> None:
    few, many, judging = (
        cases_of((1, 1), limited=count, lifted=0, purpose=purpose)
        for count, purpose in ((2, "training"), (5, "training"), (5, "validation"))
    )
    assert [case.key for case in few] == [case.key for case in many[:2]]
    assert [case.scenario for case in few] == [case.scenario for case in many[:2]]
    limits = [case.limit_mbps for case in [*many, *judging]]
    assert len(set(limits)) == len(limits)


def test_links_without_a_limit_are_of_all_datasets_places_queues_and_losses() -> None:
    cases = made().without_limit(1, count=32, purpose="training")
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
            for case in made().without_limit(1, count=32, purpose=purpose)
        }
        for purpose in PURPOSES
    }
    for purpose, others in itertools.combinations(PURPOSES, 2):
        assert {trace for trace, _, _ in places[purpose]} == {trace for trace, _, _ in places[others]}
        for part in (1, 2):
            assert not {place[part] for place in places[purpose]} & {place[part] for place in places[others]}


def test_links_without_a_limit_are_the_same_in_whatever_order_recordings_come() -> None:
    more = [*RECORDINGS, recording("c", seed=3)]
    ways = [made(its).without_limit(0, count=12, purpose="training") for its in (more, more[::-1])]
    assert [case.key for case in ways[0]] == [case.key for case in ways[1]]
    assert [case.scenario for case in ways[0]] == [case.scenario for case in ways[1]]


def test_a_sample_is_a_share_of_each_kind_and_each_round_trip_has_its_downloads_once() -> None:
    counts = {"limited": 8, "lifted": 4, "unlimited": 12}
    settings = StudySettings.model_validate({**SETTINGS, "workload": {"kind": "policed", "cases": counts}})
    cases = made(settings=settings).cases([(0, 0), (0, 1), (3, 1)], "training", Sample(share=0.5, unlimited_share=0.25))
    kinds = [case.group for case in cases]
    assert [kinds.count(kind) for kind in ("limited", "lifted", "unlimited")] == [3 * 4, 3 * 2, 2 * 3]
    assert {case.state for case in cases if case.group == "unlimited"} == {(0, 0), (3, 0)}
    assert not made(settings=settings).cases([(0, 0)], "training", Sample(unlimited_share=0))[12:]


def test_an_algorithm_without_limits_has_policers_at_the_rates_of_its_throughput_levels() -> None:
    study = StudySettings.model_validate({
        "schema": "ccatune-study/2",
        "cca": "gr",
        "axes": {"throughput": {"count": 3, "step_kbps": 2000}},
        "workload": {"kind": "policed", "rtt_ms": [30, 60]},
        "objective": {"kind": "goodput"},
    })  # fmt: skip
    axis = study.levels["throughput"]
    for state in study.states:
        for case in made(settings=study).cases([state], "training", Sample()):
            assert axis.level(int(case.limit_mbps / WIRE * 125_000)) == state[0]
            assert 30 <= case.scenario.link.rtt_ms <= 60

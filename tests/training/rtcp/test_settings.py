# SPDX-License-Identifier: MIT
from __future__ import annotations

from pathlib import Path

import pytest

from training.errors import TrainingError
from training.rtcp import RtcpStudySettings, load_rtcp_study
from training.rtcp.settings import DEFAULT, is_rtcp

SHIPPED = Path(__file__).resolve().parents[3] / "configs" / "studies"
LEAST = {"schema": "ccatune-study/1", "cca": "rtcp_bbr"}


def study(**changes: object) -> RtcpStudySettings:
    return RtcpStudySettings.model_validate({**LEAST, **changes})


@pytest.mark.parametrize("name", ["rtcp.yaml", "rtcp-demo.yaml"])
def test_every_study_of_rtcp_that_is_shipped_loads_and_holds_the_papers_setting(name: str) -> None:
    loaded = load_rtcp_study(SHIPPED / name)
    assert loaded.names == ("reduction_permille", "probe_every_rounds", "probe_gain_permille")
    assert loaded.space.point(loaded.space.positions(tuple(DEFAULT.values()))) == (600, 20, 200)


def test_theta_is_no_part_of_a_states_space() -> None:
    assert study().state_space.names == ("probe_every_rounds", "probe_gain_permille")


def test_axes_are_octaves_of_round_trip_and_payload_rate() -> None:
    rtt, limit = study(rtts={"shortest_ms": 10, "count": 5}, limits={"lowest_kbps": 250, "count": 5}).axes
    assert [rtt.level(us) for us in (5000, 19_999, 20_000, 100_000, 500_000)] == [0, 0, 1, 3, 4]
    assert [limit.level(kbps * 125) for kbps in (0, 499, 500, 2000, 50_000)] == [0, 0, 1, 3, 4]
    assert (rtt.name, limit.name) == ("min_rtt_us", "limit_bytes_per_s")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranges": {"probe_every_rounds": [30, 200]}}, "with the paper's 20 in it, got 30 to 200"),
        ({"ranges": {"probe_every_rounds": [1, 200]}}, "expected within 2 to 1000 rounds, got 1 to 200"),
        ({"ranges": {"candidates": [5, 9]}}, "got 'candidates'"),
        ({"traffic": {"bucket_bytes": [2, 1]}}, "the lower one first"),
        ({"search": {"state": {"aim": 0.5}}}, "expected searches without aim"),
        ({"cca": "gr"}, "rtcp_cubic"),
        ({"epochs": 3}, "Extra inputs"),
    ],
)
def test_what_is_no_study_of_rtcp_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        study(**changes)


def test_a_study_of_another_algorithm_is_refused_with_the_fields_name() -> None:
    with pytest.raises(TrainingError, match=r"gr.yaml: cca: expected 'rtcp_cubic'"):
        load_rtcp_study(SHIPPED / "gr.yaml")


def test_the_digest_changes_with_any_choice() -> None:
    changes: tuple[dict[str, object], ...] = ({}, {"seed": 2}, {"cca": "rtcp_cubic"}, {"cases": {"lifted": 3}})
    assert len({study(**change).digest for change in changes}) == 4


def test_each_base_algorithm_has_its_rtcp() -> None:
    assert [is_rtcp(cca) for cca in ("rtcp_cubic", "rtcp_bbr", "rtcp_bbr3", "bbr", "gr")] == [True] * 3 + [False] * 2

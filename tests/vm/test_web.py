# SPDX-License-Identifier: MIT
"""A web server's connections under R-TCP's modules, to a client behind a policer (guest/web.py).

In the campaign `vm` alone (CCATUNE_VM_LONG=1), by the guest's own clock, so that the policer's rate is the machine's.
"""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from emulation.vm import PROVED_LINES
from tests.vm import boot
from tests.vm.job import WEB, job, limits
from tests.vm.lines import LONG
from tests.vm.subjects import RTCP_BBR, RTCP_CUBIC

# Not of the tier: in the tier they would be left out, which it does not allow.
pytestmark = pytest.mark.vm
if not LONG:
    __test__ = False

KINDS = ("base", "unknown", "known")


@pytest.fixture(scope="module", params=PROVED_LINES)
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, boot.Outcome]:
    """One boot for the modules of a line."""
    folder = tmp_path_factory.mktemp(f"web-{request.param}")
    names = [f"web:{subject.cca}" for subject in (RTCP_CUBIC, RTCP_BBR)]
    return boot.run_programs(
        request.param, names, job(folder, long=True), folder=folder, timeout_s=1800, own_clock=True
    )


@pytest.fixture(params=[RTCP_CUBIC.cca, RTCP_BBR.cca])
def web(request: pytest.FixtureRequest, outcomes: dict[str, boot.Outcome]) -> Any:
    """What the visits gave of one algorithm."""
    outcome = outcomes[f"web:{request.param}"]
    assert outcome.error == ""
    assert outcome.complaints == []
    return {**outcome.result, "cca": request.param}


def test_the_client_is_found_to_be_limited_and_to_what(web: Any) -> None:
    assert [client["class"] for client in web["clients"]] == ["limited"]
    assert limits(web["clients"][0])[1] == pytest.approx(1, rel=0.05)


def test_first_visits_resend_hardly_more_and_those_to_a_known_client_less_than_a_third(web: Any) -> None:
    again = {kind: statistics.mean(visit["again_pkts"] for visit in web[kind]) for kind in KINDS}
    # Over CUBIC a first visit has sent most of it again when the limit is found: 540 to 640 packets, the base's 640 to
    # 760. Over BBR 46, the base's 1070 to 1530.
    most = 1.2 if web["cca"] == RTCP_CUBIC.cca else 1
    assert again["unknown"] < most * again["base"], web
    assert again["known"] < 0.3 * again["base"], web


def test_objects_come_whole_over_persistent_connections_and_as_soon(web: Any) -> None:
    took_s = {}
    for kind in KINDS:
        for visit in web[kind]:
            assert len(visit["connections"]) == WEB["connections"]
            assert {one["whole"] for one in visit["connections"]} == {WEB["objects"]}, kind
            assert all(one["is_persistent"] for one in visit["connections"]), kind
        took_s[kind] = statistics.mean(max(one["seconds"] for one in visit["connections"]) for visit in web[kind])
    assert max(took_s["unknown"], took_s["known"]) < 1.1 * took_s["base"], took_s

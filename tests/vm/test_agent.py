# SPDX-License-Identifier: MIT
"""The agent on the real tree: registry, agent, module and flow in one guest; and in a second one with its files.

Only with CCATUNE_VM_LONG=1 (the campaign `vm`), over each module: under emulation Python starts for minutes.
"""

from __future__ import annotations

import errno
from typing import Any

import pytest

from emulation.vm import PROVED_LINES
from tests.vm import boot
from tests.vm.boot import Found, result_of
from tests.vm.job import job
from tests.vm.lines import LONG
from tests.vm.subjects import SUBJECTS, Subject

pytestmark = pytest.mark.vm
if not LONG:
    __test__ = False

MOST_S = 5


@pytest.fixture(scope="session", params=PROVED_LINES)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """One boot, and a second one, which finds what the agent of the first left on disk.

    By the guest's own clock: Python's start is what takes the time, and under emulation it takes many times longer.
    What that clock does not tell is how long a file takes from the host (docs/decisions/0012), seconds where others
    are busy there: a second boot with a slow start is repeated, twice at most.
    """
    folder = tmp_path_factory.mktemp(f"agent-{request.param}")
    told = job(folder, long=LONG)

    def run(programs: tuple[str, ...], timeout_s: int) -> Found:
        names = [f"{program}:{cca}" for cca in SUBJECTS for program in programs]
        most_s = timeout_s * len(SUBJECTS)
        return boot.run_programs(request.param, names, told, folder=folder, timeout_s=most_s, own_clock=True)

    found = run(("enable", "agent"), 900)
    for _ in range(3):
        booted = run(("booted",), 300)
        found |= booted
        if all(one.error or one.result["from_exec_s"] <= MOST_S for one in booted.values()):
            break
    return found


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    """The module that a test looks at."""
    return SUBJECTS[request.param]


@pytest.mark.parametrize("name", ["enable", "agent", "booted"])
def test_nothing_is_in_the_kernel_log(found: Found, name: str, subject: Subject) -> None:
    result_of(found, name, subject)
    assert found[f"{name}:{subject.cca}"].complaints == []


def test_flows_take_what_was_published_last(found: Found, subject: Subject) -> None:
    rows = result_of(found, "agent", subject)["table of the flow"]
    assert rows
    assert all(40 <= int(value) / subject.unit < 50 for value in rows)


def test_a_table_written_by_hand_stays_until_it_is_given_back(found: Found, subject: Subject) -> None:
    assert result_of(found, "agent", subject)["by hand stays"]


def test_the_last_known_good_returns_soon_after_a_reload_under_the_agent(found: Found, subject: Subject) -> None:
    assert result_of(found, "agent", subject)["seconds after a reload under the agent"] <= MOST_S


def test_the_last_known_good_returns_soon_after_kill_loss_of_the_registry_and_reload(
    found: Found, subject: Subject
) -> None:
    gone = result_of(found, "agent", subject)["gone"]
    assert (gone["table before"], gone["serial"], gone["left"]) == ("none", "2", "own")
    assert gone["from_exec_s"] <= MOST_S


def test_the_last_known_good_returns_soon_after_a_reboot(found: Found, subject: Subject) -> None:
    booted = result_of(found, "booted", subject)
    assert (booted["table before"], booted["serial"]) == ("none", "2")
    assert booted["from_exec_s"] <= MOST_S


def settings(found: Found, when: str, subject: Subject) -> dict[str, Any]:
    """The settings at that moment."""
    seen: dict[str, Any] = result_of(found, "enable", subject)[when]
    return seen


def test_enable_makes_it_the_default_and_disable_puts_every_setting_back(found: Found, subject: Subject) -> None:
    before = settings(found, "before", subject)
    enabled = settings(found, "enabled", subject)
    assert enabled["tcp_congestion_control"] == [subject.name]
    assert set(enabled["tcp_allowed_congestion_control"]) == {*before["tcp_allowed_congestion_control"], subject.name}
    assert set(enabled["modules"]) >= {subject.module, "ccatune"}
    assert settings(found, "disabled", subject) == before
    assert result_of(found, "enable", subject)["disable"]["status"] == 0


def test_disable_under_a_flow_puts_the_settings_back_and_leaves_the_flow(found: Found, subject: Subject) -> None:
    result = result_of(found, "enable", subject)
    assert result["disable with a flow"]["status"] == 1
    assert "is in use" in result["disable with a flow"]["said"]
    assert result["flows"] == 1
    kept = settings(found, "disabled with a flow", subject)
    before = settings(found, "before", subject)
    assert kept["tcp_congestion_control"] == before["tcp_congestion_control"]
    assert set(kept["tcp_allowed_congestion_control"]) - {subject.name} == set(before["tcp_allowed_congestion_control"])


def test_enable_opens_the_algorithm_to_ordinary_users_and_says_so_and_disable_closes_it(
    found: Found, subject: Subject
) -> None:
    result = result_of(found, "enable", subject)
    assert f"every program, in all containers too, may choose {subject.name}" in result["enable"]["said"]
    assert result["choice of nobody, enabled"] == 0
    assert result["choice of nobody, disabled"] == errno.EPERM


def test_enable_without_right_or_module_says_so_and_changes_nothing(found: Found, subject: Subject) -> None:
    result = result_of(found, "enable", subject)
    assert result["without the module"]["status"] == 2
    assert "not found" in result["without the module"]["said"]
    assert result["nobody"]["status"] == 2
    assert "run as root" in result["nobody"]["said"]
    assert result["after that"] == result["after nobody"] == result["before"]


def test_enable_twice_is_enabled_already(found: Found, subject: Subject) -> None:
    assert result_of(found, "enable", subject)["enable again"] == {
        "status": 0,
        "said": f"{subject.cca} is enabled already",
    }

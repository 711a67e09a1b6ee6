# SPDX-License-Identifier: MIT
"""The agent on the real tree: registry, agent, module and flow in one guest, and what is left in the next one."""

from __future__ import annotations

from typing import Any

import pytest

from emulation.vm import LINES
from tests.vm import boot
from tests.vm.job import job
from tests.vm.test_modules import LONG, result_of

pytestmark = pytest.mark.vm

TAKEN = {"tcp_gr", "ccatune"}


@pytest.fixture(scope="session", params=LINES if LONG else LINES[-1:])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, boot.Outcome]:
    """Two boots: the second one finds what the agent of the first left on disk.

    By the guest's own clock: Python's start is what takes the time, and under emulation it takes many times longer.
    """
    folder = tmp_path_factory.mktemp(f"agent-{request.param}")
    told = job(folder, long=LONG)
    first = boot.run_programs(request.param, ["enable", "agent"], told, folder=folder, timeout_s=900, own_clock=True)
    return first | boot.run_programs(request.param, ["booted"], told, folder=folder, timeout_s=300, own_clock=True)


@pytest.mark.parametrize("name", ["enable", "agent", "booted"])
def test_nothing_is_in_the_kernel_log(found: dict[str, boot.Outcome], name: str) -> None:
    result_of(found, name)
    assert found[name].complaints == []


def test_flows_take_what_was_published_last(found: dict[str, boot.Outcome]) -> None:
    rows = result_of(found, "agent")["table of the flow"]
    assert rows
    assert all(40_000 <= int(value) < 50_000 for value in rows)


def test_a_table_written_by_hand_stays_until_it_is_given_back(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "agent")["by hand stays"]


def test_the_last_known_good_returns_within_5_s_of_a_reload_under_the_agent(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "agent")["seconds after a reload under the agent"] <= 5


def test_the_last_known_good_returns_within_5_s_after_kill_loss_of_the_registry_and_reload(
    found: dict[str, boot.Outcome],
) -> None:
    gone = result_of(found, "agent")["gone"]
    assert (gone["table before"], gone["serial"], gone["left"]) == ("none", "2", "own")
    assert gone["from_exec_s"] <= 5


def test_the_last_known_good_returns_within_5_s_after_a_reboot(found: dict[str, boot.Outcome]) -> None:
    booted = result_of(found, "booted")
    assert (booted["table before"], booted["serial"]) == ("none", "2")
    assert booted["from_exec_s"] <= 5


def settings(found: dict[str, boot.Outcome], when: str) -> dict[str, Any]:
    """The settings at that moment."""
    seen: dict[str, Any] = result_of(found, "enable")[when]
    return seen


def test_enable_makes_gr_the_default_and_disable_puts_every_setting_back(found: dict[str, boot.Outcome]) -> None:
    before = settings(found, "before")
    enabled = settings(found, "enabled")
    assert enabled["tcp_congestion_control"] == ["gr"]
    assert set(enabled["tcp_allowed_congestion_control"]) == {*before["tcp_allowed_congestion_control"], "gr"}
    assert set(enabled["modules"]) >= TAKEN
    assert settings(found, "disabled") == before
    assert result_of(found, "enable")["disable"]["status"] == 0


def test_disable_under_a_flow_puts_the_settings_back_and_leaves_the_flow(found: dict[str, boot.Outcome]) -> None:
    result = result_of(found, "enable")
    assert result["disable with a flow"]["status"] == 1
    assert "is in use" in result["disable with a flow"]["said"]
    assert result["flows"] == 1
    kept = settings(found, "disabled with a flow")
    before = settings(found, "before")
    assert kept["tcp_congestion_control"] == before["tcp_congestion_control"]
    assert set(kept["tcp_allowed_congestion_control"]) - {"gr"} == set(before["tcp_allowed_congestion_control"])


def test_enable_without_right_or_module_says_so_and_changes_nothing(found: dict[str, boot.Outcome]) -> None:
    result = result_of(found, "enable")
    assert result["without the module"]["status"] == 2
    assert "not found" in result["without the module"]["said"]
    assert result["nobody"]["status"] == 2
    assert "run as root" in result["nobody"]["said"]
    assert result["after that"] == result["after nobody"] == result["before"]


def test_enable_twice_is_enabled_already(found: dict[str, boot.Outcome]) -> None:
    assert result_of(found, "enable")["enable again"] == {"status": 0, "said": "gr is enabled already"}

# SPDX-License-Identifier: MIT
"""`ccatune-agent enable|disable` on a /proc made of files; the real one is driven in tests/vm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from serving.agent.cli import agent
from serving.agent.switch import ALLOWED, DEFAULT, Switch, SwitchError
from tests.serving.agent.machine import Machine


def settings(machine: Machine) -> tuple[str, str]:
    return machine.read(DEFAULT), machine.read(ALLOWED)


def test_enable_loads_allows_and_makes_default_and_disable_puts_everything_back(
    machine: Machine, switch: Switch, tmp_path: Path
) -> None:
    assert switch.enable("gr", as_default=True) == [
        "module ccatune loaded",
        "module tcp_gr loaded",
        "net.ipv4.tcp_allowed_congestion_control = reno cubic gr: every program, in all containers too, may choose gr",
        "net.ipv4.tcp_congestion_control = gr: new connections of this network namespace, and of those that are made "
        "from now on, use gr",
    ]
    assert settings(machine) == ("gr", "reno cubic gr")
    assert machine.modules() == ["tcp_bbr", "ccatune", "tcp_gr"]
    assert switch.disable() == (
        [
            "net.ipv4.tcp_congestion_control = cubic: new connections of this network namespace, and of those that "
            "are made from now on, use cubic",
            "net.ipv4.tcp_allowed_congestion_control = reno cubic: only programs with CAP_NET_ADMIN may choose gr",
            "module tcp_gr unloaded",
            "module ccatune unloaded",
        ],
        "",
    )
    assert settings(machine) == ("cubic", "reno cubic")
    assert machine.modules() == ["tcp_bbr"]
    assert not (tmp_path / "state" / "enabled.json").exists()


def test_the_module_that_those_of_r_tcp_share_is_unloaded_behind_them(machine: Machine, switch: Switch) -> None:
    switch.enable("rtcp_cubic", as_default=True)
    assert settings(machine) == ("rtcp_cubic", "reno cubic rtcp_cubic")
    assert machine.modules() == ["tcp_bbr", "ccatune", "tcp_rtcp", "tcp_rtcp_cubic"]
    assert [line for line in switch.disable()[0] if line.startswith("module")] == [
        "module tcp_rtcp_cubic unloaded",
        "module tcp_rtcp unloaded",
        "module ccatune unloaded",
    ]
    assert machine.modules() == ["tcp_bbr"]


def test_enable_twice_remembers_what_was_set_first(machine: Machine, switch: Switch) -> None:
    switch.enable("gr", as_default=False)
    assert settings(machine) == ("cubic", "reno cubic gr")
    switch.enable("gr", as_default=True)
    assert switch.enable("gr", as_default=True) == ["gr is enabled already"]
    switch.disable()
    assert settings(machine) == ("cubic", "reno cubic")


def test_what_was_found_in_one_namespace_is_not_put_back_in_another(machine: Machine, switch: Switch) -> None:
    namespace = machine.root / "self" / "ns" / "net"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to("net:[1]")
    switch.enable("gr", as_default=True)
    namespace.unlink()
    namespace.symlink_to("net:[2]")
    for command in (switch.disable, lambda: switch.enable("gr", as_default=True)):
        with pytest.raises(SwitchError, match=r"this network namespace \(net:\[2\]\), it is of another \(net:\[1\]\)"):
            command()
    assert settings(machine) == ("gr", "reno cubic gr")
    namespace.unlink()
    namespace.symlink_to("net:[1]")
    switch.disable()
    assert settings(machine) == ("cubic", "reno cubic")


def nothing_in(file: Path) -> tuple[list[str], str]:
    """What `disable` says of a file without anything of this boot."""
    return [f"{file}: it remembers nothing that was enabled since this machine was started"], ""


def test_disable_without_enable_and_disable_twice_change_nothing(
    machine: Machine, switch: Switch, tmp_path: Path
) -> None:
    for _ in range(2):
        assert switch.disable() == nothing_in(tmp_path / "state" / "enabled.json")
    assert settings(machine) == ("cubic", "reno cubic")
    assert machine.ran == []


def test_a_module_that_was_loaded_before_stays(machine: Machine, switch: Switch) -> None:
    machine.program(["modprobe", "tcp_gr"])
    switch.enable("gr", as_default=True)
    switch.disable()
    assert machine.modules() == ["tcp_bbr", "ccatune", "tcp_gr"]


def test_a_setting_that_an_operator_changed_since_is_left_alone(machine: Machine, switch: Switch) -> None:
    switch.enable("gr", as_default=True)
    machine.write(DEFAULT, "bbr")
    done, left = switch.disable()
    assert done[0] == "net.ipv4.tcp_congestion_control is bbr, which somebody else set: left alone"
    assert left == ""
    assert settings(machine) == ("bbr", "reno cubic")


def test_after_a_reboot_there_is_nothing_to_put_back(machine: Machine, switch: Switch, tmp_path: Path) -> None:
    switch.enable("gr", as_default=True)
    machine.boot("second")
    machine.write(DEFAULT, "bbr")
    again = machine.switch(tmp_path / "state" / "enabled.json")
    assert again.disable() == nothing_in(tmp_path / "state" / "enabled.json")
    assert settings(machine) == ("bbr", "reno cubic")


def test_a_kernel_that_takes_no_modules_is_named_and_nothing_is_changed(machine: Machine, switch: Switch) -> None:
    (machine.root / "modules").unlink()
    with pytest.raises(SwitchError, match="expected a kernel that takes modules"):
        switch.enable("gr", as_default=True, via="module")
    assert settings(machine) == ("cubic", "reno cubic")
    assert machine.ran == []


def test_a_setting_that_cannot_be_written_undoes_what_was_begun(machine: Machine, switch: Switch) -> None:
    # A folder in its place can be opened by nobody for writing, by root neither.
    (machine.settings / ALLOWED).write_text("reno cubic gr\n")
    (machine.settings / DEFAULT).unlink()
    (machine.settings / DEFAULT).symlink_to("/proc/sys/kernel/ostype")
    with pytest.raises(SwitchError, match=r"tcp_congestion_control: cannot be set to 'gr'"):
        switch.enable("gr", as_default=True)
    assert machine.modules() == ["tcp_bbr"]


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_a_memory_that_another_user_could_have_written_is_not_acted_on(
    machine: Machine, switch: Switch, tmp_path: Path, mode: int
) -> None:
    switch.enable("gr", as_default=True)
    (tmp_path / "state" / "enabled.json").chmod(mode)
    with pytest.raises(SwitchError, match=f"a file that no other user can write, .* with the mode {mode:04o}"):
        switch.disable()
    assert settings(machine) == ("gr", "reno cubic gr")


def test_a_damaged_memory_is_named_and_not_acted_on(machine: Machine, switch: Switch, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "enabled.json").write_text("{}")
    with pytest.raises(SwitchError, match=r"enabled\.json: expected what `enable` remembered"):
        switch.disable()
    assert settings(machine) == ("cubic", "reno cubic")


def test_the_agents_own_command_line_has_both(tmp_path: Path) -> None:
    result = CliRunner().invoke(agent, ["disable", "--state-file", str(tmp_path / "none.json"), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.output) == {"done": nothing_in(tmp_path / "none.json")[0]}

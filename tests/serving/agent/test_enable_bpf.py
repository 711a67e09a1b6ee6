# SPDX-License-Identifier: MIT
"""`ccatune-agent enable|disable --via`: which of module and BPF is loaded, and that all of it can be undone."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from kmod.bpf_host import BpfHost
from serving.agent import switch as switch_module
from serving.agent.switch import ALLOWED, DEFAULT, LoadVia, Switch, SwitchError
from tests.serving.agent.machine import AVAILABLE, Machine


class Seen(NamedTuple):
    """Everything that may change."""

    default: str
    allowed: str
    available: str
    modules: list[str]
    bpf: list[str]


def seen(machine: Machine) -> Seen:
    default, allowed, available = (machine.read(name) for name in (DEFAULT, ALLOWED, AVAILABLE))
    return Seen(default, allowed, available, machine.modules(), machine.bpf.loaded())


def test_bpf_is_loaded_allowed_and_made_default_and_disable_puts_everything_back(
    machine: Machine, switch: Switch, file: Path
) -> None:
    before = seen(machine)
    done = switch.enable("gr", as_default=True, via="bpf")
    assert done[0] == "gr loaded in BPF"
    assert len(done) == 3
    assert seen(machine) == ("gr", "reno cubic gr", "reno cubic bbr gr", ["tcp_bbr"], ["gr"])
    assert json.loads(file.read_text())["bpf"] == ["gr"]
    done, left = switch.disable()
    assert done[-1].startswith("gr unloaded from BPF; flows that use it keep it until they end")
    assert left == ""
    assert seen(machine) == before
    assert machine.ran == []
    assert not file.exists()


def test_a_default_of_that_name_is_written_again_because_it_stands_for_what_was_loaded_before(
    machine: Machine, switch: Switch
) -> None:
    machine.write(DEFAULT, "gr")
    sysctl = machine.root / "sys" / "net" / "ipv4" / DEFAULT
    os.utime(sysctl, (0, 0))
    switch.enable("gr", as_default=True, via="bpf")
    assert sysctl.stat().st_mtime > 0
    os.utime(sysctl, (0, 0))
    switch.enable("gr", as_default=True, via="bpf")
    assert sysctl.stat().st_mtime == 0


def test_cubic_gets_the_name_that_sockets_choose_in_bpf(machine: Machine, switch: Switch) -> None:
    before = seen(machine)
    assert switch.enable("cubic", as_default=True, via="bpf")[0] == "cubic loaded in BPF as ccatune_cubic"
    assert seen(machine)[:2] == ("ccatune_cubic", "reno cubic ccatune_cubic")
    switch.disable()
    assert seen(machine) == before


def test_the_cubic_of_the_kernel_is_not_the_one_that_is_enabled(machine: Machine, switch: Switch) -> None:
    # The kernel offers its own cubic, and has a module tcp_bbr of its own. This machine has none of these modules.
    for cca in ("cubic", "bbr"):
        with pytest.raises(
            SwitchError, match=f"module tcp_ccatune_{cca}: expected it to load and to offer ccatune_{cca}"
        ):
            switch.enable(cca, as_default=True, via="module")
        assert switch.enable(cca, as_default=True)[0] == f"{cca} loaded in BPF as ccatune_{cca}"
        assert machine.read(DEFAULT) == f"ccatune_{cca}"
        assert switch.enable(cca, as_default=True) == [f"{cca} is enabled already"]
        switch.disable()


@pytest.mark.parametrize("takes_modules", [True, False])
def test_auto_takes_bpf_where_the_module_cannot_be_loaded(
    machine: Machine, switch: Switch, file: Path, takes_modules: bool
) -> None:
    # The machine has no module of ROCCET.
    if not takes_modules:
        (machine.root / "modules").unlink()
    assert switch.enable("roccet", as_default=True)[0] == "roccet loaded in BPF"
    assert switch.enable("roccet", as_default=True) == ["roccet is enabled already"]
    assert json.loads(file.read_text())["modules"] == []
    assert switch.disable()[1] == ""
    assert (machine.read(DEFAULT), machine.read(ALLOWED), machine.bpf.loaded()) == ("cubic", "reno cubic", [])


@pytest.mark.parametrize("via", ["auto", "bpf"], ids="via {}".format)
def test_what_was_loaded_in_bpf_before_is_used_and_stays(machine: Machine, switch: Switch, via: LoadVia) -> None:
    machine.bpf.load("gr")
    before = seen(machine)
    switch.enable("gr", as_default=True, via=via)
    assert machine.read(DEFAULT) == "gr"
    switch.disable()
    assert seen(machine) == before
    assert machine.ran == []


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("module", "bpf", "expected to load gr, but the kernel offers gr from elsewhere"),
        ("bpf", "module", "expected to load it, but gr is loaded in BPF"),
    ],
)
def test_the_other_one_is_never_taken_for_the_one_that_was_asked_for(
    machine: Machine, switch: Switch, first: LoadVia, second: LoadVia, words: str
) -> None:
    before = seen(machine)
    switch.enable("gr", as_default=True, via=first)
    enabled = seen(machine)
    with pytest.raises(SwitchError, match=words):
        switch.enable("gr", as_default=True, via=second)
    assert seen(machine) == enabled
    assert switch.enable("gr", as_default=True) == ["gr is enabled already"]
    switch.disable()
    assert seen(machine) == before


def test_one_as_a_module_and_one_in_bpf_are_both_undone(machine: Machine, switch: Switch) -> None:
    before = seen(machine)
    switch.enable("gr", as_default=True)
    switch.enable("roccet", as_default=False)
    assert seen(machine)[3:] == (["tcp_bbr", "ccatune", "tcp_gr"], ["roccet"])
    machine.busy = "tcp_gr"
    _, left = switch.disable()
    assert "tcp_gr was not unloaded" in left
    assert machine.bpf.loaded() == []
    machine.busy = ""
    assert switch.disable() == (["module tcp_gr unloaded", "module ccatune unloaded"], "")
    assert seen(machine) == before


@pytest.mark.parametrize(
    ("cca", "via", "words"),
    [
        (
            "reno",
            "bpf",
            "expected one of gr, cubic, roccet, bbr, .*, sira, got reno; enable reno",
        ),
        ("hybla", "auto", "Module tcp_hybla not found; install the modules [^;]*$"),
        ("roccet", "module", "Module tcp_roccet not found; install the modules [^;]*$"),
        ("roccet", "auto", "Module tcp_roccet not found; .*; BPF: expected to load roccet .*ccatune-bpf is not inst"),
        ("roccet", "bpf", "^BPF: expected to load roccet .*ccatune-bpf is not installed"),
    ],
)
def test_what_cannot_be_loaded_is_told_and_nothing_is_changed(
    machine: Machine, file: Path, cca: str, via: LoadVia, words: str
) -> None:
    before = seen(machine)
    machine.bpf.installed = False
    with pytest.raises(SwitchError, match=words):
        machine.switch(file).enable(cca, as_default=True, via=via)
    machine.bpf.installed = True
    assert seen(machine) == before
    assert not file.exists()


def test_a_load_that_is_refused_keeps_what_was_remembered_before(machine: Machine, switch: Switch, file: Path) -> None:
    switch.enable("gr", as_default=True)
    remembered = file.read_text()
    machine.bpf.refuse_with = errno.EPERM
    with pytest.raises(SwitchError, match="refused by the fake; run as root, with CAP_BPF and CAP_NET_ADMIN"):
        switch.enable("roccet", as_default=True, via="bpf")
    assert file.read_text() == remembered


def test_an_unload_that_is_refused_is_told_and_a_second_disable_finishes(machine: Machine, switch: Switch) -> None:
    before = seen(machine)
    switch.enable("gr", as_default=True, via="bpf")
    machine.bpf.refuse_with = errno.EPERM
    assert "gr was not unloaded from BPF (refused by the fake" in switch.disable()[1]
    assert (machine.read(DEFAULT), machine.read(ALLOWED)) == ("cubic", "reno cubic")
    machine.bpf.refuse_with = 0
    assert switch.disable()[1] == ""
    assert seen(machine) == before


def test_half_a_load_of_somebody_else_is_named_and_left_alone(machine: Machine, switch: Switch) -> None:
    machine.bpf.names.append("gr")
    before = seen(machine)
    with pytest.raises(SwitchError, match="another load of it is under way or was interrupted; `ccatune-bpf unload gr"):
        switch.enable("gr", as_default=True, via="bpf")
    assert seen(machine) == before


class Killed(BaseException):
    """A kill of the command."""


def moments(machine: Machine, monkeypatch: pytest.MonkeyPatch, *, kill_at: int) -> list[str]:
    """Kill whatever runs on the machine at this moment. The list gets the name of every moment until then."""
    passed: list[str] = []

    def at_moment(name: str) -> None:
        passed.append(name)
        if len(passed) - 1 == kill_at:
            raise Killed

    def watched(name: str) -> None:
        original = getattr(switch_module, name, None) or getattr(Switch, name)

        def call(*arguments: object, **named: object) -> object:
            at_moment(f"before {name}")
            result = original(*arguments, **named)
            at_moment(f"after {name}")
            return result

        monkeypatch.setattr(switch_module if hasattr(switch_module, name) else Switch, name, call)

    machine.at_moment = at_moment
    watched("write_atomically")
    watched("_set")
    return passed


@pytest.mark.parametrize("again", [[], ["gr"], ["roccet"]], ids=["disable", "enable", "enable another"])
@pytest.mark.parametrize(("cca", "via"), [("gr", "bpf"), ("gr", "module"), ("roccet", "auto"), ("cubic", "bpf")])
def test_a_kill_at_any_moment_can_be_undone(tmp_path: Path, cca: str, via: LoadVia, again: list[str]) -> None:
    kills = 0
    while True:
        machine = Machine(tmp_path / f"proc-{kills}")
        file = tmp_path / f"enabled-{kills}.json"
        before = seen(machine)
        with pytest.MonkeyPatch.context() as monkeypatch, contextlib.suppress(Killed):
            passed = moments(machine, monkeypatch, kill_at=kills)
            machine.switch(file).enable(cca, as_default=True, via=via)
            machine.switch(file).disable()
        machine.at_moment = lambda _: None
        for name in again:
            machine.switch(file).enable(name, as_default=True, via="bpf" if via == "bpf" else "auto")
        assert machine.switch(file).disable()[1] == "", passed
        assert seen(machine) == before, passed
        if len(passed) <= kills:
            break
        kills += 1
    # At least before and after three writes of the file, two settings, one load, two settings and one unload.
    assert kills >= 2 * 9


@pytest.mark.bpf
def test_the_real_one_is_offered_to_every_program_until_disable(host: BpfHost, file: Path) -> None:
    settings = [Path("/proc/sys/net/ipv4") / name for name in (DEFAULT, ALLOWED, AVAILABLE)]
    before = [set(path.read_text().split()) for path in settings]
    switch = Switch(file, host=host)
    try:
        # Without the default, which connections of everybody on this machine would use.
        assert "cubic loaded in BPF as ccatune_cubic" in switch.enable("cubic", as_default=False, via="bpf")
        enabled = [set(path.read_text().split()) for path in settings]
        assert enabled == [before[0], before[1] | {"ccatune_cubic"}, before[2] | {"ccatune_cubic"}]
        assert switch.enable("cubic", as_default=False, via="bpf") == ["cubic is enabled already"]
    finally:
        assert switch.disable()[1] == ""
    assert [set(path.read_text().split()) for path in settings] == before
    assert host.loaded() == []

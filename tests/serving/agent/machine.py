# SPDX-License-Identifier: MIT
"""A machine for `ccatune-agent enable`: a /proc made of files, with modprobe, rmmod and BPF. ALL OF IT IS A FAKE.

A test of the real ones is in tests/vm (modules) and in test_enable_bpf.py (BPF).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from kmod.bpf_host import BPF_CCAS
from serving.agent.switch import ALLOWED, DEFAULT, Switch

AVAILABLE = "tcp_available_congestion_control"


class FakeBpf:
    """A fake of BpfHost that registers algorithms on the machine.

    names: what is loaded. refuse_with: the errno of every call that changes something.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.names: list[str] = []
        self.refuse_with = 0
        self.installed = True

    def load(self, cca: str) -> None:
        """As `ccatune-bpf load`: first the folder of pins, then the name in the kernel."""
        self._begin("before load")
        if cca in self.names:
            raise FileExistsError(errno.EEXIST, f"{cca} is loaded already")
        if BPF_CCAS[cca] in self.machine.read(AVAILABLE).split():
            raise FileExistsError(errno.EEXIST, f"{cca}: cannot be registered: File exists; a module has the name")
        self.names.append(cca)
        self.machine.at_moment("half of load")
        self.machine.offer(BPF_CCAS[cca], offered=True)
        self.machine.at_moment("after load")

    def unload(self, cca: str) -> None:
        """As `ccatune-bpf unload`: what is left of half a load, too."""
        self._begin("before unload")
        if cca not in self.names:
            raise FileNotFoundError(errno.ENOENT, f"{cca} is not loaded")
        self.machine.offer(BPF_CCAS[cca], offered=False)
        self.machine.at_moment("half of unload")
        self.names.remove(cca)
        self.machine.at_moment("after unload")

    def loaded(self) -> list[str]:
        """The loaded algorithms."""
        if not self.installed:
            raise FileNotFoundError(errno.ENOENT, "ccatune-bpf is not installed; `make bpf` builds it")
        return sorted(self.names)

    def _begin(self, moment: str) -> None:
        self.machine.at_moment(moment)
        self.loaded()
        if self.refuse_with:
            raise OSError(self.refuse_with, "refused by the fake")


class Machine:
    """Files of /proc, a modprobe and an rmmod that act on them, and BPF.

    at_moment: called before and after each action, with its name; it may raise, as a kill there does.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / "sys" / "net" / "ipv4"
        self.settings.mkdir(parents=True)
        self.at_moment: Callable[[str], None] = lambda _: None
        self.bpf = FakeBpf(self)
        self.boot("first")
        self.busy = ""
        self.ran: list[list[str]] = []

    def boot(self, name: str) -> None:
        """Everything as it is after a boot."""
        boot_id = self.root / "sys" / "kernel" / "random" / "boot_id"
        boot_id.parent.mkdir(parents=True, exist_ok=True)
        boot_id.write_text(f"{name}\n")
        self.write(DEFAULT, "cubic")
        self.write(ALLOWED, "reno cubic")
        self.write(AVAILABLE, "reno cubic bbr")
        (self.root / "modules").write_text("tcp_bbr 20480 0 - Live 0x0\n")
        self.bpf.names.clear()

    def switch(self, file: Path) -> Switch:
        """The switch of this machine that remembers in `file`."""
        return Switch(file, root=self.root, program=self.program, host=self.bpf)

    def write(self, name: str, value: str) -> None:
        """Give a sysctl this value."""
        (self.settings / name).write_text(f"{value}\n")

    def read(self, name: str) -> str:
        """The value of a sysctl."""
        # A sysctl replaces its value; a file keeps the tail of a longer one, after the line's end.
        return (self.settings / name).read_text().split("\n")[0]

    def modules(self) -> list[str]:
        """The loaded modules."""
        return [line.split()[0] for line in (self.root / "modules").read_text().splitlines()]

    def offer(self, name: str, *, offered: bool) -> None:
        """Register an algorithm, or take it back."""
        rest = [word for word in self.read(AVAILABLE).split() if word != name]
        self.write(AVAILABLE, " ".join([*rest, name] if offered else rest))

    def program(self, arguments: Sequence[str]) -> str:
        """modprobe and rmmod, whose only fault is what the kernel refuses."""
        self.at_moment(f"before {arguments[0]}")
        complaint = self._program(arguments)
        self.at_moment(f"after {arguments[0]}")
        return complaint

    def _program(self, arguments: Sequence[str]) -> str:
        self.ran.append(list(arguments))
        name = arguments[1]
        if arguments[0] == "modprobe":
            if name not in {"tcp_gr", "tcp_rtcp_cubic"}:
                return f"FATAL: Module {name} not found"
            shared = ["tcp_rtcp"] if "rtcp" in name else []
            with (self.root / "modules").open("a") as file:
                file.writelines(f"{module} 1 1 - Live 0x0\n" for module in ("ccatune", *shared, name))
            self.offer(name.removeprefix("tcp_"), offered=True)
            return ""
        if name == self.busy:
            return f"rmmod: ERROR: Module {name} is in use"
        lines = (self.root / "modules").read_text().splitlines(keepends=True)
        (self.root / "modules").write_text("".join(line for line in lines if line.split()[0] != name))
        self.offer(name.removeprefix("tcp_"), offered=False)
        return ""

# SPDX-License-Identifier: MIT
"""Loads an algorithm of ccatune into the kernel, and unloads it: as a module, or in BPF.

    Modules   modprobe and rmmod; /proc/modules lists the loaded ones
    InBpf     ccatune-bpf load and unload (kmod.bpf_host); its folder of pins lists the loaded ones

Both may have an algorithm of the same name, and the kernel then refuses the second one.
In BPF some algorithms are registered under another name (BPF_CCAS).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from kmod.bpf_host import BPF_CCAS
from serving.agent.errors import AgentError

LoadVia = Literal["auto", "module", "bpf"]
LOAD_VIAS: tuple[LoadVia, ...] = ("auto", "module", "bpf")

_CORE_MODULE = "ccatune"
# Maps the prefix of an algorithm's name to the module that all algorithms with this prefix share.
_FAMILIES = {"rtcp_": "tcp_rtcp"}


class SwitchError(AgentError):
    """A setting or a module cannot be changed."""


class NotLoadableError(SwitchError):
    """An algorithm cannot be loaded as a module. It may still be loaded in BPF."""


class Host(Protocol):
    """The methods of kmod.bpf_host.BpfHost that load and unload. They raise OSError."""

    def load(self, cca: str) -> None:
        """Register the algorithm."""

    def unload(self, cca: str) -> None:
        """Take it back."""

    def loaded(self) -> list[str]:
        """The loaded algorithms."""


def run_program(arguments: Sequence[str]) -> str:
    """Run a program. Return "" if it succeeded, else its error message."""
    try:
        done = subprocess.run(list(arguments), capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{arguments[0]}: {error.strerror}"
    return "" if done.returncode == 0 else done.stderr.strip() or f"{arguments[0]}: status {done.returncode}"


class Modules:
    """The kernel's modules. `root` is the /proc folder; `program` runs modprobe and rmmod."""

    def __init__(self, root: Path, program: Callable[[Sequence[str]], str]) -> None:
        self._root = root
        self._program = program

    def loaded(self) -> list[str]:
        """Return the names of all loaded modules. Raises NotLoadableError where the kernel takes none."""
        try:
            modules = (self._root / "modules").read_text(encoding="ascii")
        except FileNotFoundError as error:
            raise NotLoadableError(
                f"{error.filename}: expected a kernel that takes modules, got one without; "
                "boot one that does (Linux 6.1, 6.12 or 7.3)"
            ) from error
        return [line.split(" ", 1)[0] for line in modules.splitlines()]

    def offers(self, cca: str) -> bool:
        """Whether the module of this algorithm is loaded. A kernel that takes no modules has none."""
        return (self._root / "modules").exists() and f"tcp_{cca}" in self.loaded()

    def absent(self, cca: str) -> list[str]:
        """Return the modules that must be loaded for `cca`, in order of loading."""
        loaded = self.loaded()
        shared = [module for family, module in _FAMILIES.items() if cca.startswith(family)]
        return [name for name in (_CORE_MODULE, *shared, f"tcp_{cca}") if name not in loaded]

    def load(self, cca: str) -> str:
        """Load the module of this algorithm. Return "" if it succeeded, else its error message."""
        return self._program(["modprobe", f"tcp_{cca}"])

    def unload(self, modules: Sequence[str], done: list[str]) -> str:
        """Unload these modules, the last one first, and add a description of each to `done`.

        Returns a message about the first one that stays, "" if none does.
        """
        for module in reversed(modules):
            if module not in self.loaded():
                continue
            complaint = self._program(["rmmod", module])
            if complaint:
                return (
                    f"module {module} was not unloaded ({complaint}); flows that use it keep it loaded, and network "
                    "namespaces made meanwhile, whose default it became: run `disable` again when they have ended"
                )
            done.append(f"module {module} unloaded")
        return ""


class InBpf:
    """The algorithms that run in BPF."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def has(self, cca: str) -> bool:
        """Whether it is loaded, or a load of it is not complete. Raises SwitchError."""
        try:
            return cca in self._host.loaded()
        except FileNotFoundError:
            # The program is not installed. `load` says so, where it is needed.
            return False
        except OSError as error:
            raise SwitchError(f"BPF: the loaded algorithms cannot be listed: {_words(error)}") from error

    def load(self, cca: str) -> str:
        """Load this algorithm. Return "" if it succeeded, else its error message; nothing of it is left then."""
        try:
            self._host.load(cca)
        except FileExistsError as error:
            # It is somebody else's, so that it is not unloaded.
            return _words(error)
        except OSError as error:
            self.unload([cca], [])
            return _words(error)
        return ""

    def unload(self, ccas: Sequence[str], done: list[str]) -> str:
        """Unload these algorithms, and add a description of each to `done`. The kernel does so under flows, too.

        Returns a message about the first one that stays, "" if none does.
        """
        for cca in reversed(ccas):
            try:
                if cca not in self._host.loaded():
                    continue
                self._host.unload(cca)
            except OSError as error:
                return (
                    f"{cca} was not unloaded from BPF ({_words(error)}): run `disable` again when the cause is removed"
                )
            done.append(
                f"{cca} unloaded from BPF; flows that use it keep it until they end, and so do network namespaces "
                "made meanwhile, whose default it became"
            )
        return ""


def name_in_bpf(cca: str) -> str:
    """Return the name that sockets choose. Raises SwitchError where the algorithm does not run in BPF."""
    if cca not in BPF_CCAS:
        raise SwitchError(f"BPF: expected one of {', '.join(BPF_CCAS)}, got {cca}; enable {cca} with --via module")
    return BPF_CCAS[cca]


def _words(error: OSError) -> str:
    said = error.strerror or str(error)
    return f"{said}; run as root, with CAP_BPF and CAP_NET_ADMIN" if isinstance(error, PermissionError) else said

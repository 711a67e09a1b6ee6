# SPDX-License-Identifier: MIT
"""Enables an algorithm of ccatune on this machine, and disables it again.

`enable` saves the current settings on disk, then changes three things:

    1. modprobe tcp_<cca>
    2. net.ipv4.tcp_allowed_congestion_control: the algorithm is added to the list
    3. net.ipv4.tcp_congestion_control: the algorithm becomes the default for new connections of this network
       namespace

The modules allow only programs with CAP_NET_ADMIN to choose their algorithms, unless they are loaded with
unrestricted=1. An algorithm on the list of step 2 is open to every program, in all network namespaces.

`disable` restores the saved settings, unloads the modules that `enable` loaded, and deletes the saved settings.

- The settings are saved before anything is changed, and a second `enable` keeps them. `disable` can therefore undo
  an `enable` that was killed at any moment, and any sequence of commands.
- `disable` leaves a setting alone if somebody else changed it since, and says so.
- The settings do not survive a reboot, so `disable` changes no setting after one.
- Each network namespace has its own default. Settings saved in one namespace are not restored in another.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kmod.ensemble import write_atomically
from serving.agent.errors import AgentError
from serving.agent.runner import BOOT_ID_PATH, read_boot_id

DEFAULT_ENABLED_FILE = Path("/var/lib/ccatune-agent/enabled.json")
DEFAULT = "tcp_congestion_control"
ALLOWED = "tcp_allowed_congestion_control"
_AVAILABLE = "tcp_available_congestion_control"
_CORE_MODULE = "ccatune"
# Maps the prefix of an algorithm's name to the module that all algorithms with this prefix share.
_FAMILIES = {"rtcp_": "tcp_rtcp"}


class SwitchError(AgentError):
    """A setting or a module cannot be changed."""


@dataclass(frozen=True)
class Remembered:
    """The saved state that `disable` needs to undo `enable`.

    before: the values that `enable` found, by the setting's name; after: the values that it set.
    modules: the modules that `enable` loaded, in order of loading.
    namespace: the network namespace that `enable` ran in; "" if the system does not report it.
    """

    boot_id: str
    before: dict[str, str]
    after: dict[str, str]
    modules: list[str] = field(default_factory=list)
    namespace: str = ""

    @staticmethod
    def from_json(data: Any) -> Remembered:
        """Build from JSON data. Raises KeyError, TypeError, ValueError or AttributeError where a field is wrong."""
        return Remembered(
            boot_id=str(data["boot_id"]),
            before={str(name): str(value) for name, value in data["before"].items()},
            after={str(name): str(value) for name, value in data["after"].items()},
            modules=[str(name) for name in data["modules"]],
            namespace=str(data.get("namespace", "")),
        )


def run_program(arguments: Sequence[str]) -> str:
    """Run a program. Return "" if it succeeded, else its error message."""
    try:
        done = subprocess.run(list(arguments), capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{arguments[0]}: {error.strerror}"
    return "" if done.returncode == 0 else done.stderr.strip() or f"{arguments[0]}: status {done.returncode}"


class Switch:
    """Enables and disables an algorithm. `root` is the /proc folder; `program` runs modprobe and rmmod."""

    def __init__(
        self,
        file: Path = DEFAULT_ENABLED_FILE,
        *,
        root: Path = Path("/proc"),
        program: Callable[[Sequence[str]], str] = run_program,
    ) -> None:
        self._file = file
        self._root = root
        self._program = program
        self._boot_id = read_boot_id(root / BOOT_ID_PATH.relative_to("/proc"))

    # -- the two commands ------------------------------------------------------

    def enable(self, cca: str, *, as_default: bool) -> list[str]:
        """Enable `cca` and return a description of each change.

        Raises SwitchError. If no `enable` came before this one, its changes are undone first.
        """
        known = self._recall()
        before = {name: self._read(name) for name in (DEFAULT, ALLOWED)}
        found = known or Remembered(self._boot_id, before, {}, namespace=self._namespace())
        absent = self._absent(cca)
        found = replace(found, modules=[*found.modules, *(name for name in absent if name not in found.modules)])
        if absent:
            self._keep(found)
            self._load(cca, known, absent)
        loaded = [name for name in absent if self._is_loaded(name)]
        wanted = {ALLOWED: _with(self._read(ALLOWED), cca)}
        if as_default:
            wanted[DEFAULT] = cca
        done = [f"module {name} loaded" for name in loaded]
        # The kernel adds the default to the allowed algorithms by itself. The final values are therefore read back
        # below and saved again.
        self._keep(replace(found, after={**found.after, **wanted}))
        try:
            done += [line for name, value in wanted.items() if (line := self._set(name, value))]
        except SwitchError:
            if known is None:
                self.disable()
            raise
        after = {**found.after, **{name: self._read(name) for name in wanted}}
        self._keep(replace(found, after=after))
        return done or [f"{cca} is enabled already"]

    def disable(self) -> tuple[list[str], str]:
        """Restore all settings and unload the modules.

        Returns a description of each change, and a message about the module that is still in use ("" if none is).
        Raises SwitchError.
        """
        known = self._recall()
        if known is None:
            self._file.unlink(missing_ok=True)
            return [f"{self._file}: it remembers nothing that was enabled since this machine was started"], ""
        # The default must be restored first: the kernel always allows the default algorithm.
        done = [self._put_back(name, known) for name in (DEFAULT, ALLOWED) if name in known.after]
        busy = self._unload(known, done)
        said = [line for line in done if line]
        if busy:
            return said, (
                f"{busy}; flows that use it keep it loaded, and network namespaces made meanwhile, whose default it "
                "became: run `disable` again when they have ended"
            )
        self._file.unlink(missing_ok=True)
        return said or ["everything was put back already"], ""

    # -- modules ---------------------------------------------------------------

    def _is_loaded(self, module: str) -> bool:
        try:
            modules = (self._root / "modules").read_text(encoding="ascii")
        except FileNotFoundError as error:
            raise SwitchError(
                f"{error.filename}: expected a kernel that takes modules, got one without; "
                "boot one that does (Linux 6.1, 6.12 or 7.3)"
            ) from error
        return any(line.split(" ", 1)[0] == module for line in modules.splitlines())

    def _absent(self, cca: str) -> list[str]:
        """Return the modules that must be loaded for `cca`, in order of loading."""
        if cca in self._read(_AVAILABLE).split():
            return []
        shared = [module for family, module in _FAMILIES.items() if cca.startswith(family)]
        return [name for name in (_CORE_MODULE, *shared, f"tcp_{cca}") if not self._is_loaded(name)]

    def _load(self, cca: str, known: Remembered | None, absent: list[str]) -> None:
        """Load the modules of `cca`.

        Raises SwitchError where this fails. The modules that did load are then unloaded, and the saved settings are
        those from before this `enable`.
        """
        complaint = self._program(["modprobe", f"tcp_{cca}"])
        if complaint or cca not in self._read(_AVAILABLE).split():
            self._unload(Remembered(self._boot_id, {}, {}, absent), [])
            if known is None:
                self._file.unlink(missing_ok=True)
            else:
                self._keep(known)
            raise SwitchError(
                f"module tcp_{cca}: expected it to load and to offer {cca}, got: "
                f"{complaint or 'no such algorithm afterwards'}; install the modules (dkms install ccatune) "
                "for the running kernel"
            )

    def _unload(self, known: Remembered, done: list[str]) -> str:
        for module in reversed(known.modules):
            if not self._is_loaded(module):
                continue
            complaint = self._program(["rmmod", module])
            if complaint:
                return f"module {module} was not unloaded ({complaint})"
            done.append(f"module {module} unloaded")
        return ""

    # -- settings --------------------------------------------------------------

    def _path(self, name: str) -> Path:
        return self._root / "sys" / "net" / "ipv4" / name

    def _read(self, name: str) -> str:
        try:
            return " ".join(self._path(name).read_text(encoding="ascii").split())
        except OSError as error:
            raise SwitchError(f"net.ipv4.{name}: cannot be read: {error.strerror}") from error

    def _set(self, name: str, value: str) -> str:
        was = self._read(name)
        if was == value:
            return ""
        try:
            # There is no O_CREAT: a missing file means that the kernel does not have this sysctl.
            descriptor = os.open(self._path(name), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode("ascii") + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise SwitchError(
                f"net.ipv4.{name}: cannot be set to {value!r}: {error.strerror}; root with CAP_NET_ADMIN may"
            ) from error
        return f"net.ipv4.{name} = {value}: {_meaning(name, was, value)}"

    def _put_back(self, name: str, known: Remembered) -> str:
        now = self._read(name)
        if now == known.before[name]:
            return ""
        # Restoring the default, which comes first, does not change the list of allowed algorithms. So a value that
        # differs from the one that `enable` set was changed by somebody else.
        if set(now.split()) != set(known.after[name].split()):
            return f"net.ipv4.{name} is {now}, which somebody else set: left alone"
        return self._set(name, known.before[name])

    # -- saved state -----------------------------------------------------------

    def _recall(self) -> Remembered | None:
        """Return what `enable` saved since this boot, or None.

        Raises SwitchError where the file is unreadable, invalid, or from another network namespace.
        """
        try:
            known = Remembered.from_json(json.loads(self._file.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SwitchError(f"{self._file}: expected what `enable` remembered, got other data; remove it") from error
        except OSError as error:
            raise SwitchError(f"{self._file}: cannot be read: {error.strerror}") from error
        if known.boot_id != self._boot_id:
            return None
        here = self._namespace()
        if known.namespace and here and known.namespace != here:
            raise SwitchError(
                f"{self._file}: expected what `enable` found in this network namespace ({here}), it is of another "
                f"({known.namespace}); run there, or set another --state-file"
            )
        return known

    def _namespace(self) -> str:
        try:
            return str((self._root / "self" / "ns" / "net").readlink())
        except OSError:
            return ""

    def _keep(self, known: Remembered) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(vars(known), indent=1).encode() + b"\n")
        except OSError as error:
            raise SwitchError(f"{self._file}: cannot be written: {error.strerror}; run as root") from error


def _meaning(name: str, was: str, value: str) -> str:
    """Describe which connections or programs a changed setting affects."""
    if name == DEFAULT:
        return f"new connections of this network namespace, and of those that are made from now on, use {value}"
    opened = [cca for cca in value.split() if cca not in was.split()]
    closed = [cca for cca in was.split() if cca not in value.split()]
    said = []
    if opened:
        said.append(f"every program, in all containers too, may choose {' '.join(opened)}")
    if closed:
        said.append(f"only programs with CAP_NET_ADMIN may choose {' '.join(closed)}")
    return "; ".join(said) or "the same algorithms in another order"


def _with(names: str, cca: str) -> str:
    words = names.split()
    return " ".join(words if cca in words else [*words, cca])

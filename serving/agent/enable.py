# SPDX-License-Identifier: MIT
"""Enables an algorithm of ccatune on this machine, and disables it again.

`enable` saves the current settings on disk, then changes three things:

    1. the algorithm is loaded: modprobe tcp_<cca>, or ccatune-bpf load <cca> (loading.py)
    2. net.ipv4.tcp_allowed_congestion_control: the algorithm is added to the list
    3. net.ipv4.tcp_congestion_control: the algorithm becomes the default for new connections of this network
       namespace

The algorithms allow only programs with CAP_NET_ADMIN to choose them, unless the modules are loaded with
unrestricted=1. An algorithm on the list of step 2 is open to every program, in all network namespaces.

`disable` restores the saved settings, unloads what `enable` loaded, and deletes the saved settings.

- The settings are saved before anything is changed, and a second `enable` keeps them. `disable` can therefore undo
  an `enable` that was killed at any moment, and any sequence of commands.
- `disable` leaves a setting alone if somebody else changed it since, and says so.
- The settings do not survive a reboot, so `disable` changes no setting after one.
- Each network namespace has its own default. Settings saved in one namespace are not restored in another.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kmod.bpf_host import BPF_CCAS, BpfHost
from kmod.ensemble import write_atomically
from serving.agent.loading import Host, InBpf, LoadVia, Modules, NotLoadableError, SwitchError, name_in_bpf, run_program
from serving.agent.runner import BOOT_ID_PATH, read_boot_id

__all__ = ["ALLOWED", "DEFAULT", "DEFAULT_ENABLED_FILE", "Remembered", "Switch", "SwitchError"]

DEFAULT_ENABLED_FILE = Path("/var/lib/ccatune-agent/enabled.json")
DEFAULT = "tcp_congestion_control"
ALLOWED = "tcp_allowed_congestion_control"
_AVAILABLE = "tcp_available_congestion_control"


@dataclass(frozen=True)
class Remembered:
    """The saved state that `disable` needs to undo `enable`.

    before: the values that `enable` found, by the setting's name; after: the values that it set.
    modules: the modules that `enable` loaded, in order of loading.
    namespace: the network namespace that `enable` ran in; "" if the system does not report it.
    bpf: the algorithms that `enable` loaded in BPF. A file from before BPF has no such field.
    """

    boot_id: str
    before: dict[str, str]
    after: dict[str, str]
    modules: list[str] = field(default_factory=list)
    namespace: str = ""
    bpf: list[str] = field(default_factory=list)

    @staticmethod
    def from_json(data: Any) -> Remembered:
        """Build from JSON data. Raises KeyError, TypeError, ValueError or AttributeError where a field is wrong."""
        return Remembered(
            boot_id=str(data["boot_id"]),
            before={str(name): str(value) for name, value in data["before"].items()},
            after={str(name): str(value) for name, value in data["after"].items()},
            modules=[str(name) for name in data["modules"]],
            namespace=str(data.get("namespace", "")),
            bpf=[str(name) for name in data.get("bpf", [])],
        )


@dataclass(frozen=True)
class _Offered:
    """An algorithm that the kernel offers now.

    name: as sockets choose it. found: the saved state, with what was loaded for it. done: what was loaded, in words.
    """

    name: str
    found: Remembered
    done: list[str] = field(default_factory=list)


class Switch:
    """Enables and disables an algorithm.

    root: the /proc folder. program: runs modprobe and rmmod. host: loads algorithms in BPF; None: BpfHost.
    """

    def __init__(
        self,
        file: Path = DEFAULT_ENABLED_FILE,
        *,
        root: Path = Path("/proc"),
        program: Callable[[Sequence[str]], str] = run_program,
        host: Host | None = None,
    ) -> None:
        self._file = file
        self._root = root
        self._modules = Modules(root, program)
        self._bpf = InBpf(host or BpfHost())
        self._boot_id = read_boot_id(root / BOOT_ID_PATH.relative_to("/proc"))

    # -- the two commands ------------------------------------------------------

    def enable(self, cca: str, *, as_default: bool, via: LoadVia = "auto") -> list[str]:
        """Enable `cca` and return a description of each change.

        via: where the algorithm is to run; auto: as a module if its module can be loaded, else in BPF.
        Raises SwitchError. If no `enable` came before this one, its changes are undone first.
        """
        known = self._recall()
        before = {name: self._read(name) for name in (DEFAULT, ALLOWED)}
        offered = self._offer(
            cca, via, known, known or Remembered(self._boot_id, before, {}, namespace=self._namespace())
        )
        found, done = offered.found, offered.done
        wanted = {ALLOWED: _with(self._read(ALLOWED), offered.name)}
        if as_default:
            wanted[DEFAULT] = offered.name
        # The kernel adds the default to the allowed algorithms by itself. The final values are therefore read back
        # below and saved again.
        self._keep(replace(found, after={**found.after, **wanted}))
        try:
            # A sysctl that has the name already may stand for what was loaded under it before.
            loaded = bool(offered.done)
            done += [line for name, value in wanted.items() if (line := self._set(name, value, anew=loaded))]
        except SwitchError:
            if known is None:
                self.disable()
            raise
        after = {**found.after, **{name: self._read(name) for name in wanted}}
        self._keep(replace(found, after=after))
        return done or [f"{cca} is enabled already"]

    def disable(self) -> tuple[list[str], str]:
        """Restore all settings and unload what `enable` loaded.

        Returns a description of each change, and a message about what could not be unloaded ("" if all was).
        Raises SwitchError.
        """
        known = self._recall()
        if known is None:
            self._file.unlink(missing_ok=True)
            return [f"{self._file}: it remembers nothing that was enabled since this machine was started"], ""
        # The default must be restored first: the kernel always allows the default algorithm.
        done = [self._put_back(name, known) for name in (DEFAULT, ALLOWED) if name in known.after]
        left = "; ".join(filter(None, (self._modules.unload(known.modules, done), self._bpf.unload(known.bpf, done))))
        said = [line for line in done if line]
        if left:
            return said, left
        self._file.unlink(missing_ok=True)
        return said or ["everything was put back already"], ""

    # -- loading ---------------------------------------------------------------

    def _offer(self, cca: str, via: LoadVia, known: Remembered | None, found: Remembered) -> _Offered:
        """Make the kernel offer `cca`, and save what is loaded for it before it is loaded.

        known: what the file holds; it holds this again if the algorithm cannot be loaded. Raises SwitchError.
        """
        if via == "bpf":
            return self._in_bpf(cca, known, found)
        if via == "module" or self._is_available(cca):
            return self._as_module(cca, known, found, strict=via == "module")
        try:
            return self._as_module(cca, known, found)
        except NotLoadableError as error:
            if cca not in BPF_CCAS:
                raise
            try:
                return self._in_bpf(cca, known, found)
            except SwitchError as another:
                raise SwitchError(f"{error}; {another}") from another

    def _as_module(self, cca: str, known: Remembered | None, found: Remembered, *, strict: bool = False) -> _Offered:
        """strict: an algorithm in BPF does not count."""
        if self._is_available(cca):
            if strict and BPF_CCAS.get(cca) == cca and not self._modules.offers(cca) and self._bpf.has(cca):
                raise SwitchError(
                    f"module tcp_{cca}: expected to load it, but {cca} is loaded in BPF; `ccatune-agent disable` or "
                    f"`ccatune-bpf unload {cca}` first, or enable it with --via bpf"
                )
            return _Offered(cca, found)
        absent = self._modules.absent(cca)
        found = replace(found, modules=[*found.modules, *(name for name in absent if name not in found.modules)])
        self._keep(found)
        complaint = self._modules.load(cca)
        if complaint or not self._is_available(cca):
            self._modules.unload(absent, [])
            self._restore(known)
            raise NotLoadableError(
                f"module tcp_{cca}: expected it to load and to offer {cca}, got: "
                f"{complaint or 'no such algorithm afterwards'}; install the modules (dkms install ccatune) "
                "for the running kernel"
            )
        loaded = self._modules.loaded()
        return _Offered(cca, found, [f"module {name} loaded" for name in absent if name in loaded])

    def _in_bpf(self, cca: str, known: Remembered | None, found: Remembered) -> _Offered:
        name, has = name_in_bpf(cca), self._bpf.has(cca)
        if self._is_available(name):
            if has and not self._modules.offers(name):
                return _Offered(name, found)
            raise SwitchError(
                f"BPF: expected to load {cca}, but the kernel offers {name} from elsewhere, e.g. from its module; "
                f"`ccatune-agent disable` or `rmmod tcp_{name}` first, or enable it with --via auto"
            )
        if has and cca not in found.bpf:
            raise SwitchError(
                f"BPF: expected to load {cca}, but another load of it is under way or was interrupted; "
                f"`ccatune-bpf unload {cca}` first"
            )
        if cca not in found.bpf:
            found = replace(found, bpf=[*found.bpf, cca])
        self._keep(found)
        # Where an `enable` was killed, a part of the algorithm may be left, which the kernel does not offer.
        complaint = (self._bpf.unload([cca], []) if has else "") or self._bpf.load(cca)
        if not complaint and not self._is_available(name):
            complaint = self._bpf.unload([cca], []) or "no such algorithm afterwards"
        if complaint:
            self._restore(known)
            raise SwitchError(f"BPF: expected to load {cca} and to offer {name}, got: {complaint}")
        return _Offered(name, found, [f"{cca} loaded in BPF" + (f" as {name}" if name != cca else "")])

    def _is_available(self, name: str) -> bool:
        return name in self._read(_AVAILABLE).split()

    # -- settings --------------------------------------------------------------

    def _path(self, name: str) -> Path:
        return self._root / "sys" / "net" / "ipv4" / name

    def _read(self, name: str) -> str:
        try:
            return " ".join(self._path(name).read_text(encoding="ascii").split())
        except OSError as error:
            raise SwitchError(f"net.ipv4.{name}: cannot be read: {error.strerror}") from error

    def _set(self, name: str, value: str, *, anew: bool = False) -> str:
        """Set a sysctl and return what that means; "" if it had the value. anew: it is written even then."""
        was = self._read(name)
        if was == value and not anew:
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
        return "" if was == value else f"net.ipv4.{name} = {value}: {_meaning(name, was, value)}"

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
            known = Remembered.from_json(json.loads(self._read_own()))
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

    def _read_own(self) -> bytes:
        """Return what the file holds. Raises SwitchError where other users decide that, and OSError."""
        with self._file.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid not in {0, os.geteuid()} or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise SwitchError(
                    f"{self._file}: expected a file that no other user can write, got one of user {found.st_uid} with "
                    f"the mode {stat.S_IMODE(found.st_mode):04o}; examine it, and remove it"
                )
            return file.read()

    def _namespace(self) -> str:
        try:
            return str((self._root / "self" / "ns" / "net").readlink())
        except OSError:
            return ""

    def _restore(self, known: Remembered | None) -> None:
        """Save `known`, which is what the file held before, or None where there was none."""
        if known is None:
            self._file.unlink(missing_ok=True)
        else:
            self._keep(known)

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

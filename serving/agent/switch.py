# SPDX-License-Identifier: MIT
"""Enables an algorithm of ccatune on this machine, and disables it again.

`enable` saves the current settings on disk, then changes three things:

    1. the algorithm is loaded: modprobe tcp_<cca> or tcp_ccatune_<cca>, or ccatune-bpf load <cca>
    2. net.ipv4.tcp_allowed_congestion_control: the algorithm is added to the list
    3. net.ipv4.tcp_congestion_control: the algorithm becomes the default for new connections of this network
       namespace

The algorithms allow only programs with CAP_NET_ADMIN to choose them, unless the modules are loaded with
unrestricted=1. An algorithm on the list of step 2 is open to every program, in all network namespaces.
A module and BPF may have an algorithm of the same name, and the kernel then refuses the second one. Some algorithms are
registered under another name, because the kernel has its own of that name (kmod.abi.Algorithm.kernel_name).

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
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from kmod.abi import ALGORITHMS
from kmod.bpf_host import BPF_CCAS, BpfHost
from kmod.ensemble import write_atomically
from serving.agent.errors import NotLoadableError, SwitchError
from serving.agent.kernel import BOOT_ID_PATH, read_boot_id

LoadVia = Literal["auto", "module", "bpf"]
LOAD_VIAS: tuple[LoadVia, ...] = ("auto", "module", "bpf")

DEFAULT_ENABLED_FILE = Path("/var/lib/ccatune-agent/enabled.json")
DEFAULT = "tcp_congestion_control"
ALLOWED = "tcp_allowed_congestion_control"
_AVAILABLE = "tcp_available_congestion_control"

_CORE_MODULE = "ccatune"
# Maps the prefix of an algorithm's name to the module that all algorithms with this prefix share.
_FAMILIES = {"rtcp_": "tcp_rtcp"}


@dataclass(frozen=True)
class Saved:
    """The saved state that `disable` needs to undo `enable`.

    before: the values that `enable` found, by the setting's name; after: the values that it set.
    namespace: the network namespace that `enable` ran in; "" if the system does not report it.
    modules: the modules that `enable` loaded, in order of loading. bpf: the algorithms that it loaded in BPF.
    """

    boot_id: str
    namespace: str
    before: dict[str, str]
    after: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    bpf: list[str] = field(default_factory=list)

    @staticmethod
    def from_json(data: Any) -> Saved:
        """Build from JSON data. Raises KeyError, TypeError, ValueError or AttributeError where a field is wrong."""
        return Saved(
            boot_id=str(data["boot_id"]),
            namespace=str(data["namespace"]),
            before={str(name): str(value) for name, value in data["before"].items()},
            after={str(name): str(value) for name, value in data["after"].items()},
            modules=[str(name) for name in data["modules"]],
            bpf=[str(name) for name in data["bpf"]],
        )


def _module_of(cca: str) -> str:
    """The module of an algorithm: that of ccatune, or the kernel's own where ccatune has none."""
    return (ALGORITHMS[cca].module if cca in ALGORITHMS else "") or f"tcp_{cca}"


def run_program(arguments: Sequence[str]) -> str:
    """Run a program. Return "" if it succeeded, else its error message."""
    try:
        done = subprocess.run(list(arguments), capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{arguments[0]}: {error.strerror}"
    return "" if done.returncode == 0 else done.stderr.strip() or f"{arguments[0]}: status {done.returncode}"


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
        host: BpfHost | None = None,
    ) -> None:
        self._file = file
        self._root = root
        self._program = program
        self._host = host or BpfHost()
        self._boot_id = read_boot_id(root / BOOT_ID_PATH.relative_to("/proc"))

    # -- the two commands ------------------------------------------------------

    def enable(self, cca: str, *, as_default: bool, via: LoadVia = "auto") -> list[str]:
        """Enable `cca` and return a description of each change.

        via: where the algorithm is to run; auto: as a module if its module can be loaded, else in BPF.
        Raises SwitchError. If no `enable` came before this one, its changes are undone first.
        """
        known = self._recall()
        before = {name: self._read(name) for name in (DEFAULT, ALLOWED)}
        saved = known or Saved(self._boot_id, self._namespace(), before)
        name, saved, loaded = self._load(cca, via, known, saved)
        allowed = self._read(ALLOWED).split()
        wanted = {ALLOWED: " ".join(allowed if name in allowed else [*allowed, name])}
        if as_default:
            wanted[DEFAULT] = name
        # The kernel adds the default to the allowed algorithms by itself. The final values are therefore read back
        # below and saved again.
        self._keep(replace(saved, after={**saved.after, **wanted}))
        try:
            # A sysctl that has the name already may stand for what was loaded under it before.
            done = [self._set(setting, value, anew=bool(loaded)) for setting, value in wanted.items()]
        except SwitchError:
            if known is None:
                self.disable()
            raise
        self._keep(replace(saved, after={**saved.after, **{setting: self._read(setting) for setting in wanted}}))
        return [*loaded, *filter(None, done)] or [f"{cca} is enabled already"]

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
        done = [self._restore(name, known) for name in (DEFAULT, ALLOWED) if name in known.after]
        left = [self._unload_modules(known.modules, done), self._unload_from_bpf(known.bpf, done)]
        done = [line for line in done if line]
        if any(left):
            return done, "; ".join(filter(None, left))
        self._file.unlink(missing_ok=True)
        return done or ["everything was put back already"], ""

    # -- loading ---------------------------------------------------------------

    def _load(self, cca: str, via: LoadVia, known: Saved | None, saved: Saved) -> tuple[str, Saved, list[str]]:
        """Make the kernel offer `cca`, and save what is loaded for it before it is loaded.

        known: what the file holds; it holds this again if the algorithm cannot be loaded.
        Returns the name that sockets choose, the saved state, and what was loaded, in words. Raises SwitchError.
        """
        if via == "bpf":
            return self._load_in_bpf(cca, known, saved)
        name = _module_of(cca).removeprefix("tcp_")
        if self._is_available(name):
            is_in_bpf = BPF_CCAS.get(cca) == name and not self._has_module(cca) and self._has_in_bpf(cca)
            if via == "module" and is_in_bpf:
                raise SwitchError(
                    f"module tcp_{name}: expected to load it, but {cca} is loaded in BPF; `ccatune-agent disable` or "
                    f"`ccatune-bpf unload {cca}` first, or enable it with --via bpf"
                )
            return name, saved, []
        try:
            return self._load_module(cca, known, saved)
        except NotLoadableError as error:
            if via == "module" or cca not in BPF_CCAS:
                raise
            try:
                return self._load_in_bpf(cca, known, saved)
            except SwitchError as another:
                raise SwitchError(f"{error}; {another}") from another

    def _load_module(self, cca: str, known: Saved | None, saved: Saved) -> tuple[str, Saved, list[str]]:
        loaded, module = self._modules(), _module_of(cca)
        name = module.removeprefix("tcp_")
        shared = [module for family, module in _FAMILIES.items() if cca.startswith(family)]
        absent = [one for one in (_CORE_MODULE, *shared, module) if one not in loaded]
        saved = replace(saved, modules=[*saved.modules, *(one for one in absent if one not in saved.modules)])
        self._keep(saved)
        complaint = self._program(["modprobe", module])
        if complaint or not self._is_available(name):
            self._unload_modules(absent, [])
            self._keep(known)
            raise NotLoadableError(
                f"module {module}: expected it to load and to offer {name}, got: "
                f"{complaint or 'no such algorithm afterwards'}; install the modules (dkms install ccatune) "
                "for the running kernel"
            )
        loaded = self._modules()
        return name, saved, [f"module {one} loaded" for one in absent if one in loaded]

    def _load_in_bpf(self, cca: str, known: Saved | None, saved: Saved) -> tuple[str, Saved, list[str]]:
        if cca not in BPF_CCAS:
            raise SwitchError(f"BPF: expected one of {', '.join(BPF_CCAS)}, got {cca}; enable {cca} with --via module")
        name, has = BPF_CCAS[cca], self._has_in_bpf(cca)
        if self._is_available(name):
            if has and not self._has_module(name):
                return name, saved, []
            raise SwitchError(
                f"BPF: expected to load {cca}, but the kernel offers {name} from elsewhere, e.g. from its module; "
                f"`ccatune-agent disable` or `rmmod tcp_{name}` first, or enable it with --via auto"
            )
        if has and cca not in saved.bpf:
            raise SwitchError(
                f"BPF: expected to load {cca}, but another load of it is under way or was interrupted; "
                f"`ccatune-bpf unload {cca}` first"
            )
        if cca not in saved.bpf:
            saved = replace(saved, bpf=[*saved.bpf, cca])
        self._keep(saved)
        complaint = self._register(cca, name, has_rest=has)
        if complaint:
            self._keep(known)
            raise SwitchError(f"BPF: expected to load {cca} and to offer {name}, got: {complaint}")
        return name, saved, [f"{cca} loaded in BPF" + (f" as {name}" if name != cca else "")]

    def _register(self, cca: str, name: str, *, has_rest: bool) -> str:
        """Load an algorithm in BPF. Return "" if the kernel offers it, else why not; nothing of it is left then.

        has_rest: a killed `enable` left a part of it, which the kernel does not offer.
        """
        complaint = self._unload_from_bpf([cca], []) if has_rest else ""
        if complaint:
            return complaint
        try:
            self._host.load(cca)
        except FileExistsError as error:
            # It is somebody else's, so that it is not unloaded.
            return _words(error)
        except OSError as error:
            self._unload_from_bpf([cca], [])
            return _words(error)
        return "" if self._is_available(name) else self._unload_from_bpf([cca], []) or "no such algorithm afterwards"

    def _unload_modules(self, modules: Sequence[str], done: list[str]) -> str:
        """Unload these modules, the last one first, and add a description of each to `done`.

        Returns a message about the first one that stays, "" if none does.
        """
        for module in reversed(modules):
            if module not in self._modules():
                continue
            complaint = self._program(["rmmod", module])
            if complaint:
                return (
                    f"module {module} was not unloaded ({complaint}); flows that use it keep it loaded, and network "
                    "namespaces made meanwhile, whose default it became: run `disable` again when they have ended"
                )
            done.append(f"module {module} unloaded")
        return ""

    def _unload_from_bpf(self, ccas: Sequence[str], done: list[str]) -> str:
        """As _unload_modules, for algorithms in BPF. The kernel unloads them under flows, too."""
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

    def _modules(self) -> list[str]:
        """Return the names of all loaded modules. Raises NotLoadableError where the kernel takes none."""
        try:
            modules = (self._root / "modules").read_text(encoding="ascii")
        except FileNotFoundError as error:
            raise NotLoadableError(
                f"{error.filename}: expected a kernel that takes modules, got one without; "
                "boot one that does (Linux 6.1, 6.12 or 7.3)"
            ) from error
        return [line.split(" ", 1)[0] for line in modules.splitlines()]

    def _has_module(self, cca: str) -> bool:
        """Whether the module of this algorithm is loaded. A kernel that takes no modules has none."""
        return (self._root / "modules").exists() and _module_of(cca) in self._modules()

    def _has_in_bpf(self, cca: str) -> bool:
        """Whether it is loaded in BPF, or a load of it is not complete. Raises SwitchError."""
        try:
            return cca in self._host.loaded()
        except FileNotFoundError:
            # The program is not installed. A load says so, where it is needed.
            return False
        except OSError as error:
            raise SwitchError(f"BPF: the loaded algorithms cannot be listed: {_words(error)}") from error

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

    def _restore(self, name: str, known: Saved) -> str:
        now = self._read(name)
        if now == known.before[name]:
            return ""
        # Restoring the default, which comes first, does not change the list of allowed algorithms. So a value that
        # differs from the one that `enable` set was changed by somebody else.
        if set(now.split()) != set(known.after[name].split()):
            return f"net.ipv4.{name} is {now}, which somebody else set: left alone"
        return self._set(name, known.before[name])

    # -- saved state -----------------------------------------------------------

    def _recall(self) -> Saved | None:
        """Return what `enable` saved since this boot, or None.

        Raises SwitchError where the file is unreadable, invalid, or from another network namespace.
        """
        try:
            known = Saved.from_json(json.loads(self._read_own()))
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

    def _keep(self, saved: Saved | None) -> None:
        """Save this, or delete the file where it is None."""
        try:
            if saved is None:
                self._file.unlink(missing_ok=True)
                return
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, json.dumps(asdict(saved), indent=1).encode() + b"\n")
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


def _words(error: OSError) -> str:
    said = error.strerror or str(error)
    return f"{said}; run as root, with CAP_BPF and CAP_NET_ADMIN" if isinstance(error, PermissionError) else said

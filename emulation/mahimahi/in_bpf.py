# SPDX-License-Identifier: MIT
"""Offers the algorithms of this repository to flows on this machine's kernel, in BPF (kmod/bpf), during an emulation.

The kernel has one list of congestion controls for all network namespaces. In BPF an algorithm also has a single
configuration for all of them. Therefore:

    several emulations    take turns. A lock (LOCK) admits one of them. The others wait for up to WAIT_S
    several runs          of one emulation run at the same time only if they use the same parameters and ensemble.
                          Otherwise a run waits for the end of those that use others (`can_share`)
    another program       may have registered the algorithm, for example a server in operation. It keeps the
                          algorithm, and the emulation is refused, because its runs would change the parameters there

A separate process (unloader.py) holds the lock and the folder of pins. It unloads the algorithms when this process
closes them, and also when this process ends or is killed.

Limits: if the unloader itself is killed, the algorithms stay registered until the machine restarts, or until
`bpftool struct_ops unregister` removes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from emulation.errors import EmulationError
from emulation.mahimahi import unloader
from emulation.mahimahi.process import BARE_PYTHON
from emulation.mahimahi.translate import Files
from kmod import bpf_host
from kmod.abi import ALGORITHMS
from kmod.bpf_host import BPF_CCAS, BpfHost
from kmod.locks import open_lock

# The kernel's own algorithms have these names in a scenario.
KERNELS_OWN = ("reno", "cubic", "bbr")
CCAS = tuple(cca for cca in BPF_CCAS if cca not in KERNELS_OWN)
WAIT_S = 600.0
# In a folder that only root can write to. A container with a folder of its own has another file, and is refused because
# the name is taken.
LOCK = Path("/run/ccatune-bpf.lock")
_LOOK_S = 0.2
_END_S = 60.0
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_MODULES = Path("/proc/net/ccatune")


class NameTakenError(EmulationError):
    """Another program has registered an algorithm, for example a server in operation."""


def available_ccas() -> dict[str, bool]:
    """Return the congestion controls that the kernel offers now, and whether each is a module of ccatune."""
    names = _AVAILABLE.read_text(encoding="ascii").split()
    folders = {algorithm.kernel_name: cca for cca, algorithm in ALGORITHMS.items() if algorithm.module}
    return {name: name in folders and (_MODULES / folders[name]).is_dir() for name in names}


def lacking() -> str:
    """Return why this process cannot load algorithms in BPF, as the end of a sentence; "" if it can."""
    if reason := bpf_host.lacking():
        return f"BPF would add it, but {reason}"
    if bpf_host.find_program() is None:
        return "`make bpf` adds it in BPF"
    return ""


def version_here(cca: str) -> str:
    """Return the version of an algorithm's module here, else a digest of it in BPF; "" if there is neither."""
    if available_ccas().get(BPF_CCAS[cca]):
        path = Path(f"/sys/module/{ALGORITHMS[cca].module}/srcversion")
        return f"module {path.read_text(encoding='ascii').strip()}" if path.exists() else "module"
    program = bpf_host.find_program()
    if program is None:
        return ""
    # A program that `make bpf` has built contains the objects that lie beside it. It changes more often than they do.
    files = sorted(program.parent.glob(f"{cca}-*.bpf.o")) or [program]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def can_share(files: Mapping[str, Files], others: Mapping[str, Files]) -> bool:
    """Whether two runs can run at the same time. files, others: the files of each algorithm that they use in BPF."""
    return all(files[cca] == others[cca] for cca in files.keys() & others.keys())


class InBpf:
    """The algorithms that are loaded in BPF during a context.

    wait_s: how long to wait for another emulation that uses BPF; None: WAIT_S.
    pins: the folder of pins during the context (`ccatune-bpf --pins`); None outside of it, or without algorithms.

    Raises EmulationError at its beginning if they cannot be loaded (NameTakenError if another program has registered
    one), and at its end if one cannot be unloaded.
    """

    def __init__(self, ccas: Collection[str], *, wait_s: float | None = None) -> None:
        self._ccas = sorted(ccas)
        self._wait_s = WAIT_S if wait_s is None else wait_s
        self._in_force: dict[str, Files] = {}
        self._unloader: subprocess.Popen[bytes] | None = None
        self._host = BpfHost()
        self.pins: Path | None = None

    def __enter__(self) -> Self:
        if not self._ccas:
            return self
        program = bpf_host.find_program()
        if program is None:
            raise EmulationError(f"mahimahi: expected {bpf_host.PROGRAM}, found none; run `make bpf`")
        with _locked(self._ccas, wait_s=self._wait_s) as lock:
            _check_names_are_free(self._ccas)
            self._unloader = _start_unloader(program, lock)
        # The unloader's file system, seen from this process's mount namespace.
        self.pins = Path(f"/proc/{self._unloader.pid}/root{unloader.PINS}")
        self._host = BpfHost(program, pins=self.pins)
        try:
            for cca in self._ccas:
                self._host.load(cca)
                self._in_force[cca] = ()
        except OSError as error:
            self._close()
            raise EmulationError(
                f"mahimahi: expected the algorithm in BPF loaded, but {error.strerror}; use the runner vm"
            ) from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def put_in_force(self, files: Mapping[str, Files]) -> None:
        """Make these parameters and ensembles apply to all flows of each algorithm. No run may use others now.

        Raises EmulationError if the algorithm refuses a file. The message names it.
        """
        for cca, wanted in files.items():
            if self._in_force.get(cca) == wanted:
                continue
            # Unknown from here on, also if a file is refused. The next run then writes all files.
            self._in_force.pop(cca, None)
            # The defaults come first, because the files replace only the values that they name.
            defaults = (("settings", "default_class 0\n"), ("parameters", "clear\n"), ("ensemble", "clear\n"))
            for name, text in (*defaults, *wanted):
                try:
                    self._host.write(cca, name, text)
                except OSError as error:
                    raise EmulationError(f"expected {cca} to take its {name}, got {error.strerror}") from error
            self._in_force[cca] = wanted

    def _close(self) -> None:
        """Let the unloader unload the algorithms, and wait for its end."""
        started, self._unloader = self._unloader, None
        self.pins = None
        if started is None:
            return
        assert started.stdin is not None  # noqa: S101 (a pipe, for the type checker)
        assert started.stdout is not None  # noqa: S101 (as above)
        started.stdin.close()
        started.stdout.close()
        try:
            status = started.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            status = -1
        if status:
            raise EmulationError(
                f"mahimahi: expected {', '.join(self._ccas)} unloaded from BPF, got status {status} of the program "
                "that does so; `bpftool struct_ops list` shows what is left"
            )


@contextmanager
def _locked(ccas: Sequence[str], *, wait_s: float) -> Iterator[int]:
    """Yield the descriptor of the lock. Other processes that inherit it hold the lock, too, until all have closed it.

    Raises EmulationError if another emulation holds it for longer than wait_s, or it is no file of root.
    """
    try:
        lock = open_lock(LOCK)
    except OSError as error:
        raise EmulationError(f"mahimahi: expected a lock file {LOCK} of root alone, got {error.strerror}") from error
    try:
        end_s = time.monotonic() + wait_s
        while not _takes(lock):
            if time.monotonic() > end_s:
                raise EmulationError(
                    f"mahimahi: expected {', '.join(ccas)} in BPF free within {wait_s:g} s, but another emulation on "
                    "this machine uses BPF; run this one after it"
                )
            time.sleep(_LOOK_S)
        yield lock
    finally:
        os.close(lock)


def _takes(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_names_are_free(ccas: Sequence[str]) -> None:
    """Raise NameTakenError if another program has registered one of these algorithms."""
    available = available_ccas()
    if taken := [cca for cca in ccas if BPF_CCAS[cca] in available]:
        cca = taken[0]
        raise NameTakenError(
            f"mahimahi: expected the kernel without {BPF_CCAS[cca]}, but another program has registered it, and its "
            f"parameters apply to every network namespace; run `ccatune-bpf unload {cca}`, or use the runner vm"
        )


def _start_unloader(program: Path, lock: int) -> subprocess.Popen[bytes]:
    """Start the unloader with the lock, and wait until its file system is mounted."""
    with tempfile.TemporaryFile() as complaints:
        started = subprocess.Popen(
            ["unshare", "--mount", "--", *BARE_PYTHON, unloader.__file__, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            # In its own session it does not receive Ctrl-C.
            start_new_session=True,
            pass_fds=(lock,),
        )
        assert started.stdout is not None  # noqa: S101 (a pipe, for the type checker)
        if started.stdout.readline() == b"ready\n":
            return started
        started.communicate()
        complaints.seek(0)
        said = complaints.read().decode(errors="replace").strip()
    raise EmulationError(f"mahimahi: expected a BPF file system, none can be mounted: {said}; use the runner vm")

# SPDX-License-Identifier: MIT
"""Names of congestion controls belong to the whole kernel: one test at a time has those of BPF, on this machine."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulation.mahimahi import in_bpf
from kmod.bpf_host import BpfHost
from kmod.locks import locked

# Whichever clone of the repository a test belongs to.
LOCK = Path("/sys/kernel/btf")


@contextmanager
def sole_user() -> Iterator[None]:
    """Wait until no other test uses BPF's names."""
    folder = os.open(LOCK, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


@contextmanager
def no_emulation() -> Iterator[None]:
    """Wait until no emulation uses BPF's names. Emulations then wait for the body."""
    with locked(in_bpf.LOCK):
        yield


@contextmanager
def sole_host(program: Path, bpffs: Path) -> Iterator[BpfHost]:
    """A host with nothing loaded, below a BPF file system of its own; whatever is left there is unloaded."""
    with sole_user(), no_emulation(), mounted_host(program, bpffs) as host:
        yield host


@contextmanager
def mounted_host(program: Path, bpffs: Path) -> Iterator[BpfHost]:
    """The same for who has BPF's names already."""
    bpffs.mkdir()
    subprocess.run(["mount", "-t", "bpf", "-o", "mode=0700", "bpf", str(bpffs)], check=True)
    host = BpfHost(program, pins=bpffs / "ccatune")
    try:
        yield host
    finally:
        for cca in host.loaded():
            host.unload(cca)
        subprocess.run(["umount", str(bpffs)], check=True)


def built_program() -> Path:
    """ccatune-bpf, built where it is not up to date."""
    repository = Path(__file__).resolve().parents[2]
    subprocess.run(["make", "-s", "bpf"], cwd=repository, check=True)
    return repository / "build" / "bpf" / "ccatune-bpf"

# SPDX-License-Identifier: MIT
"""The tier bpf: ccatune-bpf on this machine's own kernel, below a BPF file system that the tests mount and unmount."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmod.bpf_host import BpfHost
from tests.bpf.sole import sole_user
from tests.contract.replaying import compile_replayer
from tests.contract.toolchain import SANITIZED_C

REPOSITORY = Path(__file__).resolve().parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here is of the tier."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("bpf")


@pytest.fixture(scope="session")
def program() -> Path:
    """ccatune-bpf, built."""
    subprocess.run(["make", "-s", "bpf"], cwd=REPOSITORY, check=True)
    return REPOSITORY / "build" / "bpf" / "ccatune-bpf"


@pytest.fixture(scope="session")
def replayer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What gives the core a recording again."""
    return compile_replayer(tmp_path_factory.mktemp("replayer"), build=SANITIZED_C)


@pytest.fixture
def host(program: Path, tmp_path: Path) -> Iterator[BpfHost]:
    """A host with nothing loaded; whatever a test leaves is unloaded. No other test has BPF's names meanwhile."""
    bpffs = tmp_path / "bpffs"
    bpffs.mkdir()
    with sole_user():
        subprocess.run(["mount", "-t", "bpf", "bpf", str(bpffs)], check=True)
        found = BpfHost(program, pins=bpffs / "ccatune")
        try:
            yield found
        finally:
            for cca in found.loaded():
                found.unload(cca)
            subprocess.run(["umount", str(bpffs)], check=True)


def kernel_objects() -> set[tuple[str, int]]:
    """The BPF programs and maps that the kernel has: kind and number."""
    found = set()
    for kind in ("prog", "map"):
        done = subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, text=True, check=True)
        found |= {(kind, int(one["id"])) for one in json.loads(done.stdout)}
    return found

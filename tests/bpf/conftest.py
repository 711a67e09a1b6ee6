# SPDX-License-Identifier: MIT
"""The tier bpf: ccatune-bpf on this machine's own kernel, below a BPF file system that the tests mount and unmount."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmod.bpf_host import BpfHost
from tests.bpf.sole import built_program, sole_host


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here is of the tier."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("bpf")


@pytest.fixture(scope="session")
def program() -> Path:
    """ccatune-bpf, built."""
    return built_program()


@pytest.fixture
def host(program: Path, tmp_path: Path) -> Iterator[BpfHost]:
    """A host with nothing loaded; no other test has BPF's names meanwhile."""
    with sole_host(program, tmp_path / "bpffs") as found:
        yield found


def kernel_objects() -> set[tuple[str, int]]:
    """The BPF programs and maps that the kernel has: kind and number."""
    found = set()
    for kind in ("prog", "map"):
        done = subprocess.run(["bpftool", "-j", kind, "list"], capture_output=True, text=True, check=True)
        found |= {(kind, int(one["id"])) for one in json.loads(done.stdout)}
    return found

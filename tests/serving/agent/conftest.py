# SPDX-License-Identifier: MIT
"""The real ccatune-bpf, for the tests of the tier bpf."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmod.bpf_host import BpfHost
from tests.bpf.sole import sole_user
from tests.conftest import REPOSITORY


@pytest.fixture
def host(tmp_path: Path) -> Iterator[BpfHost]:
    """A host with nothing loaded, below a BPF file system of its own. No other test has BPF's names meanwhile."""
    subprocess.run(["make", "-s", "bpf"], cwd=REPOSITORY, check=True)
    bpffs = tmp_path / "bpffs"
    bpffs.mkdir()
    with sole_user():
        subprocess.run(["mount", "-t", "bpf", "bpf", str(bpffs)], check=True)
        found = BpfHost(REPOSITORY / "build" / "bpf" / "ccatune-bpf", pins=bpffs / "ccatune")
        try:
            yield found
        finally:
            for cca in found.loaded():
                found.unload(cca)
            subprocess.run(["umount", str(bpffs)], check=True)

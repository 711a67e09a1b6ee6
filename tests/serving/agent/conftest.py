# SPDX-License-Identifier: MIT
"""The real ccatune-bpf, for the tests of the tier bpf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kmod.bpf_host import BpfHost
from tests.bpf.sole import built_program, sole_host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[BpfHost]:
    """A host with nothing loaded; no other test has BPF's names meanwhile."""
    with sole_host(built_program(), tmp_path / "bpffs") as found:
        yield found

# SPDX-License-Identifier: MIT
"""A registry and a server that are fakes, and the real ccatune-bpf, for the tests of the tier bpf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kmod.bpf_host import BpfHost
from serving.agent.state import State
from serving.agent.store import Store
from serving.agent.switch import Switch
from tests.bpf.sole import built_program, sole_host
from tests.serving.agent.fakes import FakeRegistry, Server, fake_registry, table
from tests.serving.agent.machine import Machine


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A fake of the registry, which has no deployment yet."""
    with fake_registry() as fake:
        yield fake


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server whose agent has started, and knows no table."""
    store = Store(tmp_path / "state")
    with store.acquire():
        yield Server(store.root)


@pytest.fixture
def in_sync(server: Server) -> Server:
    """A server whose kernel holds the offered table 1. No root document is pinned, so its state is Unsigned."""
    server.offer(table(1))
    assert server.state is State.UNSIGNED
    return server


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine on which algorithms can be enabled."""
    return Machine(tmp_path / "proc")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the switch remembers."""
    return tmp_path / "state" / "enabled.json"


@pytest.fixture
def switch(machine: Machine, file: Path) -> Switch:
    """The machine's switch."""
    return machine.switch(file)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[BpfHost]:
    """A host with nothing loaded; no other test has BPF's names meanwhile."""
    with sole_host(built_program(), tmp_path / "bpffs") as found:
        yield found

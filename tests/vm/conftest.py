# SPDX-License-Identifier: MIT
"""One boot of each kernel line for all tests of modules and of BPF, with the programs of the tests that were chosen."""

from __future__ import annotations

import pytest

from tests.vm.boot import Found
from tests.vm.lines import LONG
from tests.vm.programs import BPF, bpf_lacks, build_bpf, names_of_modules, run_on


@pytest.fixture(scope="session")
def found_on() -> dict[str, Found]:
    """What was found, by line: each is booted once, in whatever order its tests come."""
    return {}


@pytest.fixture(scope="session")
def bpf_problem() -> str:
    """Builds ccatune-bpf once. Why it cannot run in the guest; "" if it can."""
    return bpf_lacks() or build_bpf()


@pytest.fixture
def found(
    request: pytest.FixtureRequest, found_on: dict[str, Found], tmp_path_factory: pytest.TempPathFactory
) -> Found:
    """What each program found on this line; the folder shared with the guest is kept for the replay."""
    line = request.param
    if line not in found_on:
        names = names_of(line, request)
        found_on[line] = run_on(line, names, folder=tmp_path_factory.mktemp(f"guest-{line}"))
    return found_on[line]


def names_of(line: str, request: pytest.FixtureRequest) -> list[str]:
    """The programs whose tests are in this session. That of BPF is the first: no socket of another one is left then."""
    items = request.session.items
    files = {item.path.name for item in items}
    ccas = {item.callspec.params["subject"] for item in items if "subject" in getattr(item, "fixturenames", ())}
    names = names_of_modules(line, files=files, ccas=ccas)
    if LONG and "test_bpf.py" in files and not request.getfixturevalue("bpf_problem"):
        names.insert(0, BPF)
    return names

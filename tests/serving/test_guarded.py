# SPDX-License-Identifier: MIT
"""A registry with accounts and signatures, fuzzed and killed; `make prove` does both at length"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.service

KILLS = 4
REQUESTS = 300


def run(repository, module, *options):
    """Run a campaign; returns what it found."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.prove.{module}", *options],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("options", [(), ("--postgresql",)], ids=["sqlite", "postgresql"])
def test_requests_made_from_the_api_s_description_have_no_undocumented_answer(repository, options):
    found = run(repository, "fuzz_api", "--requests", str(REQUESTS), *options)
    assert found["failures"] == []
    assert found["requests"] >= REQUESTS
    assert found["accepted_by_operation"]["POST /v1/ensembles"] > 0


def test_kills_of_registry_and_agents_lose_nothing_and_let_nothing_unsigned_in(repository):
    found = run(repository, "kill_service", "--kills", str(KILLS), "--seed", "3")
    assert found["failures"] == []
    assert found["kills_of_registry"] + found["kills_of_agents"] == KILLS
    assert found["kills_before_ready"] > 0
    assert found["kills_of_agents"] == KILLS // 2
    assert found["moves"] > 0

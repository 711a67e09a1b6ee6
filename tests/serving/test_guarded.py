# SPDX-License-Identifier: MIT
"""A registry with accounts and signatures, fuzzed; `make prove` does it at length, and kills it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.service

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


def test_requests_made_from_the_api_s_description_have_no_undocumented_answer(repository):
    found = run(repository, "fuzz_api", "--requests", str(REQUESTS))
    assert found["failures"] == []
    assert found["requests"] >= REQUESTS
    assert found["accepted_by_operation"]["POST /v1/ensembles"] > 0

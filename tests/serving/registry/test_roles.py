# SPDX-License-Identifier: MIT
"""Processes with a part of a registry's work"""

from __future__ import annotations

import threading

import httpx
import pytest

from tests.serving.conftest import STUDIES
from tests.serving.running import Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]

LEASE_S = 2.0


def test_an_api_process_leaves_lost_leases_to_the_controller_which_answers_healthz_alone(api):
    settings = {"studies": STUDIES, "datasets": ["made"], "job_lease_s": LEASE_S}
    pause = threading.Event()
    with Running(api.database, role="api", **settings) as answering:
        jobs = f"{answering.url}/v1/jobs"
        job = httpx.post(jobs, json={"study": "gr-demo", "datasets": ["made"]}).json()["id"]
        runner = {"runner": "trainer-1", "lease": "a" * 16, "datasets": ["made"]}
        assert httpx.post(f"{jobs}/leases", json=runner).json()["id"] == job
        pause.wait(1.5 * LEASE_S)
        assert httpx.get(f"{jobs}/{job}").json()["state"] == "running"
        with Running(api.database, role="controller", **settings) as working:
            assert httpx.get(f"{working.url}/healthz").json()["status"] == "ok"
            assert {httpx.get(f"{working.url}{path}").status_code for path in ("/", "/v1/jobs", "/v1/docs")} == {404}
            states = (pause.wait(0.1) or httpx.get(f"{jobs}/{job}").json()["state"] for _ in range(50))
            assert "queued" in states

# SPDX-License-Identifier: MIT
"""`ccatune jobs submit|list|show|logs|cancel`, against a registry behind a socket"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from serving.jobs.client import JobsClient
from tests.serving.api import make_ensemble
from tests.serving.conftest import STUDIES
from tests.serving.jobs.test_endpoints import PROGRESS
from tests.serving.running import Running

pytestmark = [pytest.mark.service, pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)]

LEASE = "a" * 16


@pytest.fixture
def client(api, monkeypatch) -> Iterator[JobsClient]:
    """A client of an open registry, which the commands find by the environment."""
    with Running(api.database, studies=STUDIES, datasets=["made"]) as registry, JobsClient(registry.url) as found:
        monkeypatch.setenv("CCATUNE_REGISTRY_URL", registry.url)
        yield found


def lease(client: JobsClient) -> None:
    client.lease(runner="trainer-1", lease=LEASE, datasets=["made"])


def test_a_job_is_submitted_watched_and_shown(client, run_command):
    words = ("submit", "gr-demo", "--dataset", "made", "--seed", 7)
    assert run_command("jobs", *words) == (0, "job 1: queued\n", "")
    lease(client)
    client.beat(1, lease=LEASE, timeout_s=5, progress=PROGRESS, log="begun\n")
    _, text, _ = run_command("jobs", "list", "--state", "running")
    assert text.splitlines()[1].split() == [
        "1", "gr-demo", "running", "open", *text.splitlines()[1].split()[4:6],
        "50", "%,", "12", "s", "left,", "searching:", "single,", "2", "of", "3", "points", "meet",
    ]  # fmt: skip
    status, text, _ = run_command("jobs", "show", 1)
    facts = {line.split("  ")[0].strip(): line.split("  ")[-1].strip() for line in text.splitlines()}
    assert (status, facts["seed"], facts["state"], facts["best"]) == (0, "7", "running", "single: utilization 0.8")
    client.end(1, lease=LEASE, outcome="done", ensemble=make_ensemble())
    status, text, _ = run_command("jobs", "show", 1, "--watch")
    assert (status, text.splitlines()[0], text.split()[-1]) == (0, "done", make_ensemble().digest)
    status, text, _ = run_command("jobs", "show", 1, "--watch", "--json")
    assert (status, json.loads(text)["digest"]) == (0, make_ensemble().digest)
    assert run_command("jobs", "logs", 1)[1] == "== attempt 1 by trainer-1: done\nbegun\n"


def test_a_failed_job_is_shown_with_the_end_of_its_log(client, run_command):
    run_command("jobs", "submit", "gr-demo", "--dataset", "made")
    lease(client)
    client.end(1, lease=LEASE, outcome="failed", error="no traces", log="begun\nccatune: no traces\n")
    status, text, _ = run_command("jobs", "show", 1, "--watch")
    assert status == 1
    assert text.endswith("the end of its log:\nbegun\nccatune: no traces\n")


def test_a_job_is_cancelled_once_and_what_is_unknown_is_named(client, run_command):
    run_command("jobs", "submit", "gr-demo", "--dataset", "made")
    assert run_command("jobs", "cancel", 1)[:2] == (0, "job 1: cancelled\n")
    assert client.job(1)["state"] == "cancelled"
    status, _, error = run_command("jobs", "show", 2)
    assert (status, "404 expected the id of a job, got 2" in error) == (2, True)
    status, _, error = run_command("jobs", "submit", "gr-demo", "--dataset", "secret")
    assert (status, "expected some of made, got secret" in error) == (2, True)
    status, _, error = run_command("jobs", "run", "--dataset", "made=/nowhere")
    assert (status, "expected NAME=FOLDER with a folder that exists, got 'made=/nowhere'" in error) == (2, True)

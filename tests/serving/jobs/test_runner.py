# SPDX-License-Identifier: MIT
"""A runner with real training processes, against a registry behind a socket"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kmod.ensemble import Ensemble
from serving.client import RegistryClient
from serving.database import Database, migrate
from serving.jobs.client import JobsClient
from serving.jobs.runner import Lease, Runner
from serving.jobs.work import JobFolder, TrainingOptions
from serving.rollouts.shadow import Shadow
from tests.prove.kill_trainer import STUDY, make_site
from tests.serving.api import make_ensemble
from tests.serving.running import Running

pytestmark = pytest.mark.service

WAIT_S = 120
# A busy machine must not let a lease run out: a heartbeat is due every sixth of it.
LEASE_S = 12
LONG = STUDY.replace("steps: 6,", "steps: 2000,")


class Training:
    """A registry with two studies, and runners in threads of this process."""

    def __init__(self, folder: Path, registry: Running) -> None:
        self.folder, self.registry = folder, registry
        self.client = JobsClient(registry.url)
        self._started: list[tuple[Runner, JobsClient, threading.Thread]] = []
        self.said: list[str] = []

    def start(self, *, name: str = "trainer-1") -> None:
        """Start a runner."""
        client = JobsClient(self.registry.url)
        runner = Runner(
            client,
            name=name,
            work=self.folder / "work",
            options=TrainingOptions(
                datasets={"made": self.folder / "made-train", "unseen": self.folder / "made-validation"}, threads=1
            ),
            poll_s=0.1,
            say=self.said.append,
        )
        thread = threading.Thread(target=runner.run, kwargs={"once": False})
        self._started.append((runner, client, thread))
        thread.start()

    def stop(self) -> None:
        """Stop the runners that run."""
        for runner, _, _ in self._started:
            runner.stop.set()
        for _, client, thread in self._started:
            thread.join()
            client.close()
        self._started.clear()

    def wait(self, job: int, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Wait until the job is so, and return it."""
        deadline_s = time.monotonic() + WAIT_S
        while not holds(found := self.client.job(job)):
            assert time.monotonic() < deadline_s, (found, self.said)
            time.sleep(0.05)
        return found


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    """A registry with a short and a long study on made traces."""
    make_site(tmp_path, seed=1)
    (tmp_path / "studies").mkdir()
    (tmp_path / "study.yaml").rename(tmp_path / "studies" / "short.yaml")
    (tmp_path / "studies" / "long.yaml").write_text(LONG, encoding="utf-8")
    database = Database(f"sqlite:///{tmp_path}/registry.db")
    migrate(database)
    with Running(
        database, studies=tmp_path / "studies", datasets=["made", "unseen", "far"], job_lease_s=LEASE_S
    ) as registry:
        found = Training(tmp_path, registry)
        yield found
        found.stop()
        found.client.close()
    database.close()


def is_ended(job: dict[str, Any]) -> bool:
    return job["ended_at"] is not None


def submit_compared(training, study: str, baseline: Ensemble, *, paths: str) -> int:
    """Submit a job that is compared with a baseline, which is published before."""
    with RegistryClient(training.registry.url) as client:
        client.publish(baseline)
    compare = {"baseline": baseline.digest, "datasets": ["unseen"], "paths": paths}
    return training.client.submit(study, datasets=["made"], compare=compare)["id"]


def test_a_job_that_was_stopped_goes_on_elsewhere_and_has_the_ensemble_of_ccatune_train(training, run_command):
    folder = training.folder
    words = ["train", "gr", "--study", folder / "studies" / "short.yaml", "--traces", folder / "made-train"]
    status, out, _ = run_command(*words, "--out", folder / "own.json", "--json", "--threads", "1")
    assert status == 0
    (folder / "made-validation").mkdir()
    shutil.copy(folder / "made-train" / "a.down", folder / "made-validation")
    baseline = make_ensemble(0)
    job = submit_compared(training, "short", baseline, paths="cellular")
    training.start()
    training.wait(job, lambda _: any(folder.glob("work/lab/*/gr.json.parts/*/*.json")))
    training.stop()
    stopped = training.client.job(job)
    assert (stopped["state"], stopped["losses"]) == ("queued", 0)
    training.start(name="trainer-2")
    ended = training.wait(job, is_ended)
    assert (ended["state"], ended["digest"]) == ("done", json.loads(out)["digest"]), training.said
    baseline.save(folder / "baseline.json")
    words = ["evaluate", folder / "own.json", "--baseline", folder / "baseline.json", "--paths", "cellular", "--json"]
    progress = folder / "compared.json"
    status, out, _ = run_command(*words, "--traces", folder / "made-validation", "--progress-file", progress)
    assert Shadow.model_validate(ended["shadow"]) == Shadow.model_validate_json(out)
    assert json.loads(progress.read_bytes())["phase"] == "comparing with the baseline"
    with RegistryClient(training.registry.url) as client:
        assert client.ensemble(ended["digest"]).cca == "gr"
    first, second = training.client.logs(job)
    assert [(one["runner"], one["outcome"]) for one in (first, second)] == [
        ("trainer-1", "interrupted"), ("trainer-2", "done"),
    ]  # fmt: skip
    assert '"resumed_parts": 0' not in second["log"]
    training.stop()
    assert list(folder.glob("work/lab/*")) == []


def test_a_cancelled_job_stops_training_with_the_next_heartbeat(training):
    job = training.client.submit("long", datasets=["made"])["id"]
    training.start()
    running = training.wait(job, lambda found: found["progress"] and found["progress"]["left_s"] is not None)
    assert running["state"] == "running"
    assert 0 <= running["progress"]["share"] < 1
    assert running["progress"]["phase"].startswith("searching")
    assert training.client.cancel(job)["is_cancelling"]
    ended = training.wait(job, is_ended)
    assert (ended["state"], ended["digest"]) == ("cancelled", None)
    training.stop()
    assert "searching: single" in training.client.logs(job)[0]["log"]
    assert list(training.folder.glob("work/lab/*")) == []


def test_a_study_that_training_refuses_fails_with_the_message_of_training(training):
    spoilt = STUDY.replace("cca: gr", "cca: gr\ndatasets: [elsewhere]")
    (training.folder / "studies" / "spoilt.yaml").write_text(spoilt, encoding="utf-8")
    job = training.client.submit("spoilt", datasets=["made"])["id"]
    training.start()
    ended = training.wait(job, is_ended)
    assert ended["state"] == "failed"
    assert "expected recordings of elsewhere, got made-train" in ended["error"]
    assert "ccatune: study: expected recordings of elsewhere" in training.client.logs(job)[0]["log"]


def test_a_path_model_that_the_runner_lacks_fails_the_job_before_its_training(training):
    job = submit_compared(training, "long", make_ensemble(0), paths="celular")
    training.start()
    ended = training.wait(job, is_ended)
    assert (ended["state"], ended["progress"]) == ("failed", None)
    training.stop()
    assert f"job {job}: failed: {ended['error']}; its log: `ccatune jobs logs {job}`" in training.said
    assert "a name in configs/paths (cellular, satellite, wifi, wired), got" in ended["error"]


def test_a_job_on_a_dataset_of_another_machine_is_left_to_it(training):
    job = training.client.submit("short", datasets=["far"])["id"]
    training.start()
    training.wait(training.client.submit("short", datasets=["made"])["id"], is_ended)
    assert training.client.job(job)["state"] == "queued"


def test_a_runner_without_a_registry_ends_its_training_before_the_lease_does(training, monkeypatch):
    job = training.client.submit("long", datasets=["made"])["id"]
    silent = threading.Event()
    beat = JobsClient.beat

    def cut(self: JobsClient, *arguments: Any, **options: Any) -> Any:
        if silent.is_set():
            raise_unreachable()
        return beat(self, *arguments, **options)

    monkeypatch.setattr(JobsClient, "beat", cut)
    training.start()
    training.wait(job, lambda found: found["progress"])
    until = training.client.job(job)["lease_until"]
    silent.set()
    training.wait(job, lambda _: any("left to another runner" in line for line in training.said))
    found = training.client.job(job)
    assert (found["state"], found["attempt"]) == ("running", 1), "the lease has not ended"
    assert found["lease_until"] >= until
    silent.clear()
    again = training.wait(job, lambda found: found["attempt"] == 2 and found["progress"])
    assert again["losses"] == 1
    training.client.cancel(job)
    training.wait(job, is_ended)


def raise_unreachable() -> None:
    from serving.errors import RegistryClientError

    raise RegistryClientError("expected an answer, got none")


def test_a_runner_that_cannot_write_its_folder_says_so_and_goes_on(training):
    (training.folder / "work").mkdir()
    (training.folder / "work" / "lab").write_text("in the way")
    job = training.client.submit("short", datasets=["made"])["id"]
    training.start()
    ended = training.wait(job, is_ended)
    assert (ended["state"], ended["losses"]) == ("failed", 5)
    assert "work/lab" in ended["error"]
    (training.folder / "work" / "lab").unlink()
    assert training.wait(training.client.submit("short", datasets=["made"])["id"], is_ended)["state"] == "done"


def test_a_heartbeat_whose_progress_is_refused_still_renews_the_lease(training):
    training.client.submit("short", datasets=["made"])
    word = "w" * 16
    job = training.client.lease(runner="trainer-1", lease=word, datasets=["made"])
    lease = Lease(training.client, job, word, leased_s=time.monotonic() - LEASE_S / 2)
    folder = JobFolder(training.folder / "work", job)
    until_s = lease.until_s
    lease.beat(folder, {"phase": "p" * 1000}, training.said.append)
    assert lease.until_s > until_s + LEASE_S / 4
    assert "progress and log were refused" in training.said[0]

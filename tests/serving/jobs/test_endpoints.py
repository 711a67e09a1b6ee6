# SPDX-License-Identifier: MIT
"""Jobs over the API: their states, leases, limits and end"""

from __future__ import annotations

import asyncio

import pytest

from kmod.yaml12 import load_yaml
from serving.jobs.studies import needs_recordings
from serving.jobs.upkeep import JobUpkeep
from tests.serving.api import Api, make_ensemble
from tests.serving.conftest import STUDIES
from tests.serving.retraining.loop import comparison
from training.study.settings import StudySettings, load_study

pytestmark = pytest.mark.service

JOBS = "/v1/jobs"
JOB = {"study": "gr-demo", "datasets": ["made"]}
PROGRESS = {
    "phase": "searching: single", "share": 0.5, "left_s": 12.5, "searches": 1, "points": 3, "points_meeting": 2,
    "best_of": "single", "best": [{"meets": True, "metrics": {"utilization": 0.8}}],
}  # fmt: skip


@pytest.fixture
def trainer(api) -> Api:
    """The application, called by a principal who may submit and read jobs."""
    return api.limited("train", "read", principal="alice")


@pytest.fixture
def runner(api) -> Api:
    """The application, called by a runner."""
    return api.limited("run-jobs", principal="trainer-1")


def submit(api: Api, **changes: object) -> int:
    """Submit a job; returns its id."""
    answer = api.request("POST", JOBS, json={**JOB, **changes})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"] == f"jobs/{answer.json()['id']}"
    return int(answer.json()["id"])


def lease(api: Api, word: str, *, datasets: tuple[str, ...] = ("made",), **further: object):
    """Ask for a job with a lease of this letter."""
    body = {"runner": "trainer-1", "lease": word * 16, "datasets": datasets, **further}
    return api.request("POST", f"{JOBS}/leases", json=body)


def report(api: Api, job: int, kind: str, word: str, **said: object):
    """Send a heartbeat or the end of an attempt."""
    return api.request("POST", f"{JOBS}/{job}/{kind}", json={"lease": word * 16, **said})


def done(api: Api, job: int, word: str, number: int = 0):
    """Hand in an ensemble."""
    return report(api, job, "end", word, outcome="done", ensemble=make_ensemble(number).to_json())


def show(api: Api, job: int) -> dict:
    """A job as the API shows it."""
    return dict(api.get(f"{JOBS}/{job}").json())


def actions(api: Api, job: int) -> list[tuple[str, str]]:
    """Who did what to the job, by the audit log, oldest first."""
    rows = api.get("/v1/audit", params={"target": f"job {job}"}).json()["items"]
    return [(row["actor"], row["action"]) for row in reversed(rows)]


def test_a_job_is_queued_leased_reported_on_and_ends_with_a_published_ensemble(api, trainer, runner, repository):
    job = submit(trainer, seed=7, note="links of May")
    assert show(trainer, job)["state"] == "queued"
    leased = lease(runner, "a").json()
    text = (repository / "configs/studies/gr-demo.yaml").read_text(encoding="utf-8")
    assert (leased["id"], leased["attempt"], leased["seed"], leased["study_text"]) == (job, 1, 7, text)
    assert lease(runner, "b").status_code == 204
    beaten = report(runner, job, "heartbeat", "a", progress=PROGRESS, log="begun\n")
    assert beaten.json() == {"is_cancelling": False, "lease_s": 60.0}
    shown = show(trainer, job)
    assert (shown["state"], shown["runner"], shown["progress"]) == ("running", "trainer-1", PROGRESS)
    ended = done(runner, job, "a").json()
    assert (ended["state"], ended["digest"]) == ("done", make_ensemble().digest)
    assert done(runner, job, "a").json() == ended, "a repeated end changes nothing"
    assert api.get(f"/v1/ensembles/{ended['digest']}").json() == make_ensemble().to_json()
    attempts = trainer.get(f"{JOBS}/{job}/logs").json()["attempts"]
    assert [(one["attempt"], one["outcome"], one["log"]) for one in attempts] == [(1, "done", "begun\n")]
    assert actions(api, job) == [("alice", "submit-job"), ("trainer-1", "finish-job")]
    assert api.get("/v1/channels").json()["items"] == []


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"study": "nope"}, 404, "study: expected one of bbr, bbr3"),
        ({"study": "../serving/local"}, 422, "body.study"),
        ({"datasets": ["secret"]}, 404, "datasets: expected some of made, got secret"),
        (
            {"datasets": []},
            422,
            "datasets: expected at least one, because study gr-demo trains on recordings, got none",
        ),
        ({"seed": 2**63}, 422, "body.seed"),
        ({"search": {"steps": 10**9}}, 422, "body.search"),
    ],
)
def test_only_what_the_settings_name_can_be_trained(trainer, problem, changes, status, words):
    document = problem(trainer.request("POST", JOBS, json={**JOB, **changes}), status=status)
    assert words in document["detail"]
    assert trainer.get(JOBS).json()["items"] == []


def test_the_registry_and_training_agree_on_which_studies_need_recordings():
    studies = {path: load_yaml(path, what="a study") for path in STUDIES.glob("*.yaml")}
    for path, study in studies.items():
        assert needs_recordings(study) == load_study(path).workload.needs_recordings, path
    limited = dict(studies[STUDIES / "rtcp-demo.yaml"])
    limited["workload"] = {"kind": "policed", "cases": {"limited": 2, "unlimited": 0}}
    assert not needs_recordings(limited)
    assert not StudySettings.model_validate(limited).workload.needs_recordings


def test_a_submission_that_is_sent_again_queues_one_job(trainer, problem):
    key = {"Idempotency-Key": "3f1c"}
    answers = trainer.at_once(4, "POST", JOBS, json=JOB, headers=key)
    assert {answer.json()["id"] for answer in answers} == {1}
    document = problem(trainer.request("POST", JOBS, json={**JOB, "seed": 1}, headers=key), status=422)
    assert "that of job 1" in document["detail"]


def test_a_principal_has_a_bounded_number_of_unfinished_jobs(api, trainer, runner, problem):
    answers = trainer.at_once(20, "POST", JOBS, json=JOB)
    assert sorted(answer.status_code for answer in answers) == [201] * 16 + [409] * 4
    document = problem(trainer.request("POST", JOBS, json=JOB), status=409)
    assert "expected fewer than 16 queued and running jobs of alice, got 16" in document["detail"]
    submit(api.limited("train", principal="bob"))
    assert done(runner, lease(runner, "a").json()["id"], "a").status_code == 200
    submit(trainer)


def test_runners_that_ask_at_once_get_different_jobs_and_one_that_repeats_gets_its_own(trainer, runner):
    ids = {submit(trainer) for _ in range(3)}
    first = lease(runner, "a").json()
    assert lease(runner, "a").json() == first
    assert {first["id"], *(lease(runner, word).json()["id"] for word in "bc")} == ids
    same = submit(trainer)
    answers = runner.at_once(5, "POST", f"{JOBS}/leases", json={"runner": "r", "lease": "d" * 16, "datasets": ["made"]})
    assert {answer.json()["id"] for answer in answers} == {same}


def test_a_runner_gets_only_jobs_on_its_datasets_and_algorithms(api, trainer, runner):
    job = submit(trainer)
    assert lease(runner, "a", datasets=("other",)).status_code == 204
    assert lease(api.limited("run-jobs", ccas=["reno"]), "b").status_code == 204
    assert lease(api.limited("run-jobs", ccas=["gr"]), "c", datasets=("other", "made")).json()["id"] == job


def test_a_job_whose_lease_ran_out_is_leased_anew_and_the_old_runner_is_refused(api, trainer, runner, problem):
    job = submit(trainer)
    lease(runner, "a")
    api.clock.advance(seconds=50)
    assert report(runner, job, "heartbeat", "a", progress=PROGRESS).status_code == 200
    api.clock.advance(seconds=59)
    assert lease(runner, "b").status_code == 204
    api.clock.advance(seconds=1)
    again = lease(runner.other_process(), "b").json()
    assert (again["id"], again["attempt"]) == (job, 2)
    for kind, said in (("heartbeat", {}), ("end", {"outcome": "failed", "error": "late"})):
        document = problem(report(runner, job, kind, "a", **said), status=409)
        assert document["type"] == "urn:ccatune:problem:lease-lost"
    problem(done(runner, job, "a"), status=409)
    shown = show(trainer, job)
    assert (shown["state"], shown["losses"], shown["progress"]) == ("running", 1, None)
    outcomes = [one["outcome"] for one in trainer.get(f"{JOBS}/{job}/logs").json()["attempts"]]
    assert outcomes == ["lost", None]


def test_a_job_that_loses_every_lease_fails_even_if_no_runner_asks_any_more(api, trainer, runner):
    job = submit(trainer)
    for word in "abcd":
        assert lease(runner, word).json()["id"] == job
        assert (
            report(runner, job, "end", word, outcome="lost", error="the cluster was lost").json()["state"] == "queued"
        )
    lease(runner, "e")
    api.clock.advance(seconds=60)
    asyncio.run(api.part(JobUpkeep).round())
    shown = show(trainer, job)
    assert (shown["state"], shown["attempt"], shown["losses"]) == ("failed", 5, 5)
    assert shown["error"] == (
        "its lease was lost 5 times, most recently: the lease of trainer-1 ran out: no heartbeat came"
    )
    assert actions(api, job)[-1] == ("registry", "fail-job")
    assert lease(runner, "f").status_code == 204


def test_a_runner_that_stops_queues_its_job_again_without_a_loss(trainer, runner):
    job = submit(trainer)
    for word in "abcdefg":
        assert lease(runner, word).json()["id"] == job
        assert report(runner, job, "end", word, outcome="interrupted").json()["losses"] == 0
    assert show(trainer, job)["attempt"] == 7


def test_a_job_that_training_refuses_fails_with_its_reason(api, trainer, runner):
    job = submit(trainer)
    lease(runner, "a")
    shown = report(runner, job, "end", "a", outcome="failed", error="no traces", log="ccatune: no traces\n").json()
    assert (shown["state"], shown["error"], shown["digest"]) == ("failed", "no traces", None)
    assert actions(api, job)[-1] == ("trainer-1", "fail-job")


def test_a_queued_job_is_cancelled_at_once_and_a_running_one_whatever_its_runner_says(api, trainer, runner, problem):
    queued, running = submit(trainer), submit(trainer)
    for job, state in ((queued, "cancelled"), (running, "running")):
        if job == running:
            lease(runner, "a")
        assert trainer.request("POST", f"{JOBS}/{job}/cancel").json()["state"] == state
        assert trainer.request("POST", f"{JOBS}/{job}/cancel").json()["state"] == state, "again"
    assert report(runner, running, "heartbeat", "a").json()["is_cancelling"]
    ended = done(runner, running, "a").json()
    assert (ended["state"], ended["digest"]) == ("cancelled", None)
    assert api.get("/v1/ensembles").json()["items"] == []
    assert actions(api, running) == [("alice", "submit-job"), ("alice", "cancel-job")]
    finished = submit(trainer)
    lease(runner, "b")
    done(runner, finished, "b")
    document = problem(trainer.request("POST", f"{JOBS}/{finished}/cancel"), status=409)
    assert document["type"] == "urn:ccatune:problem:job-ended"


def test_a_cancelled_job_whose_runner_is_gone_ends(api, trainer, runner):
    job = submit(trainer)
    lease(runner, "a")
    trainer.request("POST", f"{JOBS}/{job}/cancel")
    api.clock.advance(seconds=60)
    assert lease(runner, "b").status_code == 204
    assert show(trainer, job)["state"] == "cancelled"


def test_only_its_submitter_and_administrators_cancel_a_job(api, trainer, problem):
    job = submit(trainer)
    stranger = api.limited("train", principal="bob")
    document = problem(stranger.request("POST", f"{JOBS}/{job}/cancel"), status=403)
    assert "expected a job of bob, got one of alice" in document["detail"]
    assert api.request("POST", f"{JOBS}/{job}/cancel").json()["state"] == "cancelled"


def test_a_token_for_other_algorithms_neither_submits_nor_sees_jobs(api, trainer, problem):
    job = submit(trainer)
    other = api.limited("train", "read", principal="carol", ccas=["reno"])
    assert "train for the algorithm gr" in problem(other.request("POST", JOBS, json=JOB), status=403)["detail"]
    problem(other.get(f"{JOBS}/{job}"), status=403)
    problem(other.get(f"{JOBS}/{job}/logs"), status=403)
    assert other.get(JOBS).json()["items"] == []


def test_an_ensemble_that_is_invalid_or_of_another_algorithm_is_not_published(api, trainer, runner, problem):
    job = submit(trainer, study="sira")
    lease(runner, "a")
    assert "expected an ensemble of sira" in problem(done(runner, job, "a"), status=409)["detail"]
    problem(report(runner, job, "end", "a", outcome="done", ensemble={"cca": "sira"}), status=422)
    problem(report(runner, job, "end", "a", outcome="done"), status=422)
    assert show(trainer, job)["state"] == "running"
    assert api.get("/v1/ensembles").json()["items"] == []


def test_a_job_that_compares_goes_to_runners_that_can_and_ends_with_its_comparison(api, trainer, runner, problem):
    baseline = api.publish(1)
    compare = {"baseline": baseline, "datasets": ["made"], "paths": "cellular"}
    described = {"content": "0" * 64, "recordings": 1, "hours": 1, "mean_mbps": 1, "p5_mbps": 1, "p95_mbps": 1,
                 "variation": [], "rates_mbps": [], "runner": "trainer-1"}  # fmt: skip
    assert runner.request("PUT", "/v1/datasets/other", json=described).is_success
    job = submit(trainer, datasets=["other"], compare=compare)
    both = ("made", "other")
    assert lease(runner, "a", datasets=both).status_code == 204, "a runner of an earlier version"
    assert lease(runner, "a", datasets=("other",), compares=True).status_code == 204
    leased = lease(runner, "a", datasets=both, compares=True).json()
    assert leased["compare"] == {**compare, "document": make_ensemble(1).to_json()}
    problem(done(runner, job, "a"), status=409)
    own = {"outcome": "done", "ensemble": make_ensemble(0).to_json()}
    other = comparison(api.publish(2), baseline=baseline)
    document = problem(report(runner, job, "end", "a", **own, shadow=other), status=409)
    assert document["type"] == "urn:ccatune:problem:shadow-mismatch"
    problem(report(runner, job, "end", "a", **own, shadow={**other, "targets": []}), status=422)
    given = comparison(make_ensemble(0).digest, baseline=baseline)
    ended = report(runner, job, "end", "a", **own, shadow=given).json()
    assert (ended["state"], ended["shadow"], ended["compare"], ended["error"]) == ("done", given, compare, None)
    # Nothing is compared with itself, and a comparison that fails leaves the ensemble and the reason.
    for number, said in ((1, {}), (3, {"error": "no validation data"})):
        job = submit(trainer, compare=compare)
        lease(runner, "b", compares=True)
        body = {"outcome": "done", "ensemble": make_ensemble(number).to_json(), **said}
        ended = report(runner, job, "end", "b", **body).json()
        assert (ended["state"], ended["shadow"], ended["error"]) == ("done", None, said.get("error"))
    # A path model that nobody has is refused once every runner has said which ones it has.
    submit(trainer, compare={**compare, "paths": "celular"})
    assert lease(runner, "c", datasets=(), paths=["a b"]).status_code == 422
    lease(runner, "c", datasets=(), compares=True, paths=["cellular"])
    for changes, status in (
        ({"baseline": make_ensemble(8).digest}, 404), ({"datasets": ["far"]}, 404), ({"paths": "x.yaml"}, 422),
        ({"paths": "celular"}, 404),
    ):  # fmt: skip
        problem(trainer.request("POST", JOBS, json={**JOB, "compare": {**compare, **changes}}), status=status)


def test_ended_jobs_are_deleted_in_time_and_no_later_job_has_their_id(api, trainer, runner, problem):
    for word in "ab":
        submit(trainer)
        lease(runner, word)
    done(runner, 1, "a")
    api.clock.advance(seconds=29 * 86_400)
    done(runner, 2, "b", number=1)
    api.clock.advance(seconds=86_401)
    asyncio.run(api.part(JobUpkeep).round())
    assert [row["id"] for row in trainer.get(JOBS).json()["items"]] == [2]
    api.clock.advance(seconds=30 * 86_400)
    asyncio.run(api.part(JobUpkeep).round())
    for path in (f"{JOBS}/2", f"{JOBS}/2/logs"):
        assert problem(trainer.get(path), status=404)["type"] == "urn:ccatune:problem:job-not-found"
    assert submit(trainer) == 3
    assert [row["digest"] for row in api.get("/v1/ensembles").json()["items"]] == [
        make_ensemble(1).digest,
        make_ensemble(0).digest,
    ]


def test_the_list_shows_the_newest_first_by_state_and_study(trainer, runner):
    for study in ("gr-demo", "gr", "gr-demo"):
        submit(trainer, study=study)
    lease(runner, "a")
    ids = {
        name: [row["id"] for row in trainer.get(JOBS, params=params).json()["items"]]
        for name, params in (("all", {}), ("queued", {"state": "queued"}), ("demo", {"study": "gr-demo"}))
    }
    assert ids == {"all": [3, 2, 1], "queued": [3, 2], "demo": [3, 1]}

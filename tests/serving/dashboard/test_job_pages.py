# SPDX-License-Identifier: MIT
"""The pages of jobs and of datasets"""

from __future__ import annotations

from html import unescape

import pytest

from serving.dashboard.events import _standing
from serving.jobs.course import extended, points_of
from serving.jobs.schemas import JobProgress
from tests.serving.api import Api, make_ensemble
from tests.serving.dashboard.forms import hidden, opened, send

pytestmark = pytest.mark.service

HTML = "<img src=x onerror=alert(1)>"
JOBS = "/ui/jobs"
PROGRESS = {
    "phase": f"searching: {HTML}", "share": 0.41, "left_s": 90.0, "searches": 1, "points": 3, "points_meeting": 2,
    "best_of": HTML, "best": [{"meets": True, "metrics": {HTML: 0.8}}],
}  # fmt: skip
FACTS = {
    "runner": "trainer-1", "content": "0" * 64, "recordings": 4, "hours": 3.5, "mean_mbps": 17.7, "p5_mbps": 2.25,
    "p95_mbps": 38.5, "variation": [{"scale_ms": 1024, "deviation": 0.31}], "rates_mbps": [16.5, 18.9],
}  # fmt: skip


@pytest.fixture
def site(api) -> Api:
    """An open registry."""
    return opened(api)


def lease(site: Api, *datasets: str) -> dict:
    """Lease a job."""
    body = {"runner": "trainer-1", "lease": "a" * 16, "datasets": datasets, "compares": True}
    return dict(site.request("POST", "/v1/jobs/leases", json=body).json())


def report(site: Api, job: int, kind: str, **said: object) -> None:
    """Send a heartbeat, or the end of an attempt."""
    assert site.request("POST", f"/v1/jobs/{job}/{kind}", json={"lease": "a" * 16, **said}).is_success


def topic(site: Api) -> object:
    """What changes with each change of a job."""
    with site.database.read() as session:
        return _standing(session, with_agents=False)["jobs"]


def test_a_form_that_is_sent_twice_starts_one_job_and_leads_to_its_page(site):
    baseline = site.publish(1)
    fields = {
        "study": "gr-demo", "datasets": "made", "seed": "7", "note": HTML, "baseline": baseline, "paths": "cellular"
    }  # fmt: skip
    form = {**hidden(site.get(JOBS)), **fields}
    answers = site.at_once(2, "POST", JOBS, data=form)
    assert [(one.status_code, one.headers["location"]) for one in answers] == [(303, "./jobs/1")] * 2
    (job,) = site.get("/v1/jobs").json()["items"]
    assert (job["study"], job["datasets"], job["seed"], job["note"]) == ("gr-demo", ["made"], 7, HTML)
    assert job["compare"] == {"baseline": baseline, "datasets": ["made"], "paths": "cellular"}
    assert "that of job 1" in site.request("POST", JOBS, data={**form, "seed": "8"}).text
    assert send(site, JOBS, JOBS, **fields).headers["location"] == "./jobs/2", "a page has a key of its own"


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"study": "gr-demo", "datasets": "secret"}, 404, "datasets: expected some of made, got secret"),
        ({"study": "gr-demo", "seed": "-1"}, 422, "seed: "),
        ({"study": "gr-demo", "paths": "cellular"}, 422, "baseline: expected an ensemble to compare with"),
        ({"study": "../local"}, 422, "study: expected 1 to 63 of the characters"),
    ],
)
@pytest.mark.parametrize("new_database_url", ["sqlite"], indirect=True)
def test_a_form_with_a_wrong_field_says_so_and_starts_no_job(site, fields, status, words):
    answer = send(site, JOBS, JOBS, **fields)
    assert answer.status_code == status
    assert words in unescape(answer.text)
    assert site.get("/v1/jobs").json()["items"] == []


def test_a_search_is_shown_while_it_runs_and_all_that_its_runner_says_is_text(site):
    send(site, JOBS, JOBS, study="gr-demo", datasets="made", note=HTML)
    assert "It waits for a free runner that has made" in site.get("/ui/jobs/1").text
    lease(site, "made")
    known = topic(site)
    for share in (0.2, 0.41):
        site.clock.advance(seconds=60)
        report(site, 1, "heartbeat", progress={**PROGRESS, "share": share}, log=f"begun {HTML}\n")
        assert known != (known := topic(site)), "pages that are open load the progress"
    page = site.get("/ui/jobs/1").text
    for said in ('value="0.41"', "90 seconds left", "2 of 3 best points meet", "begun &lt;img", "1.0 min", "20.0 %"):
        assert said in page, said
    assert "<img" not in page + site.get(JOBS).text
    assert send(site, "/ui/jobs/1", "/ui/jobs/1/cancel").status_code == 303
    assert "Its runner stops it with its next heartbeat" in site.get("/ui/jobs/1").text
    assert "The job has ended" not in site.get("/ui/jobs/1").text


def test_a_job_that_failed_says_what_to_do_and_offers_to_start_it_again(site):
    send(site, JOBS, JOBS, study="gr-demo", datasets="made", seed="7")
    lease(site, "made")
    report(site, 1, "end", outcome="failed", error=f"expected recordings, got {HTML}")
    page = site.get("/ui/jobs/1").text
    assert "Training refused its input" in page
    assert "<img" not in page
    assert '<a href="../jobs?study=gr-demo&amp;dataset=made&amp;seed=7#new">' in page
    form = site.get(f"{JOBS}?study=gr-demo&dataset=made&seed=7").text
    assert "<option selected>gr-demo</option>" in form
    assert 'name="datasets" value="made" checked' in form


def test_the_course_of_a_long_attempt_covers_all_of_it_in_few_points():
    course = "[]"
    for second in range(700):
        progress = JobProgress.model_validate({**PROGRESS, "share": second / 700, "points": second})
        course = extended(course, progress, at_s=second)
    points = points_of(course)
    assert 100 <= len(points) <= 200
    assert (points[0][0], points[-1][0]) == (0, 699)
    assert extended(course, progress, at_s=900) == course, "nothing has changed"


def test_jobs_may_use_a_dataset_that_a_runner_has_described(site):
    known = topic(site)
    assert site.request("PUT", "/v1/datasets/new-link", json=FACTS).status_code == 204
    assert topic(site) != known, "pages that are open show it"
    links = site.get("/ui/links").text
    assert "2.25 to 38.5 Mbit/s" in links
    assert '<a href="./jobs?dataset=new-link#new">' in links
    for name in ("new-link", "made"):
        assert send(site, JOBS, JOBS, study="gr-demo", datasets=name).status_code == 303
    assert lease(site, "new-link")["datasets"] == ["new-link"]
    report(site, 1, "end", outcome="done", ensemble=make_ensemble(3).to_json())
    page = site.get("/ui/links/new-link").text
    assert "31 % from 1.0 s to the next" in page
    assert "../jobs/1" in page
    assert "../jobs/2" not in page
    assert make_ensemble(3).digest in page
    assert site.get("/ui/links/nope").status_code == 404


def test_different_recordings_under_one_name_are_noticed_and_forgotten_with_their_runner(site):
    for runner, content in (("trainer-1", "0" * 64), ("trainer-2", "1" * 64)):
        assert site.request("PUT", "/v1/datasets/made", json={**FACTS, "runner": runner, "content": content}).is_success
    assert "have had 2 different sets of recordings" in site.get("/ui/links/made").text
    site.clock.advance(seconds=31 * 86_400)
    site.request("PUT", "/v1/datasets/made", json=FACTS)
    (made,) = site.get("/v1/datasets").json()["items"]
    assert [one["runner"] for one in made["contents"]] == ["trainer-1"]

# SPDX-License-Identifier: MIT
"""The command `ccatune jobs`: submits training jobs to the registry, shows and cancels them, and runs them."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import click

from kmod.tables import Column
from kmod.terminal import echo
from serving.commands.options import connect, connect_as, is_json, json_option, registry_options
from serving.commands.printing import Cells, print_answer, print_facts, print_table, short_digest, time_in_words
from serving.jobs.client import JobsClient

Json = dict[str, Any]

_WATCH_S = 2.0
_LAST_WORDS_S = 5.0
_SHOWN_LOG_LINES = 15
_ENDED = ("done", "failed", "cancelled")
_ID = click.argument("job_id", metavar="ID", type=click.IntRange(1))


@click.group()
def jobs() -> None:
    """Train studies as jobs of the registry, and run such jobs.

    \b
    Example:
      ccatune jobs submit gr-demo --dataset cellular
      ccatune jobs show 7 --watch
      ccatune jobs run --dataset cellular=recordings/ --work /var/lib/ccatune/jobs
    """


@jobs.command()
@click.argument("study")
@click.option("--dataset", "datasets", multiple=True, help="Name of a dataset to train on; may be repeated.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Instead of the study's.")
@click.option("--note", default="", help="Why, for those who read the list.")
@click.option("--compare-with", metavar="DIGEST", help="After the training, run this ensemble beside it.")
@click.option("--compare-dataset", "compare_datasets", multiple=True,
              help="Name of a dataset to compare on; may be repeated.")  # fmt: skip
@click.option("--paths", metavar="NAME", help="Compare over the paths of this model in configs/paths.")
@registry_options
@json_option
def submit(
    *, study: str, datasets: tuple[str, ...], seed: int | None, note: str, compare_with: str | None,
    compare_datasets: tuple[str, ...], paths: str | None,
) -> None:  # fmt: skip
    """Queue the training of the registered STUDY. This needs a token with the scope train.

    The registry's settings name the studies and datasets. The ensemble is published when the job is done.

    \b
    Example:
      ccatune jobs submit gr-demo --dataset cellular --note "links of May"
      ccatune jobs submit gr-demo --dataset cellular --compare-with sha256:0123... --compare-dataset cellular
    """
    if (compare_with is None) == bool(compare_datasets or paths) or bool(compare_with) != bool(compare_datasets):
        raise click.UsageError("expected --compare-with and --compare-dataset together, and --paths only with both")
    compare = None
    if compare_with is not None:
        with connect() as registry:
            baseline = registry.whole_digest(compare_with)
        compare = {"baseline": baseline, "datasets": compare_datasets, "paths": paths}
    with connect_as(JobsClient) as client:
        job = client.submit(study, datasets=datasets, seed=seed, note=note, compare=compare)
    print_answer(job, lambda: echo(f"job {job['id']}: {job['state']}"))


@jobs.command("list")
@click.option("--state", type=click.Choice(["queued", "running", *_ENDED]), help="Only jobs in this state.")
@click.option("--study", help="Only jobs of this study.")
@registry_options
@json_option
def list_jobs(*, state: str | None, study: str | None) -> None:
    """List the jobs, newest first.

    \b
    Example:
      ccatune jobs list --state running
    """
    with connect_as(JobsClient) as client:
        print_table(client.jobs(state=state, study=study), _JOBS)


@jobs.command()
@_ID
@click.option("--watch", is_flag=True, help="Print each change until the job ends; exit 1 unless it is done.")
@registry_options
@json_option
def show(*, job_id: int, watch: bool) -> None:
    """Show a job: its state, its progress and its best points so far.

    \b
    Example:
      ccatune jobs show 7 --watch
    """
    with connect_as(JobsClient) as client:
        job = client.job(job_id)
        if watch:
            job = _watched(client, job)
        if not (watch and is_json()):
            print_facts(job, shown=_facts(job), whole="digest")
        if job["state"] == "failed" and not is_json():
            lines = [line for one in client.logs(job_id)[-1:] for line in one["log"].splitlines()]
            echo("\n".join(["", "the end of its log:", *lines[-_SHOWN_LOG_LINES:]]))
    if watch and job["state"] != "done":
        click.get_current_context().exit(1)


@jobs.command()
@_ID
@registry_options
@json_option
def logs(*, job_id: int) -> None:
    """Print the ends of the logs of a job's attempts.

    \b
    Example:
      ccatune jobs logs 7
    """
    with connect_as(JobsClient) as client:
        attempts = client.logs(job_id)
    print_answer(attempts, lambda: _print_logs(attempts))


@jobs.command()
@_ID
@registry_options
@json_option
def cancel(*, job_id: int) -> None:
    """Cancel a job of your own. A running one stops with the next heartbeat of its runner.

    \b
    Example:
      ccatune jobs cancel 7
    """
    with connect_as(JobsClient) as client:
        job = client.cancel(job_id)
    print_answer(job, lambda: echo(f"job {job['id']}: {_state(job)}"))


class Dataset(click.ParamType[tuple[str, Path]]):
    """NAME=FOLDER: the name of a dataset, and an existing folder or file with its recordings."""

    name = "name=folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Path]:
        """Return name and path."""
        name, _, folder = str(value).partition("=")
        if not name or not folder or not Path(folder).exists():
            self.fail(f"expected NAME=FOLDER with a folder that exists, got {value!r}", param, ctx)
        return name, Path(folder)


@jobs.command("run")
@click.option("--dataset", "datasets", type=Dataset(), multiple=True, metavar="NAME=FOLDER",
              help="A dataset that this machine has; may be repeated. Other jobs are left to others.")  # fmt: skip
@click.option("--work", type=click.Path(file_okay=False, path_type=Path), default=Path("jobs"), show_default=True,
              help="Folder of unfinished work. Runners that share it continue each other's jobs.")  # fmt: skip
@click.option("--name", help="Name of this runner in lists.  [default: HOST:PID]")
@click.option("--threads", type=click.IntRange(1), help="At most so many processors.  [default: all]")
@click.option("--executor", type=click.Choice(["threads", "processes", "ray"]),
              help="Where searches run.  [default: the study's, or threads]")  # fmt: skip
@click.option("--address", help="With --executor ray: of the cluster, auto or ray://HOST:PORT.")
@click.option("--poll-s", type=click.FloatRange(0.1, 3600), default=5.0, show_default=True,
              help="Time between two requests for a job.")  # fmt: skip
@click.option("--once", is_flag=True, help="Exit when no queued job is for this runner.")
@registry_options
@json_option
def run_jobs(
    *,
    datasets: tuple[tuple[str, Path], ...],
    work: Path,
    name: str | None,
    threads: int | None,
    executor: str | None,
    address: str | None,
    poll_s: float,
    once: bool,
) -> None:
    """Run jobs of the registry until SIGTERM or Ctrl-C. This needs a token with the scope run-jobs.

    A job that is stopped so is queued again, and continues from its journal in the folder of --work. Any number of
    runners may work for a registry, one job at a time each. The registry shows what recordings each one has.

    \b
    Example:
      ccatune jobs run --dataset cellular=recordings/ --work /var/lib/ccatune/jobs
      ccatune jobs run --dataset cellular=recordings/ --executor ray --address auto
    """
    if address is not None and executor != "ray":
        raise click.UsageError("--address: expected it with --executor ray")
    from serving.datasets.facts import describe
    from serving.jobs.runner import Runner
    from serving.jobs.work import TrainingOptions

    work.mkdir(parents=True, exist_ok=True)
    options = TrainingOptions(datasets=dict(datasets), threads=threads, executor=executor, address=address)
    with connect_as(JobsClient) as client:
        name = name or f"{socket.gethostname()}:{os.getpid()}"
        runner = Runner(
            client,
            name=name,
            work=work,
            options=options,
            poll_s=poll_s,
            say=_say,
        )
        said = {"runner": name, "stop": runner.stop, "say": _say, "once": once}
        # To read large recordings takes minutes, and no job waits for it.
        describing = threading.Thread(target=describe, args=(client, options.datasets), kwargs=said, daemon=True)
        describing.start()

        def stop(_number: int, _frame: FrameType | None) -> None:
            runner.stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        n_jobs = runner.run(once=once)
        describing.join(None if once and not runner.stop.is_set() else _LAST_WORDS_S)
    print_facts({"jobs": n_jobs})


def _say(text: str) -> None:
    echo(text, err=True)


def _watched(client: JobsClient, job: Json) -> Json:
    """Print each change of the job until it has ended, and return it."""
    shown = ""
    while True:
        line = ": ".join(filter(None, (_state(job), _progress(job))))
        if line != shown:
            shown = line
            echo(json.dumps(job) if is_json() else line)
        if job["state"] in _ENDED:
            return job
        time.sleep(_WATCH_S)
        job = client.job(job["id"])


def _state(job: Json) -> str:
    return "cancelling" if job["is_cancelling"] and job["state"] == "running" else str(job["state"])


def _progress(job: Json) -> str:
    """Return e.g. `41 %, 2 min left, searching: single, 2 of 3 points meet`."""
    progress = job["progress"]
    if job["state"] != "running" or progress is None:
        return ""
    left_s, points = progress["left_s"], progress["points"]
    parts = [
        f"{100 * progress['share']:.0f} %",
        f"{left_s / 60:.0f} min left" if left_s is not None and left_s >= 60 else "",
        f"{left_s:.0f} s left" if left_s is not None and left_s < 60 else "",
        progress["phase"],
        f"{progress['points_meeting']} of {points} points meet" if points else "",
    ]
    return ", ".join(filter(None, parts))


def _best(job: Json) -> str:
    """Return the best points of the search that finished last."""
    progress = job["progress"]
    if progress is None or progress["best_of"] is None:
        return ""
    points = (" ".join(f"{name} {value:g}" for name, value in one["metrics"].items()) for one in progress["best"])
    return f"{progress['best_of']}: {'; '.join(points)}"


def _facts(job: Json) -> Json:
    shown = {
        "job": job["id"],
        "study": job["study"],
        "datasets": job["datasets"],
        "seed": job["seed"],
        "state": _state(job),
        "progress": _progress(job),
        "best": _best(job),
        "by": job["submitted_by"],
        "submitted": time_in_words(job["submitted_at"], to="seconds"),
        "ended": time_in_words(job["ended_at"], to="seconds"),
        "runner": job["runner"],
        "attempt": job["attempt"] or None,
        "digest": job["digest"],
        "compared": _compared(job),
        "error": job["error"],
        "note": job["note"],
    }
    return {name: value for name, value in shown.items() if value not in (None, "", [])}


def _compared(job: Json) -> str:
    """Return e.g. `with 0123456789ab over cellular`. A registry of an earlier version does not compare."""
    compare = job.get("compare")
    if compare is None:
        return ""
    done = {"done": "not compared with", "queued": "later with", "running": "later with"}.get(job["state"], "not with")
    words = "with" if job.get("shadow") else done
    return f"{words} {short_digest(compare['baseline'])} over {' '.join(compare['datasets'])}"


def _print_logs(attempts: list[Json]) -> None:
    for one in attempts:
        echo(f"== attempt {one['attempt']} by {one['runner']}: {one['outcome'] or 'running'}")
        echo(one["log"].rstrip("\n"))


_JOBS: Cells = {
    Column("job", "right"): lambda row: str(row["id"]),
    Column("study", least=8): lambda row: str(row["study"]),
    Column("state"): _state,
    Column("by", least=8): lambda row: str(row["submitted_by"]),
    Column("submitted (UTC)"): lambda row: time_in_words(row["submitted_at"]),
    Column("table"): lambda row: short_digest(row["digest"]),
    Column("progress or problem", least=12, cut="end"): lambda row: str(row["error"] or _progress(row)),
}

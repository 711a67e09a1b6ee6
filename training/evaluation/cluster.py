# SPDX-License-Identifier: MIT
"""Tasks on a Ray cluster: each is a trial of Ray Tune, which repeats it on another node if its node is lost.

A stage is an experiment of Tune, with the stage's name. The configuration of a trial describes the task: its levels,
and the settings of its search. A trial reports the best points so far, and at its end the task's result. If a storage
is given, Tune's usual loggers write there, and Tune's own tools read it (docs/search.md).

A node needs an installed ccatune and nothing else: the pieces of traces come with the task, and results and progress
return through a queue on the cluster's head, also to a client at ray://, which has no callbacks of Tune. A node whose
NumPy, core or simulator differ could find other points, so it is refused. Ray compares the versions of Python itself.

Trials run in their order (FIFO). Schedulers that stop trials by rank would change the result; searches stop hopeless
points themselves, by an exact bound (evaluator.py).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

# Ray sends no usage reports, Tune uses only the loggers below, and no second cluster starts by itself after a
# disconnection.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
os.environ["TUNE_DISABLE_AUTO_INIT"] = "1"

import ray
from ray import tune
from ray.exceptions import RayError
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
from ray.util.queue import Empty, Queue

from emulation.run.simulator import core_version
from training.errors import TrainingError
from training.evaluation.executors import Recorder, longest_first
from training.evaluation.runner import model_versions
from training.evaluation.tasks import SearchTask

HEAD = "node:__internal_head__"
LOOK_S = 1.0
REPORT_S = 1.0
# A task whose worker is lost so often is not lost by chance.
MOST_LOSSES = 20


def own_versions() -> dict[str, str]:
    """What must be equal on all nodes so that each finds the same points."""
    own = {"NumPy": np.__version__, "ccatune": version("ccatune"), "core and simulator": core_version()[:12]}
    return own | model_versions()


@contextlib.contextmanager
def connected(address: str | None, *, processors: int, tune_storage: str | None = None) -> Iterator[Cluster]:
    """A cluster: the one at the address, or one on this machine with so many processors, which ends with the block.

    tune_storage: see Cluster.

    Raises:
        TrainingError: there is none at the address, or it is lost; tune_storage cannot be written.
    """
    storage = _storage_of(tune_storage, is_here=not (address or "").startswith("ray://"))
    with tempfile.TemporaryDirectory(prefix="ccatune-ray-", ignore_cleanup_errors=True) as folder:
        here = {"num_cpus": processors, "include_dashboard": False, "_temp_dir": folder}
        try:
            ray.init(address=address or "local", logging_level="ERROR", log_to_driver=False,
                     **({} if address else here))  # fmt: skip
        except (OSError, RayError, RuntimeError, ValueError) as error:
            said = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise TrainingError(
                f"--address {address}: expected a running Ray cluster, got: {said}; "
                "start one with `ray start --head`, and give its nodes and this machine the same RAY_AUTH_TOKEN"
                if address
                else f"ray: expected to start a cluster on this machine, got: {said}"
            ) from error
        try:
            yield Cluster(folder, storage)
        except (RayError, ConnectionError) as error:
            raise TrainingError(
                f"ray: the cluster was lost ({type(error).__name__}); what was finished is kept: "
                "start it again, and run the same command with --resume"
            ) from error
        finally:
            ray.shutdown()


def _storage_of(tune_storage: str | None, *, is_here: bool) -> str | None:
    """The storage in the form that Tune requires: a URI, or an absolute path. A folder on this machine is made."""
    if tune_storage is None or "://" in tune_storage:
        return tune_storage
    folder = Path(tune_storage).absolute()
    try:
        if is_here:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"--tune-storage {tune_storage}: expected a folder to write to, got {error.strerror}; "
                            "name another") from error  # fmt: skip
    return str(folder)


def search(
    config: dict[str, Any], *, tasks: dict[str, Any], queue: Queue, threads: int, versions: dict[str, str]
) -> None:
    """Execute the task that a trial's configuration names, and send its name, work so far and result to the queue.

    The figures of the search are reported to Tune at most once in REPORT_S, and at the end. An error of the search ends
    the study. After the loss of a worker Tune repeats the task.
    """
    name, done = config["state"]["task"], 0.0
    try:
        _require_equal(versions, own_versions(), what="ccatune")
        task, snapshot, searchers = ray.get(tasks[name])
        _require_equal(searchers, task.search.versions(), what="file")
        run, reported_s = task.begin(threads, snapshot), -REPORT_S
        while run.part is None:
            done += run.step()
            if run.part is not None or time.monotonic() - reported_s >= REPORT_S:
                tune.report(run.figures())
                reported_s = time.monotonic()
            queue.put((name, done, run.part))
    except RayError:
        raise
    except Exception as error:
        said = str(error) if isinstance(error, TrainingError) else f"{name} failed: {traceback.format_exc()}"
        queue.put((name, done, f"ray: node {ray.util.get_node_ip_address()}: {said}"))


def _require_equal(wanted: Mapping[str, str], here: Mapping[str, str], *, what: str) -> None:
    for package, number in wanted.items():
        if here[package] != number:
            raise TrainingError(f"expected {package} {number} as here, got {here[package]}; "
                                f"install the same {what} there, or remove the node")  # fmt: skip


class Cluster:
    """The cluster that this process is connected to.

    folder: for temporary files. tune_storage: the folder or URI where Tune keeps an experiment for each stage.
    """

    def __init__(self, folder: str, tune_storage: str | None = None) -> None:
        self._folder = folder
        self._storage = tune_storage

    @cached_property
    def _queue(self) -> Queue:
        """The queue of all stages, because its actor takes a second to start.

        It may still contain messages from a lost worker of an earlier stage.
        """
        return Queue(actor_options={"num_cpus": 0, "resources": {HEAD: 0.001}})

    def run(self, tasks: Sequence[SearchTask], recorder: Recorder) -> None:
        """See Executor. A single task uses all processors of the largest node, several use one each."""
        left = {task.name: task for task in longest_first(tasks)}
        while left:  # Tune sometimes ends without the result of a task whose worker was lost, and without a reason
            before, errors = len(left), self._search(left, recorder)
            if left and (errors or len(left) == before):
                raise TrainingError(f"ray: expected results of {', '.join(sorted(left))}, got none: "
                                    f"{errors or 'their workers were lost too often'}; is the same ccatune installed "
                                    "on every node? run the same command with --resume")  # fmt: skip

    def _search(self, left: dict[str, SearchTask], recorder: Recorder) -> str:
        """Run tasks by Tune until it ends, and take out those that are finished; Tune's first error, if there is any.

        Tune runs in a thread, and this one reads the queue meanwhile.
        """
        threads = max(_most_processors(), 1) if len(left) == 1 else 1
        tuner = self._tuner(left, recorder, threads)
        errors: list[str] = []

        def fit() -> None:
            try:
                # Tune's tables would stand among the figures.
                with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
                    errors.extend(str(error).strip().splitlines()[-1] for error in tuner.fit().errors)
            except BaseException as error:
                errors.append(repr(error))

        fitting = threading.Thread(target=fit, daemon=True)
        fitting.start()
        done = dict.fromkeys(left, 0.0)
        while left:
            ended = not fitting.is_alive()
            try:
                name, work, result = self._queue.get(timeout=LOOK_S)
            except Empty:
                if ended:
                    break
                _require_node(threads)
                continue
            if name not in done:
                continue
            if isinstance(result, str):
                raise TrainingError(result)
            recorder.progress.advance(max(work - done[name], 0.0))  # not the repeated work of a lost worker
            done[name] = max(work, done[name])
            if result is not None and name in left:
                del left[name]
                recorder.put(name, result)
        fitting.join(timeout=60)
        return "; ".join(errors[:1])

    def _tuner(self, tasks: dict[str, SearchTask], recorder: Recorder, threads: int) -> tune.Tuner:
        shared = {
            name: ray.put((task, recorder.snapshot_of(name), task.search.versions())) for name, task in tasks.items()
        }
        trial = tune.with_parameters(search, tasks=shared, queue=self._queue, threads=threads, versions=own_versions())
        states = [
            {"task": name, "stage": task.stage, **dict(task.levels), "search": task.search.model_dump(mode="json")}
            for name, task in tasks.items()
        ]
        stage = next(iter(tasks.values())).stage or "tasks"
        return tune.Tuner(
            tune.with_resources(trial, {"cpu": threads}),
            param_space={"state": tune.grid_search(states)},
            tune_config=tune.TuneConfig(reuse_actors=True, trial_name_creator=_name, trial_dirname_creator=_name),
            run_config=tune.RunConfig(
                name=self._free_name(stage), storage_path=self._storage or self._folder, verbose=0,
                failure_config=tune.FailureConfig(max_failures=MOST_LOSSES),
                callbacks=[CSVLoggerCallback(), JsonLoggerCallback(), TBXLoggerCallback()] if self._storage else [],
            ),
        )  # fmt: skip

    def _free_name(self, stage: str) -> str:
        """The stage's name, with a number if there is such an experiment already, as after an interruption."""
        names = (stage if number == 1 else f"{stage}-{number}" for number in itertools.count(1))
        return next(name for name in names if not tune.Tuner.can_restore(f"{self._storage or self._folder}/{name}"))


def _name(trial: Any) -> str:
    """The name of a trial and of its folder."""
    return str(trial.config["state"]["task"])


def _require_node(threads: int) -> None:
    """Raise if no node has so many processors, because Tune would wait for one without end."""
    if (most := _most_processors()) < threads:
        raise TrainingError(f"ray: expected a node with {threads} processors, got at most {most}; start one with "
                            "`ray start`, and run the same command with --resume")  # fmt: skip


def _most_processors() -> int:
    """Those of the largest node that is alive."""
    return max((int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]), default=0)

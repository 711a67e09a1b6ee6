# SPDX-License-Identifier: MIT
"""Tasks on a Ray cluster: each is a trial of Ray Tune, and each of its steps is one step of the search.

    study ──── tasks ────> object store ──> trials on the nodes
      ^                                        │
      └── snapshots, parts <── mailbox <───────┘

The mailbox is an actor on the cluster's head. A trial sends it a snapshot after every step, and the study keeps that
in its journal. So a trial whose worker or node is lost continues on another node from its last step, and a study whose
driver or head was lost continues from the journal, on any executor. That is why a trial writes no checkpoint of Tune's:
a journal needs no folder that all nodes share.

A node needs an installed ccatune and nothing else: the pieces of traces come with the task. A node whose Python, NumPy,
core or simulator differ could find other points, so it is refused.

Trials run in their order (FIFO). Schedulers that stop trials by rank would change the result; searches stop hopeless
points themselves, by an exact bound (evaluator.py).
"""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

# No reports to Ray's makers; no file of each step; and no second cluster that starts by itself after a disconnection.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"

import ray
from ray import tune
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from training.errors import TrainingError
from training.evaluation.executors import longest_first
from training.evaluation.runner import core_version, model_versions
from training.evaluation.tasks import Keeper, Part, Run, Task

__all__ = ["Cluster", "connected"]

HEAD = "node:__internal_head__"
LOOK_S = 0.1
NODES_S = 5.0
ANSWER_S = 60.0
# A task whose worker is lost so often is not lost by chance.
MOST_LOSSES = 20


def own_versions() -> dict[str, str]:
    """What must be equal on all nodes so that each finds the same points."""
    return {
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "ccatune": version("ccatune"),
        "core and simulator": core_version()[:12],
        **model_versions(),
    }


@contextlib.contextmanager
def connected(address: str | None, *, processors: int) -> Iterator[Cluster]:
    """A cluster: the one at the address, or one on this machine with so many processors, which ends with the block.

    Raises:
        TrainingError: there is none at the address, or one of its nodes differs from this machine.
    """
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
            cluster = Cluster(folder)
            cluster.check()
            yield cluster
        except (RayError, ConnectionError) as error:
            raise TrainingError(
                f"ray: the cluster was lost ({type(error).__name__}); what was finished is kept: "
                "start it again, and run the same command with --resume"
            ) from error
        finally:
            ray.shutdown()


@ray.remote  # type: ignore[untyped-decorator]
def _versions() -> dict[str, str]:
    return own_versions()


@ray.remote
class _Mailbox:
    """Holds the last snapshot of each task, and what the study has not taken yet."""

    def __init__(self, snapshots: dict[str, dict[str, Any]]) -> None:
        self._snapshots = snapshots
        self._waiting: list[dict[str, Any]] = []

    def snapshot_of(self, name: str) -> dict[str, Any] | None:
        return self._snapshots.get(name)

    def put(self, message: dict[str, Any]) -> None:
        """name: of the task. amount: its work since the last message. snapshot, part or error: how far it is."""
        if message.get("snapshot"):
            self._snapshots[message["name"]] = message["snapshot"]
        self._waiting.append(message)

    def take(self) -> list[dict[str, Any]]:
        taken, self._waiting = self._waiting, []
        return taken


class SearchTrial(tune.Trainable):  # type: ignore[misc]
    """One task. Its configuration names it; `tasks`, `mailbox`, `threads` and `versions` are the same for all."""

    _run: Run | None

    def setup(self, config: dict[str, Any], tasks: dict[str, Any] | None = None, mailbox: Any = None,
              threads: int = 1, versions: dict[str, str] | None = None) -> None:  # fmt: skip
        """Begin the task, or continue from its last snapshot."""
        assert tasks is not None and mailbox is not None and versions is not None  # noqa: PT018, S101
        self._tasks, self._mailbox, self._threads, self._versions = tasks, mailbox, threads, versions
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Begin another task in the same process."""
        self._name = new_config["task"]
        self._run = None
        return True

    def step(self) -> dict[str, Any]:
        """Do one step of the search. An error of the search itself ends the study; a lost worker does not."""
        message: dict[str, Any] = {"name": self._name, "amount": 0.0}
        try:
            run = self._run = self._run or self._begin()
            message["amount"] = run.step()
            message |= {"part": run.part.to_json()} if run.part else {"snapshot": run.snapshot()}
        except RayError:  # this worker's trouble, and not the search's: Tune tries again
            raise
        except Exception as error:
            message["error"] = (
                str(error)
                if isinstance(error, TrainingError)
                else (f"ray: node {ray.util.get_node_ip_address()}: {self._name} failed: {traceback.format_exc()}")
            )
        ray.get(self._mailbox.put.remote(message))
        return {"done": "snapshot" not in message}

    def _begin(self) -> Run:
        if self._versions != own_versions():
            raise TrainingError(_difference(ray.util.get_node_ip_address(), own_versions(), self._versions))
        task: Task = ray.get(self._tasks[self._name])
        return task.begin(self._threads, ray.get(self._mailbox.snapshot_of.remote(self._name)))


def _difference(node: str, found: dict[str, str], wanted: dict[str, str]) -> str:
    name = next(name for name in wanted if found.get(name) != wanted[name])
    return (f"ray: node {node}: expected {name} {wanted[name]} as here, got {found.get(name)}; "
            "install the same ccatune there, or remove the node")  # fmt: skip


@dataclass(frozen=True)
class Cluster:
    """The cluster that this process is connected to. folder: for the files of Ray Tune."""

    folder: str

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Those that are alive."""
        return [node for node in ray.nodes() if node["Alive"]]

    def check(self) -> None:
        """See that every node computes the same.

        Raises:
            TrainingError: one has no ccatune, or another one; or none has a processor.
        """
        answers = {
            node["NodeManagerAddress"]: _versions.options(
                num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote()
            for node in self.nodes
        }
        for address, answer in answers.items():
            try:
                found = ray.get(answer, timeout=ANSWER_S)
            except RayError as error:
                raise TrainingError(f"ray: node {address}: expected an installed ccatune, got: "
                                    f"{str(error).strip().splitlines()[-1]}") from error  # fmt: skip
            if any(found.get(name) != number for name, number in own_versions().items()):
                raise TrainingError(_difference(address, found, own_versions()))
        if not self.most_processors():
            raise TrainingError("ray: expected a node with a processor, got none; start one with `ray start`")

    def run(self, tasks: Sequence[Task], keeper: Keeper) -> None:
        """See Executor. A single task uses all processors of the largest node, several use one each."""
        left = list(tasks)
        while left:
            missing, error = self._fit(left, keeper)
            left = [task for task in left if task.name in missing]
            if left and error is not None:
                raise TrainingError(f"ray: expected a result of {', '.join(sorted(missing))}, got none: {error}; "
                                    "run the same command with --resume")  # fmt: skip

    def _fit(self, tasks: Sequence[Task], keeper: Keeper) -> tuple[set[str], BaseException | str | None]:
        """Run tasks by Tune. The names of those that have not come to their end, and why not.

        Tune sometimes ends without the result of a task whose worker was lost, and without a reason. Such a task
        continues with another call.
        """
        begun = {task.name: kept for task in tasks if (kept := keeper.snapshot_of(task.name))}
        mailbox = _Mailbox.options(num_cpus=0, resources={HEAD: 0.001}).remote(begun)  # type: ignore[attr-defined]
        threads = self.most_processors() if len(tasks) == 1 else 1
        trial = tune.with_parameters(SearchTrial, tasks={task.name: ray.put(task) for task in tasks},
                                     mailbox=mailbox, threads=threads, versions=own_versions())  # fmt: skip
        fitting = _Fitting(
            tune.Tuner(
                tune.with_resources(trial, {"cpu": threads}),
                param_space={"task": tune.grid_search([task.name for task in longest_first(tasks)])},
                tune_config=tune.TuneConfig(reuse_actors=True),
                run_config=tune.RunConfig(
                    name="study", storage_path=self.folder, verbose=0,
                    failure_config=tune.FailureConfig(max_failures=MOST_LOSSES),
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                ),
            )
        )  # fmt: skip
        missing = {task.name for task in tasks}
        watch, has_moved, ended = _Watch(self, threads), False, False
        while missing and not ended:
            ended = fitting.ended
            for message in ray.get(mailbox.take.remote(), timeout=ANSWER_S):
                has_moved = True
                missing -= _kept(message, keeper)
            watch.look()
            time.sleep(LOOK_S)
        fitting.join()
        ray.kill(mailbox)
        return missing, fitting.error or (None if has_moved else "their workers were lost too often")

    def most_processors(self) -> int:
        """Those of the largest node."""
        return max((int(node["Resources"].get("CPU", 0)) for node in self.nodes), default=0)


class _Watch:
    """Looks every few seconds whether a node still has so many processors. Tune would wait for one for ever."""

    def __init__(self, cluster: Cluster, processors: int) -> None:
        self._cluster = cluster
        self._processors = processors
        self._looked_s = self._enough_s = time.monotonic()

    def look(self) -> None:
        """Raises TrainingError: no node has had so many for a minute."""
        now_s = time.monotonic()
        if now_s - self._looked_s < NODES_S:
            return
        self._looked_s = now_s
        if self._cluster.most_processors() >= self._processors:
            self._enough_s = now_s
        elif now_s - self._enough_s > ANSWER_S:
            raise TrainingError(f"ray: expected a node with {self._processors} processors, as there was, got none for "
                                "a minute; start one, or run the same command with --resume")  # fmt: skip


class _Fitting:
    """Tune at work, in a thread: this one reads the mailbox meanwhile."""

    def __init__(self, tuner: tune.Tuner) -> None:
        self.error: BaseException | None = None
        self._tuner = tuner
        self._thread = threading.Thread(target=self._fit, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(ANSWER_S)

    def _fit(self) -> None:
        try:
            # Tune's tables would stand among the figures. What is done and what fails comes by the mailbox.
            with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
                self._tuner.fit()
        except BaseException as error:
            self.error = error


def _kept(message: dict[str, Any], keeper: Keeper) -> set[str]:
    """Hand a message on; the name of the task that it finishes."""
    name = message["name"]
    if "error" in message:
        raise TrainingError(message["error"])
    keeper.advance(message["amount"])
    if "part" in message:
        keeper.keep(name, Part.from_json(message["part"]))
        return {name}
    keeper.keep_snapshot(name, message["snapshot"])
    return set()

# SPDX-License-Identifier: MIT
"""Runs studies on Ray clusters, and prints what they gave as JSON; a program of its own.

It runs in a folder with the files of docs/search.md, and leaves Tune's storage there.

A fatal error of Ray ends the process that is connected to the cluster, and so must not be connected to a test's.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from links import recording, study
from ray.cluster_utils import Cluster

from training.errors import TrainingError
from training.evaluation import cluster as on_cluster
from training.progress import Progress
from training.study import Journal, Study

RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
GRID = {"name": "single", "search": {"kind": "grid", "count": 2}}
SOBOL = {"name": "single", "search": {"kind": "sobol", "points": 8}}
DDS = {"kind": "dds", "intervals": 8, "steps": 40, "restarts": 1}
# The searcher of docs/search.md.
NEAR = {"kind": "ray", "searcher": "near_best:NearBest", "arguments": {"spread": 0.1}, "evaluations": 16, "initial": 4}
STATE = {"name": "state", "group_by": ["throughput"]}
STUDIES = {
    "here": study(stages=[GRID, STATE], search=NEAR),
    "lost": study(stages=[SOBOL, STATE], search=DDS),  # long enough that a node can be lost meanwhile
}


class Loses(Progress):
    """Loses a node as soon as states are searched on all of them."""

    def __init__(self, nodes: Any) -> None:
        self.nodes = nodes
        self.steps: list[float] = []
        self.total = 0.0

    def phase(self, text: str, *, total: float) -> None:
        self.steps.clear()
        if text == "searching: state":
            self.total = total
            self.steps.append(0.0)

    def advance(self, amount: float) -> None:
        if self.steps:
            self.steps.append(amount)
        if len(self.steps) == 6:
            self.nodes.remove_node(self.nodes.list_all_nodes()[-1], allow_graceful=False)


def here(folder: Path) -> dict[str, Any]:
    """A study on a cluster of this machine."""
    done: list[str] = []

    class Notes(Progress):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            done.append(name)

    journal = Journal(folder, key="ab" * 32)
    ensemble = Study(STUDIES["here"], RECORDINGS, threads=2, executor="ray", tune_storage="tune", progress=Notes()).run(
        journal
    )
    return {
        "digest": ensemble.digest, "parts": sorted(journal.parts()), "done": sorted(done),
        "begun": journal.begun(), "provenance": ensemble.provenance["registered"],
        "thresholds": [ensemble.row(level, 0)["delay_threshold_us"] for level in range(ensemble.n_states)],
        "printed": printed_by_the_page("tune/state"),
    }  # fmt: skip


def printed_by_the_page(folder: str) -> str:
    """What the program of docs/search.md prints of an experiment, after it was read without a cluster."""
    out = io.StringIO()
    sys.argv = ["trials.py", folder]
    with contextlib.redirect_stdout(out):
        runpy.run_path("trials.py", run_name="__main__")
    return out.getvalue()


def with_another_core() -> str:
    """Why nodes whose core differs are refused."""
    own = on_cluster.own_versions
    on_cluster.own_versions = lambda: {**own(), "core and simulator": "another"}
    try:
        Study(STUDIES["lost"], RECORDINGS, executor="ray", address="auto").run()
    except TrainingError as error:
        return str(error)
    finally:
        on_cluster.own_versions = own
    return "not refused"


def without_a_node(nodes: Any) -> dict[str, Any]:
    """A study that loses a node."""
    loses = Loses(nodes)
    digest = Study(STUDIES["lost"], RECORDINGS, threads=2, executor="ray", address="auto", progress=loses).run().digest
    return {"digest": digest, "work": sum(loses.steps) / loses.total, "nodes": len(nodes.list_all_nodes())}


def main() -> None:
    """Run all of them."""
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"here": here(Path(folder))}
    found["threads"] = {name: Study(one, RECORDINGS, threads=2).run().digest for name, one in STUDIES.items()}
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=1)
        os.environ["RAY_ADDRESS"] = nodes.address
        found |= {"another core": with_another_core(), "lost": without_a_node(nodes)}
    finally:
        nodes.shutdown()
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()

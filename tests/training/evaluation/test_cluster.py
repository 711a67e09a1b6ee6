# SPDX-License-Identifier: MIT
"""Studies on Ray: the same ensemble as on threads, also when a node is lost; and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from links import recording, study

from kmod.ensemble import Ensemble
from training.errors import TrainingError
from training.progress import Progress
from training.study import Journal, Study

# One worker: each cluster takes both processors.
pytestmark = [
    pytest.mark.ray,
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]

RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
# Long enough that a node can be lost meanwhile.
LONG = study(search={"kind": "dds", "intervals": 8, "steps": 40, "restarts": 1})


@pytest.fixture(scope="module")
def trained() -> Ensemble:
    return Study(LONG, RECORDINGS, threads=2).run()


@pytest.fixture(scope="module")
def nodes() -> Iterator[object]:
    """A cluster of three nodes with a processor each, the first of them its head. The last test takes one away."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", cluster.address)
            yield cluster
    finally:
        cluster.shutdown()


def test_an_address_without_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(TrainingError, match=r"--address auto: expected a running Ray cluster"):
        Study(LONG, RECORDINGS, executor="ray", address="auto").run()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "training.evaluation.cluster", None)
    with pytest.raises(TrainingError, match=r"expected Ray, .*pip install 'ccatune\[ray\]'"):
        Study(LONG, RECORDINGS, executor="ray").run()


def test_a_ray_cluster_of_this_machine_gives_the_same_ensemble(trained: Ensemble, tmp_path: Path) -> None:
    done: list[str] = []

    class Notes(Progress):
        def finished(self, name: str, found: object) -> None:  # noqa: ARG002
            done.append(name)

    journal = Journal(tmp_path, key="ab" * 32)
    assert Study(LONG, RECORDINGS, threads=2, executor="ray", progress=Notes()).run(journal).digest == trained.digest
    assert sorted(journal.parts()) == sorted(done)
    assert journal.begun() == []


def test_a_node_with_another_core_is_refused_by_name(nodes: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from training.evaluation import cluster

    del nodes
    here = {**cluster.own_versions(), "core and simulator": "another"}
    monkeypatch.setattr(cluster, "own_versions", lambda: here)
    with pytest.raises(TrainingError, match=r"node .*: expected core and simulator another as here, got [0-9a-f]{12}"):
        Study(LONG, RECORDINGS, executor="ray", address="auto").run()


def test_a_node_that_is_lost_changes_nothing(trained: Ensemble, nodes: object) -> None:
    steps: list[float] = []
    amounts: list[float] = []

    class Loses(Progress):
        """Loses a node as soon as states are searched on all of them."""

        def phase(self, text: str, *, total: float) -> None:
            steps.clear()
            if text == "searching: state":
                amounts.append(total)
                steps.append(0.0)

        def advance(self, amount: float) -> None:
            if steps:
                steps.append(amount)
            if len(steps) == 6:
                nodes.remove_node(nodes.list_all_nodes()[-1], allow_graceful=False)  # type: ignore[attr-defined]

    found = Study(LONG, RECORDINGS, threads=2, executor="ray", address="auto", progress=Loses()).run()
    assert found.digest == trained.digest
    assert sum(steps) <= amounts[0] * (1 + 1e-9), "what a lost worker did counts once"
    assert len(nodes.list_all_nodes()) == 2  # type: ignore[attr-defined]

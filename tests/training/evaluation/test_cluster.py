# SPDX-License-Identifier: MIT
"""Studies on Ray: the same ensemble as on threads, also when a node is lost; and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from links import recording, study

from training.errors import TrainingError
from training.study import Study

pytestmark = pytest.mark.ray

RECORDINGS = [recording("a", seed=1), recording("b", seed=2)]
LONG = study(search={"kind": "dds", "intervals": 8, "steps": 40, "restarts": 1})
LIMIT_S = 400


@pytest.fixture(scope="module")
def on_clusters(repository: Path) -> dict[str, Any]:
    """What on_clusters.py found. Its clusters are none of this machine's other users."""
    program = Path(__file__).with_name("on_clusters.py")
    words = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-W", "ignore", str(program)]
    with tempfile.TemporaryDirectory() as folder:  # Ray's sockets need short paths
        own = {**os.environ, "RAY_TMPDIR": folder}
        done = subprocess.run(
            words, cwd=repository, env=own, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_an_address_without_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(TrainingError, match=r"--address auto: expected a running Ray cluster"):
        Study(LONG, RECORDINGS, executor="ray", address="auto").run()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "training.evaluation.cluster", None)
    with pytest.raises(TrainingError, match=r"expected Ray, .*pip install 'ccatune\[ray\]'"):
        Study(LONG, RECORDINGS, executor="ray").run()


def test_clusters_give_the_same_ensemble_also_when_a_node_is_lost(on_clusters: dict[str, Any]) -> None:
    digest = Study(LONG, RECORDINGS, threads=2).run().digest
    here, lost = on_clusters["here"], on_clusters["lost"]
    assert here["digest"] == lost["digest"] == digest
    assert (here["parts"], here["begun"]) == (here["done"], [])
    assert lost["work"] <= 1 + 1e-9, "what a lost worker did counts once"
    assert lost["nodes"] == 2


def test_a_node_with_another_core_is_refused_by_name(on_clusters: dict[str, Any]) -> None:
    refused = r"node .*: expected core and simulator another as here, got [0-9a-f]{12}"
    assert re.search(refused, on_clusters["another core"])

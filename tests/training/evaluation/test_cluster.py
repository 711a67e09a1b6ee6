# SPDX-License-Identifier: MIT
"""Studies on Ray: the same ensemble as on threads, also when a node is lost; and what is refused."""

from __future__ import annotations

import hashlib
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

RECORDINGS = [recording("a", seed=1)]
LIMIT_S = 400


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """A folder with the files of docs/search.md."""
    folder = tmp_path_factory.mktemp("page")
    text = (repository / "docs" / "search.md").read_text(encoding="utf-8")
    for name, content in re.findall(r"^```python file=(\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def on_clusters(page: Path, repository: Path) -> dict[str, Any]:
    """What on_clusters.py found. Its clusters are none of this machine's other users."""
    program = Path(__file__).with_name("on_clusters.py")
    words = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-W", "ignore", str(program)]
    with tempfile.TemporaryDirectory() as folder:  # Ray's sockets need short paths
        own = {**os.environ, "RAY_TMPDIR": folder, "PYTHONPATH": f"{page}:{repository}", "MPLBACKEND": "agg"}
        own["RAY_ENABLE_AUTO_CONNECT"] = "0"  # the program imports ray before cluster.py can say so
        done = subprocess.run(words, cwd=page, env=own, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_an_address_without_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(TrainingError, match=r"--address auto: expected a running Ray cluster"):
        Study(study(), RECORDINGS, executor="ray", address="auto").run()


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "training.evaluation.cluster", None)
    with pytest.raises(TrainingError, match=r"expected Ray, .*pip install 'ccatune\[ray\]'"):
        Study(study(), RECORDINGS, executor="ray").run()


def test_a_storage_that_is_no_folder_is_refused_before_a_cluster_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"--tune-storage .*file/tune: expected a folder to write to, got Not"):
        Study(study(), RECORDINGS, executor="ray", tune_storage=str(tmp_path / "file" / "tune")).run()


def test_clusters_give_the_same_ensemble_also_when_a_node_is_lost(on_clusters: dict[str, Any]) -> None:
    here, lost = on_clusters["here"], on_clusters["lost"]
    assert {"here": here["digest"], "lost": lost["digest"]} == on_clusters["threads"]
    assert (here["parts"], here["begun"]) == (here["done"], [])
    assert lost["work"] <= 1 + 1e-9, "what a lost worker did counts once"
    assert lost["nodes"] == 1


def test_a_node_with_another_core_is_refused_by_name(on_clusters: dict[str, Any]) -> None:
    refused = r"node .*: expected core and simulator another as here, got [0-9a-f]{12}"
    assert re.search(refused, on_clusters["another core"])


def test_a_searcher_of_ones_own_is_part_of_the_provenance_by_its_file(on_clusters: dict[str, Any], page: Path) -> None:
    digest = hashlib.sha256((page / "near_best.py").read_bytes()).hexdigest()
    assert on_clusters["here"]["provenance"] == {"near_best:NearBest": digest[:12]}


def test_tunes_own_classes_read_the_trials_as_the_page_does(on_clusters: dict[str, Any], page: Path) -> None:
    here = on_clusters["here"]
    rows = {name: row for name, *row in map(str.split, here["printed"].splitlines())}
    assert sorted(rows) == [name for name in here["parts"] if name.startswith("state")]
    for name, (level, cost, threshold_us, meets) in rows.items():
        assert name == f"state-{int(level):02d}"
        assert (int(threshold_us), meets) == (here["thresholds"][int(level)], "True")
        assert 0 < float(cost) < 1
    assert (page / "trials.png").stat().st_size > 1000


def test_tensorboard_has_the_scores_of_a_trial(on_clusters: dict[str, Any], page: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    (file,) = (page / "tune" / "state").glob(f"{on_clusters['here']['parts'][-1]}/events.out.tfevents.*")
    data, evaluations = file.read_bytes(), []
    while data:  # a record: its length, a checksum, the event, and a checksum
        size = int.from_bytes(data[:8], "little")
        values = Event.FromString(data[12 : 12 + size]).summary.value
        evaluations += [value.simple_value for value in values if value.tag == "ray/tune/evaluations"]
        data = data[16 + size :]
    assert evaluations == sorted(evaluations)
    assert evaluations[-1] == 2 * 16

# SPDX-License-Identifier: MIT
"""The registry under kill -9; `make prove` does the same 50 times"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from serving.errors import RegistryClientError
from tests.prove.kill_api import Findings, Ledger, check_channel, check_ensembles, check_files, make_ensemble

KILLS = 5


@pytest.mark.service
def test_kills_at_random_moments_lose_nothing_that_was_acknowledged(repository):
    done = subprocess.run(
        [sys.executable, "tests/prove/kill_api.py", "--kills", str(KILLS), "--seed", "7", "--json"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert done.returncode == 0
    assert found["kills"] == KILLS
    assert found["publications_acknowledged"] > 0


class Registry:
    """Answers what the test says that a registry answers."""

    def __init__(self, *, history=(), ensembles=()) -> None:
        self._history = [{"note": "asked", **row} for row in history]
        self._ensembles = {ensemble.digest: ensemble for ensemble in ensembles}

    def history(self, _cca, _channel):
        """A channel's deployments."""
        return iter(self._history)

    def channel(self, _cca, _channel):
        """The last one."""
        if not self._history:
            raise RegistryClientError("404")
        return self._history[-1]

    def ensembles(self):
        """Every digest."""
        return [{"digest": digest} for digest in self._ensembles]

    def ensemble(self, digest):
        """One ensemble."""
        return self._ensembles[digest]


@pytest.fixture
def ledger():
    """Two moves of one channel and an ensemble were acknowledged."""
    ledger = Ledger()
    ledger.notes_asked.add("asked")
    for serial in (1, 2):
        ledger.moves["champion"][serial] = {"serial": serial, "note": "asked"}
        ledger.saw("champion", serial)
    ledger.published = {make_ensemble(1).digest}
    ledger.offered = {make_ensemble(1).digest, make_ensemble(2).digest}
    return ledger


def failures_of(ledger, *, history):
    """What the check of a channel finds."""
    findings = Findings()
    check_channel(Registry(history=history), "champion", ledger, findings)
    return findings.failures


def test_a_history_as_it_was_told_passes(ledger):
    assert failures_of(ledger, history=[{"serial": 1}, {"serial": 2}]) == []
    assert failures_of(ledger, history=[{"serial": 1}, {"serial": 2}, {"serial": 3}]) == []


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], "lost whole"),
        ([{"serial": 1}], "stands at 1, 2 was seen"),
        ([{"serial": 1}, {"serial": 2}, {"serial": 4}], "gaps"),
        ([{"serial": 1}, {"serial": 2, "digest": "other"}], "was told as"),
        ([{"serial": 1}, {"serial": 2}, {"serial": 3, "note": "?"}], "nobody asked"),
    ],
)
def test_a_history_that_differs_is_found(ledger, history, expected):
    assert any(expected in failure for failure in failures_of(ledger, history=history))


def test_a_lost_an_invented_and_a_damaged_ensemble_are_found(ledger):
    findings = Findings()
    registry = Registry(ensembles=[make_ensemble(2), make_ensemble(3)])
    registry._ensembles[make_ensemble(2).digest] = make_ensemble(4)
    check_ensembles(registry, ledger, findings)
    assert [failure.split(" ")[0] for failure in findings.failures] == ["lost:", "nobody", make_ensemble(2).digest]


def test_a_damaged_file_is_found(tmp_path):
    assert check_files(tmp_path) == []
    (tmp_path / "registry.db").write_bytes(b"no database" * 1000)
    assert check_files(tmp_path)[0].startswith("the database is damaged")

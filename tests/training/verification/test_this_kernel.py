# SPDX-License-Identifier: MIT
"""Verification over real flows of this machine's kernel, with algorithms in BPF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from small import policed

from emulation.run.measures import Trial
from tests.emulation.mahimahi.test_in_bpf import program  # noqa: F401 (a fixture)
from tests.training.verification.test_verify import verified
from training.reports.cli import report
from training.study import Journal
from training.verification import runs
from training.verification.cases import kernel_cases
from training.verification.runs import VerifyTask, tally_of

pytestmark = [pytest.mark.bpf, pytest.mark.mahimahi, pytest.mark.usefixtures("program")]


@pytest.fixture(autouse=True)
def late_runs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asserted here holds for a late run, too, so that none is repeated."""
    monkeypatch.setattr(runs, "TRIES", 1)


def test_this_machines_kernel_runs_a_policed_file() -> None:
    [case] = kernel_cases(policed(), (0, 1), runs=1, duration_s=3)
    kept: dict[str, Any] = {}
    VerifyTask("it", "mahimahi", Trial("rtcp_bbr"), (case.scenario,), (0,)).run(kept.__setitem__, width=1)
    found = tally_of(kept["it-0"], group=case.group)
    assert found.retransmitted_pkts > 0
    assert found.goodput_bytes == pytest.approx(case.capacity_bytes, rel=0.02)
    # A busy machine delays the flow.
    assert 0.5 * case.limit_mbps < found.goodput_bytes_per_s * 8e-6 < 2 * case.limit_mbps


def test_this_machines_kernel_verifies_two_finalists(tmp_path: Path) -> None:
    ensemble = verified(runner="mahimahi", states=[[3]], classes=[1], runs=2, duration_s=2).run(
        Journal(tmp_path, key="cd" * 32)
    )
    found = ensemble.provenance["verified"]
    assert found["kernel"]
    assert not found["deterministic"]
    [row] = found["rows"]
    assert [len(one["runs"]) for one in row["finalists"]] == [2, 2]
    for run in [run for one in row["finalists"] for run in one["runs"]]:
        assert run["kernel"]["throughput_mbps"] > 0.3 * run["simulator"]["throughput_mbps"]
    file = tmp_path / "gr.json"
    ensemble.save(file)
    shown = CliRunner().invoke(report, ["verify", str(file), "--plot", str(tmp_path / "it.png")], env={"COLUMNS": "80"})
    assert f"kernel {found['kernel']}" in shown.output
    assert row["outcome"] in shown.output
    assert all(len(line) <= 80 for line in shown.output.splitlines()[:-1])
    assert (tmp_path / "it.png").stat().st_size > 0

# SPDX-License-Identifier: MIT
"""The simulator beside real flows of this machine's kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bpf.sole import built_program, sole_user
from tests.experiments.fidelity.test_fidelity_command import run

TRIES = 3


@pytest.mark.bpf
@pytest.mark.mahimahi
def test_the_simulator_agrees_with_this_machines_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the campaign's short version, with all the targets that the whole one is held to.

    Where the machine woke up late, which the campaign tells by timers of its own, those runs are run anew.
    """
    monkeypatch.setenv("CCATUNE_BPF", str(built_program()))
    words = ["--short", "--enforce", "--redo-disturbed", "--work", str(tmp_path)]
    for pattern in ("20mbps-rtt50-bdp1/bbr", "made-4g/cubic", "acks-10ms/gr", "outage-1s/cubic"):
        words += ["--only", pattern]
    with sole_user():
        for _ in range(TRIES):
            status = run(words)
            out = capsys.readouterr().out
            if status == 0 or "~" not in out:
                break
    if status == 1 and "~" in out:
        pytest.xfail(f"this machine woke up late, {TRIES} times over:\n{out}")
    assert status == 0, out
    assert "fidelity: 4 cases compared: all hold" in out

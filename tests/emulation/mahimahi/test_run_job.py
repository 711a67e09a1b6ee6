# SPDX-License-Identifier: MIT
"""The part that runs of scenarios and of schemes share: when a run begins, and when it is repeated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from emulation.mahimahi.namespace import run_job

JOB = {"mahimahi": "", "lead_ms": 100}


@pytest.fixture(autouse=True)
def no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_job.shells, "prepare", lambda _root, **_folder: None)


def test_a_run_that_was_late_is_repeated_with_a_doubled_lead_in_three_attempts_at_most() -> None:
    leads_ms: list[int] = []

    def late_until(lead_ms: int) -> dict[str, Any]:
        def attempt(_job: dict[str, Any], given_ms: int) -> dict[str, Any]:
            leads_ms.append(given_ms)
            if given_ms < lead_ms:
                raise run_job.LateError
            return {"lead_ms": given_ms}

        return run_job.run(JOB, attempt, lambda _job: None)

    assert late_until(400) == {"lead_ms": 400}
    with pytest.raises(run_job.shells.ShellError, match="expected everything ready within 400 ms"):
        late_until(401)
    assert leads_ms == [100, 200, 400] * 2


def test_a_run_begins_a_lead_after_the_trace_that_the_log_states(tmp_path: Path) -> None:
    log = tmp_path / "log"
    now_ms = round(time.time() * 1000)
    log.write_text(f"# init timestamp: {now_ms}\n# base timestamp: 40\n50 # 1504\n")
    assert run_job.begins_at_s(log, 60_000) == (now_ms + 60_040) / 1000
    with pytest.raises(run_job.LateError):
        run_job.begins_at_s(log, -60_000)


def test_a_trace_has_an_opportunity_in_each_ms_of_the_lead_and_does_not_repeat_in_the_run(tmp_path: Path) -> None:
    run_job.write_trace(tmp_path / "trace", [1, 1, 7], lead_ms=4, duration_ms=10)
    assert (tmp_path / "trace").read_text().split() == ["1", "2", "3", "5", "5", "11", "60014"]

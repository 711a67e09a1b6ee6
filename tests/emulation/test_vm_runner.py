# SPDX-License-Identifier: MIT
"""The runner of scenarios in a guest, without a guest."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from emulation import FlowSpec, LinkSpec, Scenario
from emulation.vm import runner


def test_the_guest_runs_in_the_thread_that_an_interrupt_reaches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def guest(jobs: list[Any], *, folder: Path, **_: object) -> None:
        assert threading.current_thread() is caller
        assert len(jobs) == 1
        (folder / "result-0.json").write_text(json.dumps({"error": "no flow"}), encoding="utf-8")
        raise KeyboardInterrupt

    caller = threading.current_thread()
    found: dict[int, object] = {}
    monkeypatch.setattr(runner, "mahimahi_root", lambda: tmp_path)
    monkeypatch.setattr(runner, "_run_all", guest)
    scenario = Scenario(name="one", link=LinkSpec(rate_mbps=10), flows=(FlowSpec(cca="gr"),), duration_s=5)
    with pytest.raises(KeyboardInterrupt):
        runner.emulate_each([scenario], found.__setitem__)
    assert str(found[0]) == "one: no flow"

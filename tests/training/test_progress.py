# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import re

import pytest
from links import STAGES, recording, study
from rich.console import Console

from training.evaluation.runner import CaseRunner
from training.progress import Terminal
from training.study import Study


def test_bars_keep_their_times_at_80_columns() -> None:
    now_s, output = [0.0], io.StringIO()
    console = Console(file=output, width=80, force_terminal=True, color_system=None, legacy_windows=False)
    with Terminal(console=console, clock=lambda: now_s[0]) as terminal:
        terminal.phase("reading traces", total=1)
        terminal.expect(400, after_s=600)
        terminal.phase("searching: a stage with a long name", total=100)
        now_s[0] = 3000.0
        terminal.advance(50)
        terminal._bars.refresh()
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "\n", output.getvalue()).split("\n")]
    bars = [line for line in lines if "%" in line]
    assert all(len(line) <= 80 for line in bars)
    assert all(re.search(r" {1,3}\d+ % \d:\d\d:\d\d( (\d:\d\d:\d\d|-:--:--) left)?$", line) for line in bars), bars
    # 350 of 400 are left at 50 in 3000 s, and 600 s after that.
    assert any(line.endswith("50 % 0:00:00 6:00:00 left") for line in bars), bars


def test_the_remaining_time_of_all_stages_is_known_from_the_first_one_on(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated, estimates = [0.0], list[tuple[float, float]]()
    run = CaseRunner.run

    def counted(self: CaseRunner, cases: list, points: list) -> list:
        simulated[0] += sum(case.capacity_bytes for case in cases) * len(points)
        return run(self, cases, points)

    class Notes(Terminal):
        def advance(self, amount: float) -> None:
            super().advance(amount)
            if (left_s := self.left_s()) and simulated[0]:
                estimates.append((simulated[0], left_s))

    monkeypatch.setattr(CaseRunner, "run", counted)
    # The clock counts simulated bytes, so that the test does not depend on the machine.
    progress = Notes(quiet=True, clock=lambda: simulated[0])
    Study(study(stages=STAGES), [recording("a", seed=1), recording("b", seed=2)], threads=1, progress=progress).run()
    whole = simulated[0]
    early = [(at, left) for at, left in estimates if at > whole / 10]
    assert early[0][0] < whole / 3
    assert max(abs(whole - at - left) for at, left in early) < 0.2 * whole

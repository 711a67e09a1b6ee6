# SPDX-License-Identifier: MIT
from __future__ import annotations

import io
import itertools
import json
import re
from pathlib import Path

import pytest
from links import STAGES, recording, study
from rich.console import Console

from training.evaluation.runner import CaseRunner
from training.progress import Progress, Terminal
from training.progress_file import FileProgress
from training.study import Journal, Study


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


def test_a_file_has_the_progress_with_what_an_earlier_run_finished(tmp_path: Path) -> None:
    path, journal = tmp_path / "progress.json", Journal(tmp_path, key="ab" * 32)
    shown: list[dict] = []

    class Stops(FileProgress):
        def advance(self, amount: float) -> None:
            super().advance(amount)
            shown.append(json.loads(path.read_bytes()))
            if shown[-1]["searches"] == 2:
                raise KeyboardInterrupt

    def run(progress: Progress) -> None:
        recordings = [recording("a", seed=1), recording("b", seed=2)]
        Study(study(stages=STAGES), recordings, threads=1, progress=progress).run(journal)

    now_s = itertools.count(0.0)
    with pytest.raises(KeyboardInterrupt), Stops(path, quiet=True, clock=lambda: next(now_s)) as progress:
        run(progress)
    shares = [one["share"] for one in shown]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] < 1
    assert shown[-1]["phase"] == "searching: level"
    assert (shown[-1]["points"], len(shown[-1]["best"])) == (4, 2)
    assert {"meets", "metrics"} == set(shown[-1]["best"][0])
    with FileProgress(path, quiet=True) as progress:
        run(progress)
    last = json.loads(path.read_bytes())
    assert (last["share"], last["left_s"]) == (1.0, 0.0)
    assert last["searches"] == len(journal.parts()) > 4
    assert last["points"] == 2 * last["searches"] >= last["points_meeting"]

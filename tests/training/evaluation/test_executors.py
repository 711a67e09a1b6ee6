# SPDX-License-Identifier: MIT
"""Processes that run tasks end with the study, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import Mock

from training.evaluation.executors import Processes


@dataclass(frozen=True)
class Waits:
    """A task that says which process it is in. Its only step takes a minute."""

    folder: Path
    name: str = "waits"
    amount: float = 1.0
    part: None = None

    def begin(self, threads: int, snapshot: object = None) -> Waits:
        """Begin it."""
        del threads, snapshot
        return self

    def step(self) -> float:
        """Wait."""
        (self.folder / str(os.getpid())).touch()
        time.sleep(60)
        return 1.0

    def snapshot(self) -> None:
        """It has no state."""


def wait_in(folder: Path) -> None:
    """Run one."""
    Processes(1).run([Waits(folder)], Mock(snapshot_of=lambda _name: None))


def test_they_end_when_the_study_is_killed(tmp_path: Path) -> None:
    code = f"from pathlib import Path; from {__name__} import wait_in; wait_in(Path({str(tmp_path)!r}))"
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", code], cwd=root) as study:
        deadline_s = time.monotonic() + 30
        while not list(tmp_path.iterdir()):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        study.send_signal(signal.SIGKILL)
    [number] = [int(path.name) for path in tmp_path.iterdir()]
    while Path(f"/proc/{number}/cmdline").exists() and Path(f"/proc/{number}/cmdline").read_bytes():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)

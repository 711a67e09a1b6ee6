# SPDX-License-Identifier: MIT
"""Observes the machine during a real run, and decides whether the run was disturbed.

Mahimahi's shells forward packets when a timer of 1 ms wakes them up. The program _late.py measures how late such timers
are: it sets timers of 2 ms and has real-time priority, as the shells do. A run is disturbed if more than LATE_MOST of
its timers are more than 1 ms late. Timers that come due while the whole machine pauses count as late.

The load of the processors is a poor indicator: on a virtual machine idle processors were later than busy ones
(emulation/mahimahi/processors.py).
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict, Field

LATE_MOST = 0.01
# Upper bound on the time from the end of a scenario to the observation of the machine.
# During this time the shells end and their log is read.
_AFTER_S = 5.0
_PROGRAM = Path(__file__).with_name("_late.py")


class Machine(BaseModel):
    """The state of the machine during a run.

    late_share: the share of timers that were more than 1 ms late; None: not measured.
    """

    # Recorded runs state more about the machine.
    model_config = ConfigDict(extra="ignore", frozen=True)

    late_share: float | None = Field(None, ge=0, le=1)


def is_disturbed(machine: Machine | None) -> bool:
    """Whether timers, and thus Mahimahi's shells, woke up late during the run."""
    return machine is not None and machine.late_share is not None and machine.late_share > LATE_MOST


class Watch:
    """Observes the machine while its context is active. timers: also measure how late timers are."""

    def __init__(self, *, timers: bool = False) -> None:
        # The lines of the program: time of the line in s, timers due, late timers.
        self._lines: list[tuple[float, int, int]] = []
        self._timers = timers
        self._program: subprocess.Popen[str] | None = None

    def __enter__(self) -> Watch:
        if self._timers:
            self._program = subprocess.Popen(
                [sys.executable, "-I", str(_PROGRAM)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
            )
            threading.Thread(target=self._read, args=(self._program,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._program is not None:
            self._program.terminate()
            self._program.wait()

    def _read(self, program: subprocess.Popen[str]) -> None:
        assert program.stdout is not None  # noqa: S101 (it is a pipe)
        with program.stdout as lines:
            for line in lines:
                at_s, count, late = line.split()
                self._lines.append((float(at_s), int(count), int(late)))

    def during_a_run(self, duration_s: float) -> Machine:
        """Return the state during a run of `duration_s` whose results have just been read.

        The interval is longer than the run by _AFTER_S, because the end of the run lies some seconds in the past.
        """
        return self.during_the_last(duration_s + _AFTER_S)

    def during_the_last(self, duration_s: float) -> Machine:
        """Return the state during the last `duration_s` seconds."""
        now_s = time.monotonic()
        lines = [line for line in list(self._lines) if line[0] > now_s - duration_s]
        timers = sum(count for _, count, _ in lines)
        return Machine(late_share=round(sum(late for _, _, late in lines) / timers, 5) if timers else None)

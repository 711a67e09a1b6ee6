# SPDX-License-Identifier: MIT
"""Observes the machine during a real run, and decides whether the run was disturbed.

Mahimahi's shells forward packets when a timer of 1 ms wakes them up. The program _late.py measures how late such timers
are: it sets timers of 2 ms and has real-time priority, as the shells do. A run is disturbed if more than LATE_MOST of
its timers are more than 1 ms late. Timers that come due while the whole machine pauses count as late.

The load of the processors is a poor indicator: on a virtual machine idle processors were later than busy ones
(emulation/mahimahi/processors.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["LATE_MOST", "Machine", "Watch", "is_disturbed"]

LATE_MOST = 0.01
# Upper bound on the time from the end of a scenario to the observation of the machine.
# During this time the shells end and their log is read.
_AFTER_S = 5.0
_PROGRAM = Path(__file__).with_name("_late.py")
# Fields of the line `cpu` in /proc/stat: idle and iowait.
_IDLE_FIELDS = (3, 4)


class Machine(BaseModel):
    """The state of the machine during a run.

    idle_share: the share of the processors' time in which they were idle. load: the load average over a minute.
    late_share: the share of timers that were more than 1 ms late; None: not measured.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    idle_share: float = Field(ge=0, le=1)
    load: float
    late_share: float | None = Field(None, ge=0, le=1)


def is_disturbed(machine: Machine | None) -> bool:
    """Whether timers, and thus Mahimahi's shells, woke up late during the run."""
    return machine is not None and machine.late_share is not None and machine.late_share > LATE_MOST


def _times() -> tuple[int, int]:
    """Return the numbers of idle ticks and of all ticks of the processors since boot."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return sum(fields[at] for at in _IDLE_FIELDS), sum(fields)


class Watch:
    """Observes the machine while its context is active. timers: also measure how late timers are."""

    def __init__(self, *, timers: bool = False) -> None:
        self._looks = [(time.monotonic(), *_times())]
        # The lines of the program: time of the line in s, timers due, late timers.
        self._told: list[tuple[float, int, int]] = []
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
                self._told.append((float(at_s), int(count), int(late)))

    def during_a_run(self, duration_s: float) -> Machine:
        """Return the state during a run of `duration_s` whose results have just been read.

        The interval is longer than the run by _AFTER_S, because the end of the run lies some seconds in the past.
        """
        return self.during_the_last(duration_s + _AFTER_S)

    def during_the_last(self, duration_s: float) -> Machine:
        """Return the state during the last `duration_s` seconds.

        idle_share covers a longer time: since the latest observation that is at least `duration_s` old, or since the
        first one. load is the present load.
        """
        now_s, (idle, ticks) = time.monotonic(), _times()
        before = [look for look in self._looks if look[0] <= now_s - duration_s]
        _, idle_then, ticks_then = before[-1] if before else self._looks[0]
        self._looks.append((now_s, idle, ticks))
        told = [line for line in list(self._told) if line[0] > now_s - duration_s]
        timers = sum(count for _, count, _ in told)
        return Machine(
            idle_share=round((idle - idle_then) / max(ticks - ticks_then, 1), 3),
            load=round(os.getloadavg()[0], 2),
            late_share=round(sum(late for _, _, late in told) / timers, 5) if timers else None,
        )

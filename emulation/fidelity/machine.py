# SPDX-License-Identifier: MIT
"""What else the machine did while a real run ran, and whether that disturbed it.

Mahimahi's shells forward packets when a timer of 1 ms wakes them up. A run is disturbed where more than LATE_MOST of
such timers, here of 2 ms, were more than 1 ms late: measured by one of our own (_late.py), which goes first as the
shells do. Timers that came due in a pause of the whole machine are late ones. How busy the processors were says little:
on a virtual machine idle ones were later than busy ones (emulation/processors.py).
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
# Between the end of what a scenario asks for and a look at the machine: the shells end, and their log is read.
_AFTER_S = 5.0
_PROGRAM = Path(__file__).with_name("_late.py")
# Fields of the line `cpu` in /proc/stat: idle, and waiting for a disk.
_IDLE_FIELDS = (3, 4)


class Machine(BaseModel):
    """idle_share: of its processors' time. late_share: of timers, more than 1 ms late; None: not looked at."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    idle_share: float = Field(ge=0, le=1)
    load: float
    late_share: float | None = Field(None, ge=0, le=1)


def is_disturbed(machine: Machine | None) -> bool:
    """Whether Mahimahi's shells woke up late in the run during which this was seen."""
    return machine is not None and machine.late_share is not None and machine.late_share > LATE_MOST


def _times() -> tuple[int, int]:
    """(idle, all) ticks of the processors so far."""
    fields = [int(word) for word in Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return sum(fields[at] for at in _IDLE_FIELDS), sum(fields)


class Watch:
    """Looks at the machine while it is entered. timers: also at how late they are."""

    def __init__(self, *, timers: bool = False) -> None:
        self._looks = [(time.monotonic(), *_times())]
        # When a line came, the timers that it tells of, and how many of them were late.
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
        """Of so many seconds that is over by now, its results read: since somewhat before it began."""
        return self.during_the_last(duration_s + _AFTER_S)

    def during_the_last(self, duration_s: float) -> Machine:
        """Since the last look before so many seconds ago, or since the first."""
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

# SPDX-License-Identifier: MIT
"""A program that measures how late timers are. It wakes up every 2 ms, much as a Mahimahi shell does every ms.

Every LINE_NS it prints a line with time.monotonic(), the number of timers that were due, and the number of these that
were more than LATE_NS late. Timers that came due while the program could not run count as well: a pause of 100 ms
counts as about fifty late timers, not as one. The program ends when its output is closed.
"""

import contextlib
import os
import sys
import time

EVERY_NS = 2_000_000
LATE_NS = 1_000_000
# Interval between lines. Ending a run takes longer, so all timers of a run are reported before its result is read.
LINE_NS = 200_000_000


def answered(due_ns: int, now_ns: int) -> tuple[int, int]:
    """Return the numbers of due and of late timers for a wake-up at now_ns, if the first timer was due at due_ns."""
    timers = (now_ns - due_ns) // EVERY_NS + 1
    return timers, max(0, -((due_ns + LATE_NS - now_ns) // EVERY_NS))


def main() -> None:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    now_ns = time.monotonic_ns()
    line_ns, count, late = now_ns, 0, 0
    while True:
        due_ns = (now_ns // EVERY_NS + 1) * EVERY_NS
        time.sleep((due_ns - now_ns) / 1e9)
        now_ns = time.monotonic_ns()
        these, of_them_late = answered(due_ns, now_ns)
        count += these
        late += of_them_late
        if now_ns - line_ns >= LINE_NS:
            sys.stdout.write(f"{now_ns / 1e9:.3f} {count} {late}\n")
            sys.stdout.flush()
            line_ns, count, late = now_ns, 0, 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()

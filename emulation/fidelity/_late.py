# SPDX-License-Identifier: MIT
"""A program that notes how late timers are: it sleeps until every second whole ms, as a shell of Mahimahi does.

Every LINE_NS it prints a line: time.monotonic(), how many timers were due, and how many of them were answered more than
LATE_NS late. Timers that came due while it was kept from running count as well: a pause of 100 ms is some fifty late
ones, as it would be for a shell, and not one. Ends when nobody reads.
"""

import contextlib
import os
import sys
import time

EVERY_NS = 2_000_000
LATE_NS = 1_000_000
# What a run is told less than its own time by, at most: short beside what taking it down takes.
LINE_NS = 200_000_000


def answered(due_ns: int, now_ns: int) -> tuple[int, int]:
    """(timers, late ones) that an awakening at now_ns answers, of which the first was due at due_ns."""
    timers = (now_ns - due_ns) // EVERY_NS + 1
    return timers, max(0, -((due_ns + LATE_NS - now_ns) // EVERY_NS))


def main() -> None:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    now_ns = time.monotonic_ns()
    told_ns, count, late = now_ns, 0, 0
    while True:
        due_ns = (now_ns // EVERY_NS + 1) * EVERY_NS
        time.sleep((due_ns - now_ns) / 1e9)
        now_ns = time.monotonic_ns()
        these, of_them_late = answered(due_ns, now_ns)
        count += these
        late += of_them_late
        if now_ns - told_ns >= LINE_NS:
            sys.stdout.write(f"{now_ns / 1e9:.3f} {count} {late}\n")
            sys.stdout.flush()
            told_ns, count, late = now_ns, 0, 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()

# SPDX-License-Identifier: MIT
"""A program that notes how late timers are: it sleeps until every second whole ms, as a shell of Mahimahi does.

Once a second it prints a line: time.monotonic(), how often it woke up, and how many times by more than LATE_NS late.
Ends when nobody reads.
"""

import contextlib
import os
import sys
import time

EVERY_NS = 2_000_000
LATE_NS = 1_000_000
LINE_NS = 1_000_000_000


def main() -> None:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    now_ns = time.monotonic_ns()
    told_ns, count, late = now_ns, 0, 0
    while True:
        due_ns = (now_ns // EVERY_NS + 1) * EVERY_NS
        time.sleep((due_ns - now_ns) / 1e9)
        now_ns = time.monotonic_ns()
        count += 1
        late += now_ns - due_ns > LATE_NS
        if now_ns - told_ns >= LINE_NS:
            sys.stdout.write(f"{now_ns / 1e9:.3f} {count} {late}\n")
            sys.stdout.flush()
            told_ns, count, late = now_ns, 0, 0


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()

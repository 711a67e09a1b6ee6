# SPDX-License-Identifier: MIT
"""The training process of a runner: `python -m serving.jobs.child PARENT_PID train ...` is `ccatune train ...`.

It ends with the runner, even after a kill -9 of that one: the kernel sends it SIGKILL (prctl, PR_SET_PDEATHSIG). Its
processes end with it (training/evaluation/executors.py). The work that a study has kept in its journal stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import ccatune

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the command of the arguments, as long as the parent lives."""
    parent = int(sys.argv[1])
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # A parent that was gone before the call sends no signal.
    if os.getppid() != parent:
        sys.exit(1)
    ccatune.main(sys.argv[2:])


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: MIT
"""The command line that starts a run's program (namespace/link.py, pantheon/inside.py) in namespaces of its own.

It also ensures that all processes, rules and mounts of the run vanish when the starting process ends or is killed:

setpriv --pdeathsig KILL      kills `unshare` when the process that started it ends
unshare --kill-child=KILL     then kills the program, the first process of its PID namespace. The kernel then kills all
                              other processes in that namespace. With the last of them the network and mount
                              namespaces vanish, and with these all rules, settings and mounts
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["LINK", "launch_words"]

LINK = Path(__file__).with_name("namespace") / "link.py"


def launch_words(program: Path = LINK) -> list[str]:
    """Return the command line of a run, whose program reads its job from standard input."""
    return [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"),
        # The interpreter outside of the virtual environment. The program needs none of the environment's packages.
        *(str(Path(sys.executable).resolve()), "-I", "-S", str(program)),
    ]

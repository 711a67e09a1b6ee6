# SPDX-License-Identifier: MIT
"""How a run gets its namespaces, and loses them: the words that start emulation/mahimahi/namespace/link.py.

setpriv --pdeathsig KILL      `unshare` is killed when the process that started it ends, by whatever signal
unshare --kill-child=KILL     and then so is link.py, the first process of its namespace of processes,
                              with which the kernel ends all others there; with the last of them go the
                              namespaces of network and mounts, and so every rule, setting and mount
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["LINK", "launch_words"]

LINK = Path(__file__).with_name("namespace") / "link.py"


def launch_words() -> list[str]:
    """The command line of one run, which then reads its job."""
    return [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--"),
        # The interpreter behind the environment: the program has no use for its packages.
        *(str(Path(sys.executable).resolve()), "-I", "-S", str(LINK)),
    ]

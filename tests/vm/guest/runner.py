# SPDX-License-Identifier: MIT
"""Runs programs in the guest, one after the other: python -I -S runner.py NAME...

Each name is a file beside this one with a function `main(job) -> result`; `job` is `job.json` of the shared
folder. NAME:CCA runs it for a subject of the job, whose words are then the job's own. Result, duration and what the
kernel logged meanwhile go to `NAME.json` there (`NAME-CCA.json`), and so does the traceback of a program that failed.
The modules are loaded before each program if they are not.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import inside
import tree


def logged_since(kmsg: int) -> list[str]:
    """The kernel's messages that this reader has not seen yet; each read gives one."""
    lines = []
    while True:
        try:
            record = os.read(kmsg, 8192).decode(errors="replace")
        except BlockingIOError:
            return lines
        except BrokenPipeError:
            lines.append("(messages were overwritten before they were read)")
            continue
        lines.append(record.partition(";")[2].split("\n")[0])


def be_patient() -> None:
    """A machine so busy that a processor of the guest does not run for 20 s is no stall of the guest's kernel."""
    Path("/sys/module/rcupdate/parameters/rcu_cpu_stall_timeout").write_text("300")
    Path("/proc/sys/kernel/watchdog_thresh").write_text("60")


def main() -> None:
    """Run the programs and write what came of them."""
    inside.require_guest()
    job = json.loads((inside.SHARE / "job.json").read_text())
    # Before anything hides the kernel's own modules, and before their words are anybody's.
    inside.run("modprobe", "-a", "veth", "sch_netem", "sch_tbf")
    be_patient()
    # Programs that enable an algorithm, or run the agent, mean the modules. The program bpf names ccatune-bpf itself.
    os.environ["CCATUNE_BPF"] = "/nonexistent"
    kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(kmsg, 0, os.SEEK_END)
    for name in sys.argv[1:]:
        program, _, cca = name.partition(":")
        start_s = time.monotonic()
        outcome: dict[str, object] = {}
        try:
            tree.load_modules(job)
            cca = cca or tree.CCA
            tree.choose(cca, job["subjects"][cca]["name"])
            outcome["result"] = importlib.import_module(program).main({**job, **job["subjects"][tree.CCA]})
        except BaseException:  # whatever it was, the host is to see it
            outcome["error"] = traceback.format_exc()
        outcome["seconds"] = round(time.monotonic() - start_s, 1)
        outcome["kernel_log"] = logged_since(kmsg)
        (inside.SHARE / f"{name.replace(':', '-')}.json").write_text(json.dumps(outcome))


main()

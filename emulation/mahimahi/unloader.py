# SPDX-License-Identifier: MIT
"""Holds a BPF file system for a process, and unloads the algorithms that it loaded there: unloader.py PROGRAM.

It runs in a mount namespace of its own (emulation/mahimahi/in_bpf.py), so that the machine's mounts do not change. It
mounts the file system at FOLDER, prints `ready`, and waits until its standard input is closed. This happens when its
owner closes it, and also when the owner ends, by whatever signal. Then it unloads every algorithm whose pins are below
PINS, with PROGRAM (ccatune-bpf). Its exit status is 1 if an algorithm could not be unloaded.

It uses the standard library alone.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

# The kernel makes this folder for a BPF file system.
FOLDER = Path("/sys/fs/bpf")
PINS = FOLDER / "ccatune"
UNLOAD_LIMIT_S = 30.0


def unload_all(program: str) -> bool:
    """Unload every algorithm. Return whether all could be unloaded."""
    names = sorted(path.name for path in PINS.iterdir()) if PINS.is_dir() else []
    done = [_unload(program, name) for name in names]
    return all(done)


def _unload(program: str, name: str) -> bool:
    words = [program, "--pins", str(PINS), "unload", name]
    try:
        return subprocess.run(words, check=False, timeout=UNLOAD_LIMIT_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    """Hold the file system until standard input is closed; return the exit status."""
    # Who ends the owner may send the same signal to all its processes. The owner's end is what counts.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if subprocess.run(["mount", "-t", "bpf", "-o", "mode=0700", "bpf", str(FOLDER)], check=False).returncode:
        return 1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    return 0 if unload_all(sys.argv[1]) else 1


if __name__ == "__main__":
    sys.exit(main())

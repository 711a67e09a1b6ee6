# SPDX-License-Identifier: MIT
"""How long `ccatune --help` takes, as a user waits for it: a new process each time, median of 11."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import click

RUNS = 11
LIMIT_S = 0.3


def time_help_s() -> float:
    """Start the installed command once and wait for it."""
    start_s = time.perf_counter()
    subprocess.run([Path(sys.prefix) / "bin" / "ccatune", "--help"], check=True, capture_output=True)
    return time.perf_counter() - start_s


def main() -> None:
    """Print the median; exit 1 if it is over the limit."""
    time_help_s()  # brings the files into memory
    median_s = statistics.median(time_help_s() for _ in range(RUNS))
    click.echo(f"ccatune --help: median of {RUNS} {median_s:.3f} s, limit {LIMIT_S} s")
    sys.exit(median_s >= LIMIT_S)


if __name__ == "__main__":
    main()

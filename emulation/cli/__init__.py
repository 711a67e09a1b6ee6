# SPDX-License-Identifier: MIT
"""Commands of emulation: simulate, bench, traces."""

from emulation.cli.bench_command import bench
from emulation.cli.simulate_command import simulate

__all__ = ["bench", "simulate"]

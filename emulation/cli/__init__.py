# SPDX-License-Identifier: MIT
"""Commands of emulation: simulate, bench, traces."""

from emulation.cli.bench import bench
from emulation.cli.simulate import simulate

__all__ = ["bench", "simulate"]

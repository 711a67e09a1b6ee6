# SPDX-License-Identifier: MIT
"""Runs the same scenarios in the simulator and on real kernels, and computes the simulator's error in each figure."""

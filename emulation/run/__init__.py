# SPDX-License-Identifier: MIT
"""Runs scenarios in the simulator, and the results of runs."""

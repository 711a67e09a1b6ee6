# SPDX-License-Identifier: MIT
"""Reproduces the papers' experiments and compares their statements with the simulator. Only the reports import this."""

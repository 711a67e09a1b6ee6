# SPDX-License-Identifier: MIT
"""Runs points on cases, scores them, and distributes the searches."""

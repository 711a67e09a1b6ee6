# SPDX-License-Identifier: MIT
"""Runs the simulator's scenarios over Mahimahi's emulated links, with the TCP of this machine's kernel."""

from __future__ import annotations

from emulation.mahimahi.runner import lacking

__all__ = ["lacking"]

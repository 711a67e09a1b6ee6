# SPDX-License-Identifier: MIT
"""Runs the simulator's scenarios over Mahimahi's emulated links, with the TCP of this machine's kernel."""

from __future__ import annotations

from emulation.mahimahi.runner import emulate, emulate_many, lacking

__all__ = ["emulate", "emulate_many", "lacking"]

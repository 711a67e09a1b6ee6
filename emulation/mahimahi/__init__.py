# SPDX-License-Identifier: MIT
"""Real links: Mahimahi's shells around real TCP, on this machine's kernel, for the Scenario of the simulator."""

from __future__ import annotations

from emulation.mahimahi.runner import emulate, emulate_many, lacking

__all__ = ["emulate", "emulate_many", "lacking"]

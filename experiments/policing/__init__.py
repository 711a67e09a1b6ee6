# SPDX-License-Identifier: MIT
"""Compares statements of R-TCP 2026 on files behind a mobile operator's policer with the simulator."""

from experiments.policing.campaign import PolicingSettings, load_settings, run_campaign
from experiments.policing.statements import STATEMENTS, judge
from experiments.policing.tables import rates_table

__all__ = ["STATEMENTS", "PolicingSettings", "judge", "load_settings", "rates_table", "run_campaign"]

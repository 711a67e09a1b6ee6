# SPDX-License-Identifier: MIT
"""What R-TCP 2026 says of files through a mobile operator's policer, beside what the simulator shows."""

from training.papers.policing.campaign import PolicingSettings, load_settings, run_campaign
from training.papers.policing.statements import STATEMENTS, judge
from training.papers.policing.tables import rates_table

__all__ = ["STATEMENTS", "PolicingSettings", "judge", "load_settings", "rates_table", "run_campaign"]

# SPDX-License-Identifier: MIT
"""What R-TCP 2026 says of files through a mobile operator's policer, beside what the simulator shows."""

from emulation.policing.campaign import PolicingSettings, load_settings, run_campaign
from emulation.policing.statements import STATEMENTS, judge
from emulation.policing.tables import rates_table

__all__ = ["STATEMENTS", "PolicingSettings", "judge", "load_settings", "rates_table", "run_campaign"]
